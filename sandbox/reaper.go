package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Reaper starts and reaps every process of a bridge. Nothing else in the bridge may wait for children: os/exec's Wait
// beside a wait for any child loses exit statuses.
type Reaper struct {
	place   place
	sigchld chan os.Signal
	empty   chan os.Signal // the host wants everything ended; on rung subreaper alone
	quit    chan struct{}
	once    sync.Once // closes quit
	ended   chan struct{}
	rest    sync.Once

	// mu is held while a child is started and entered, and while children are reaped and looked up. So no exit is seen
	// before its child is known, and no pid is reaped while a signal to it is on its way.
	mu       sync.Mutex
	children map[int]*Child
	reaped   chan struct{} // closed and replaced whenever something was reaped
	sealed   bool          // nothing is started any more
}

// Spawn says what to start. Argv[0] is an absolute path, /proc/self/exe included. A nil stream is /dev/null.
type Spawn struct {
	Argv                  []string
	Dir                   string   // "": the bridge's
	In                    *os.File // a directory that was opened, in place of Dir
	Env                   []string
	Stdin, Stdout, Stderr *os.File
}

// Child is a process that Spawn started.
type Child struct {
	reaper *Reaper
	pid    int
	done   chan struct{}
	status syscall.WaitStatus // before done is closed: the reaper's
}

// NewReaper begins reaping. Call it once, after Enter.
func NewReaper() *Reaper {
	r := &Reaper{
		sigchld:  make(chan os.Signal, 1),
		quit:     make(chan struct{}),
		ended:    make(chan struct{}),
		children: map[int]*Child{},
		reaped:   make(chan struct{}),
	}
	if p := here.Load(); p != nil {
		r.place = *p
	}
	signal.Notify(r.sigchld, syscall.SIGCHLD)
	r.empty = r.place.empty
	go r.run()
	return r
}

// Close stops reaping; it kills nothing.
func (r *Reaper) Close() {
	signal.Stop(r.sigchld)
	if r.empty != nil {
		signal.Stop(r.empty)
	}
	r.once.Do(func() { close(r.quit) })
	<-r.ended
}

func (r *Reaper) run() {
	defer close(r.ended)
	for {
		select {
		case <-r.sigchld:
			r.sweep()
		case <-r.empty:
			go func() { // owned by nobody: the process ends with it
				r.Rest(context.Background())
				os.Exit(1)
			}()
		case <-r.quit:
			return
		}
	}
}

// reapBatch is how many children are reaped before the lock is given to others: processes that fork and exit without end
// must not keep it.
const reapBatch = 256

// sweep reaps what has ended.
func (r *Reaper) sweep() {
	for more := true; more; {
		more, _ = r.sweepBatch()
	}
}

// sweepBatch reaps some of what has ended. none is true when no child is left at all.
func (r *Reaper) sweepBatch() (more, none bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	some := false
	defer func() {
		if some {
			close(r.reaped)
			r.reaped = make(chan struct{})
		}
	}()
	for range reapBatch {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|waitAll, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.ECHILD:
			return false, true
		case err != nil || pid == 0:
			return false, false
		}
		some = true
		if c := r.children[pid]; c != nil {
			delete(r.children, pid)
			c.status = ws
			close(c.done)
		}
	}
	return true, false
}

