package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// Process is a bridge that is watched, as a child or by its record. It must be released.
type Process struct {
	record  Record
	handle  *handle
	emptied atomic.Bool // it was seen to be without descendants for good

	done    chan struct{} // closed when the process is gone
	watched chan struct{} // closed when the watcher has ended
}

func newProcess(r Record, h *handle) *Process {
	p := &Process{record: r, handle: h, done: make(chan struct{}), watched: make(chan struct{})}
	go p.watch()
	return p
}

// watch waits for the end of the process, and takes its exit status where we are its parent, so that no zombie stays.
func (p *Process) watch() {
	defer close(p.watched)
	if p.handle.wait(context.Background()) == nil { // ended by Release
		p.handle.reap()
		close(p.done)
	}
}

// Open watches a bridge that another host started. The error is ErrGone only when that very process does not exist any
// more; any other error leaves it open.
func Open(r Record) (*Process, error) {
	if r.PID == 0 {
		return nil, ErrGone
	}
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("read the boot id: %w", err)
	}
	if r.BootID == "" {
		return nil, errors.New("the record names no boot")
	}
	if r.BootID != boot {
		return nil, ErrGone
	}
	h, presence, why := find(r)
	switch presence {
	case alive:
		return newProcess(r, h), nil
	case gone:
		return nil, ErrGone
	}
	return nil, errors.New(why)
}

// Record is the durable identity of the process.
func (p *Process) Record() Record { return p.record }

// Done is closed when the process is gone, which on rung pid_namespace means the whole session.
func (p *Process) Done() <-chan struct{} { return p.done }

// Release stops watching and leaves the process as it is. Done stays as it is too.
func (p *Process) Release() {
	p.handle.close()
	<-p.watched
}

// Stop kills the bridge and proves, where its rung can, that nothing of the session is left. It waits until ctx ends;
// what is not seen to be gone by then is unconfirmed. Asking the agent to end in good order is the bridge's own work and
// comes before.
//
// On rung subreaper the bridge is first made to kill and reap whatever descends from it, which it alone can see the end
// of. One that does not manage it in time is killed without a proof.
func (p *Process) Stop(ctx context.Context) Verdict {
	began := time.Now()
	if spared && p.record.Rung != ProcessGroup {
		return emptied(p.record, began)
	}
	var known []Proc
	empty := p.record.Rung == Subreaper && (p.emptied.Load() || p.empty(ctx))
	if p.record.Rung != PIDNamespace && !empty && !p.isDone() {
		known = family(p.record.PID) // ancestry ends with the bridge
	}
	if err := p.handle.signal(syscall.SIGKILL); err != nil && !errors.Is(err, ErrGone) && !p.isDone() {
		return unconfirmed(began, "the bridge cannot be killed: %v", err)
	}
	select {
	case <-p.done:
	case <-p.watched:
		if !p.isDone() {
			return unconfirmed(began, "the process was released")
		}
	case <-ctx.Done():
		return unconfirmed(began, "the bridge was killed and is not seen to be gone: %v", context.Cause(ctx))
	}
	if p.record.Rung == PIDNamespace {
		return ended(p.record, began)
	}
	if empty {
		return emptied(p.record, began)
	}
	return remains(ctx, p.record, known, began)
}

const (
	emptyLimit = 6 * time.Second // for a bridge to end what descends from it
	emptyPace  = time.Millisecond
)

// empty lets the bridge of a subreaper end what descends from it, and tells whether it was seen to have done so.
func (p *Process) empty(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, emptyLimit)
	defer cancel()
	pace := time.NewTicker(emptyPace)
	defer pace.Stop()
	for asked := false; ; {
		if said := saysEmpty(p.record.PID); said && !p.handle.gone() { // it lived when that was read, so that it was about it
			p.emptied.Store(true)
			return true
		}
		if !asked {
			asked = true
			if p.handle.signal(emptySignal) != nil || p.handle.signal(syscall.SIGCONT) != nil {
				return false
			}
		}
		select {
		case <-pace.C:
		case <-p.done:
			return false
		case <-limited.Done():
			return false
		}
	}
}

func (p *Process) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
