//go:build !linux

package sandbox

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"
)

// pollPace is how often the end of a process is looked for where nothing announces it to a stranger.
const pollPace = 20 * time.Millisecond

// handle refers to one process by pid and start time. Between a look at the start time and a signal the pid may pass to
// another process, which is one reason why nothing is confirmed on these systems.
type handle struct {
	inode uint64 // always 0
	pid   int
	start uint64
	quit  chan struct{}
	once  sync.Once
}

func openHandle(pid int) (*handle, error) {
	i, err := lookup(pid)
	if err != nil {
		return nil, err
	}
	return &handle{pid: pid, start: i.start, quit: make(chan struct{})}, nil
}

func (h *handle) signal(s syscall.Signal) error {
	if h.gone() {
		return ErrGone
	}
	if err := syscall.Kill(h.pid, s); err != nil && err != syscall.ESRCH {
		return err
	}
	return nil
}

// gone takes only a missing or different process for gone; a failed look is none.
func (h *handle) gone() bool {
	i, err := lookup(h.pid)
	return err == ErrGone || err == nil && (i.zombie || i.start != h.start)
}

func (h *handle) wait(ctx context.Context) error {
	pace := time.NewTicker(pollPace)
	defer pace.Stop()
	for {
		if h.gone() {
			return nil
		}
		select {
		case <-pace.C:
		case <-h.quit:
			return os.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (h *handle) reap() { syscall.Wait4(h.pid, nil, syscall.WNOHANG, nil) }

func (h *handle) close() { h.once.Do(func() { close(h.quit) }) }