// Spawn starts a process in a session of its own. It gets descriptors 0, 1, 2 and nothing else, default signal
// dispositions, the marker of the launch, and a higher chance than the bridge to be chosen when memory runs out.
func (r *Reaper) Spawn(s Spawn) (*Child, error) {
	if len(s.Argv) == 0 || !filepath.IsAbs(s.Argv[0]) {
		return nil, fmt.Errorf("sandbox: spawn %q: the program must be an absolute path", s.Argv)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("sandbox: spawn: %w", err)
	}
	defer null.Close()
	streams := []*os.File{s.Stdin, s.Stdout, s.Stderr}
	fds := make([]uintptr, len(streams))
	for i, f := range streams {
		if f == nil {
			f = null
		}
		fds[i] = f.Fd() // and so blocking, as a program expects of its standard streams
	}
	env := slices.DeleteFunc(slices.Clone(s.Env), func(v string) bool {
		return strings.HasPrefix(v, MarkerEnv+"=") || strings.HasPrefix(v, setupEnv+"=")
	})
	if r.place.marker != "" {
		env = append(env, MarkerEnv+"="+r.place.marker)
	}
	dir := s.Dir
	if s.In != nil {
		if dir, err = wayInto(s.In); err != nil {
			return nil, fmt.Errorf("sandbox: spawn %s: %w", s.Argv[0], err)
		}
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Files: fds, Sys: &syscall.SysProcAttr{Setsid: true}}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sealed {
		return nil, fmt.Errorf("sandbox: spawn %s: the session is at its end", s.Argv[0])
	}
	restore := r.place.raiseOOM()
	pid, err := syscall.ForkExec(s.Argv[0], s.Argv, attr)
	restore()
	runtime.KeepAlive(streams)
	runtime.KeepAlive(s.In)
	if err != nil {
		return nil, fmt.Errorf("sandbox: spawn %s: %w", s.Argv[0], err)
	}
	c := &Child{reaper: r, pid: pid, done: make(chan struct{})}
	r.children[pid] = c
	return c, nil
}

// PID is the process id as the bridge sees it.
func (c *Child) PID() int { return c.pid }

// Done is closed when the child was reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status tells how the child ended, once Done is closed: its exit code, or -1 and the name of the signal.
func (c *Child) Status() (exit int, sig string) {
	select {
	case <-c.done:
	default:
		return -1, ""
	}
	if c.status.Signaled() {
		return -1, unix.SignalName(c.status.Signal())
	}
	return c.status.ExitStatus(), ""
}

// Signal sends to the child alone. It is os.ErrProcessDone once the child was reaped.
func (c *Child) Signal(sig syscall.Signal) error {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.children[c.pid] != c {
		return os.ErrProcessDone
	}
	return syscall.Kill(c.pid, sig)
}

// SignalGroup sends to the child and to what it started that did not leave its process group. It is os.ErrProcessDone
// once the child was reaped, because the group's id may be another's then.
func (c *Child) SignalGroup(sig syscall.Signal) error {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.children[c.pid] != c {
		return os.ErrProcessDone
	}
	return syscall.Kill(-c.pid, sig) // Spawn made it the leader of a session, and so of a group
}

// Born lists the processes of this session that were started at since or later, the bridge and zombies left out. Start
// times have a resolution of 10 ms on Linux; what was started that close before since is listed too.
func (r *Reaper) Born(since time.Time) []Proc {
	first := startedSince(since)
	var out []Proc
	for _, i := range r.census() {
		if i.start >= first {
			out = append(out, i.proc())
		}
	}
	return out
}

// Begun changes when a process or a thread of the session begins. It is "" where the session has no pid namespace.
func (r *Reaper) Begun() string {
	if r.place.Rung != PIDNamespace {
		return ""
	}
	return lastPID()
}

// census lists the living processes of the session. In a pid namespace that is everything; elsewhere what ancestry, the
// session ids of our own children and the marker lead to.
func (r *Reaper) census() []procInfo {
	all := processes()
	if r.place.Rung == PIDNamespace {
		return slices.DeleteFunc(all, func(i procInfo) bool { return i.zombie || i.pid == os.Getpid() })
	}
	ours := map[int]bool{}
	r.mu.Lock()
	for pid := range r.children {
		ours[pid] = true
	}
	r.mu.Unlock()
	in := map[int]bool{}
	for _, i := range descendants(all, os.Getpid()) {
		in[i.pid] = true
	}
	if r.place.marker != "" {
		for _, p := range marked(r.place.marker) {
			in[p.PID] = true
		}
	}
	return slices.DeleteFunc(all, func(i procInfo) bool {
		return i.zombie || i.pid == os.Getpid() || !in[i.pid] && !ours[i.session]
	})
}

// Kill ends one process of a census and waits until it is gone. A process that is not the one the census saw is left
// alone.
func (r *Reaper) Kill(ctx context.Context, p Proc) error {
	if err := end(ctx, p); err != nil {
		return fmt.Errorf("sandbox: kill process %d: %w", p.PID, err)
	}
	return nil
}
