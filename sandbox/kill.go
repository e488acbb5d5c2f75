package sandbox

import (
	"context"
	"errors"
	"syscall"
	"time"
)

const (
	killPace  = 10 * time.Millisecond // how often KillAll strikes again while something is left
	deepPace  = 50 * time.Millisecond // how often on rung subreaper it strikes below the bridge's own children
	reapTime  = 2 * time.Millisecond  // how long one round reaps: those who fork and exit without end make more than any number
	restLimit = 10 * time.Second      // of the last kill, and how long a bridge without descendants waits to be seen

	emptySignal = syscall.SIGUSR2 // from the host to a bridge on rung subreaper: end everything
)

// KillAll ends every process of the session but the bridge, until none is left or ctx ends. true is a proof that none was
// left at that moment, which only process 1 of a pid namespace and a subreaper can give.
func (r *Reaper) KillAll(ctx context.Context) bool {
	if spared {
		return r.place.Rung != ProcessGroup
	}
	pace := time.NewTicker(killPace)
	defer pace.Stop()
	deep := time.Now()
	for quiet := 0; ; {
		r.mu.Lock()
		reaped := r.reaped
		r.mu.Unlock()
		switch r.place.Rung {
		case PIDNamespace:
			// As process 1 this reaches everything in the namespace but ourselves. Whatever is left has a parent in it,
			// in the end us: no child means that nothing is left.
			if err := syscall.Kill(-1, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return false
			}
			if r.reapSome() {
				return true
			}
		case Subreaper:
			if r.killChildren() {
				return true
			}
			if time.Since(deep) > deepPace {
				r.strike()
				deep = time.Now()
			}
		default:
			if r.strike() {
				quiet = 0
			} else if quiet++; quiet > 1 { // one look can miss what is being started
				return false
			}
		}
		select {
		case <-reaped:
		case <-pace.C:
		case <-ctx.Done():
			return false
		}
	}
}

// reapSome reaps for no longer than its time. none is true when no child is left at all.
func (r *Reaper) reapSome() (none bool) {
	for began := time.Now(); ; {
		more, none := r.sweepBatch()
		if !more || time.Since(began) > reapTime {
			return none
		}
	}
}

// killChildren reaps what has ended and kills what is a child of ours at this moment. A child that was not reaped keeps
// its pid, so that nobody else can be met. Only children: what is further down comes to us as its parents end, be its
// descent as it may, and no child at all means that nothing is left.
func (r *Reaper) killChildren() (none bool) {
	if r.reapSome() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pid := range children() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	return false
}

// ident is a process for as long as this machine runs: a pid comes again, its start time does not.
type ident struct {
	pid   int
	start uint64
}

// strike finds what it can of a session by ancestry and marker, without waiting: everything found is stopped, until a
// census finds nothing new, and then killed, so that nothing can replace what was killed before it. It tells whether
// anything could be signalled.
func (r *Reaper) strike() bool {
	met := map[ident]bool{}
	for fresh, round := true, 0; fresh && round < strikeRounds; round++ {
		fresh = false
		for _, i := range r.census() {
			id := ident{i.pid, i.start}
			if !met[id] && id.signal(syscall.SIGSTOP) {
				met[id], fresh = true, true
			}
		}
	}
	some := false
	for id := range met {
		some = id.signal(syscall.SIGKILL) || some
	}
	return some
}

// strikeRounds bounds the chase after processes that start others faster than they are found.
const strikeRounds = 20

// signal reaches that very process or none.
func (id ident) signal(sig syscall.Signal) bool {
	h, err := openHandle(id.pid)
	if err != nil {
		return false
	}
	defer h.close()
	start, err := readStart(id.pid)
	return err == nil && start == id.start && !h.gone() && h.signal(sig) == nil
}

// Rest is the end of a bridge on rung subreaper; on others it does nothing. Nothing is started from here on. Whatever
// descends from the bridge is ended, and when that is done the bridge says so in its name, which nobody else can write,
// and waits to be seen and killed by its host. It returns when nobody comes, when ctx ends, or when something cannot be
// ended.
func (r *Reaper) Rest(ctx context.Context) {
	if r.place.Rung != Subreaper {
		return
	}
	r.rest.Do(func() {
		r.mu.Lock()
		r.sealed = true
		r.mu.Unlock()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), restLimit)
		defer cancel()
		if !r.KillAll(limited) || r.place.sayEmpty() != nil {
			return
		}
		select {
		case <-limited.Done():
		case <-ctx.Done():
		}
	})
}
