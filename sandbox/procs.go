package sandbox

import (
	"context"
	"os"
	"strings"
	"syscall"
	"time"
)

// Proc is one process as a census saw it.
type Proc struct {
	PID   int
	PPID  int
	Start uint64 // as in Record
	Argv  []string
}

// procInfo is what the kernel tells about a process, argv left out because it is read only for those that matter.
type procInfo struct {
	pid, ppid, session int
	uid                int // effective; set by lookup only
	start              uint64
	zombie             bool
}

func (i procInfo) proc() Proc {
	return Proc{PID: i.pid, PPID: i.ppid, Start: i.start, Argv: argv(i.pid)}
}

// Speaks names the pipes, or sockets, that a process has as its standard input and output; it is "" where either is
// anything else, or cannot be told. Two processes of which it is the same take part in the same conversation.
func (p Proc) Speaks() string {
	in, out := standardStreams(p.PID)
	if !channel(in) || !channel(out) {
		return ""
	}
	return in + " " + out
}

func channel(link string) bool {
	return strings.HasPrefix(link, "pipe:[") || strings.HasPrefix(link, "socket:[")
}

// descendants keeps what is below root in the tree of parents, root itself left out.
func descendants(all []procInfo, root int) []procInfo {
	below := map[int]bool{root: true}
	for grown := true; grown; {
		grown = false
		for _, i := range all {
			if below[i.ppid] && !below[i.pid] {
				below[i.pid] = true
				grown = true
			}
		}
	}
	var out []procInfo
	for _, i := range all {
		if below[i.pid] && i.pid != root {
			out = append(out, i)
		}
	}
	return out
}

// family lists what lives below a process, by parenthood and by session.
func family(root int) []Proc {
	all := processes()
	in := map[int]bool{}
	for _, i := range descendants(all, root) {
		in[i.pid] = true
	}
	var out []Proc
	for _, i := range all {
		if (in[i.pid] || i.session == root) && i.pid != root && !i.zombie {
			out = append(out, i.proc())
		}
	}
	return out
}

// marked lists the living processes that carry a marker.
func marked(marker string) []Proc { return carriers(map[string]bool{marker: true}) }

// end kills one process, if it is still the one that the census saw, and waits until it is gone.
func end(ctx context.Context, p Proc) error {
	h, err := openHandle(p.PID)
	if err == ErrGone {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.close()
	now, err := lookup(p.PID)
	if h.gone() {
		return nil
	}
	if err != nil {
		return err
	}
	if now.start != p.Start { // the pid was used again
		return nil
	}
	if err := h.signal(syscall.SIGKILL); err != nil && err != ErrGone {
		return err
	}
	return h.wait(ctx)
}

const (
	remainsPatience = time.Second // how long one process may take to go away before the others are looked after
	remainsRounds   = 100         // bounds the chase after processes that start each other
)

// killRemains kills the known processes and whatever carries the marker. First everything is stopped, so that nothing can
// replace what is killed, until a search finds nothing new; what was killed is gone when the next search begins. It ends
// when a search after a kill finds nothing new, and returns how many it met and which of them live on.
func killRemains(ctx context.Context, marker string, known []Proc) (found int, left []int) {
	if spared {
		return 0, nil
	}
	met := map[ident]Proc{}
	ended := false
	for round := 0; round < remainsRounds && ctx.Err() == nil; round++ {
		batch := known
		known = nil
		if marker != "" {
			batch = append(batch, marked(marker)...)
		}
		fresh := false
		for _, p := range batch {
			id := ident{p.PID, p.Start}
			if _, old := met[id]; old || p.PID == os.Getpid() {
				continue
			}
			met[id], fresh, ended = p, true, false
			id.signal(syscall.SIGSTOP)
		}
		switch {
		case fresh:
		case ended:
			return len(met), left
		default:
			left, ended = endAll(ctx, met), true
		}
	}
	return len(met), endAll(ctx, met)
}

// endAll kills processes and returns those that do not go away.
func endAll(ctx context.Context, met map[ident]Proc) (left []int) {
	for id := range met {
		id.signal(syscall.SIGKILL)
	}
	for _, p := range met {
		patient, cancel := context.WithTimeout(ctx, remainsPatience)
		if err := end(patient, p); err != nil {
			left = append(left, p.PID)
		}
		cancel()
	}
	return left
}
