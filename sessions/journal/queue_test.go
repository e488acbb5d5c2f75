package journal

import (
	"context"
	"errors"
	"runtime"
	"testing"
)

// queued waits until so many updates are in the queue.
func queued(j *Journal, n int) {
	for waiting := 0; waiting < n; runtime.Gosched() {
		j.queue.mu.Lock()
		waiting = len(j.queue.jobs)
		j.queue.mu.Unlock()
	}
}

// A caller who leaves before its update began is let go and it never runs; who is in the queue when the journal is closed is told.
func TestQueuedUpdateWhoseCallerLeaves(t *testing.T) {
	j := open(t, Options{})
	release := hold(t, j)
	ctx, cancel := context.WithCancel(t.Context())
	left, stays := make(chan error, 1), make(chan error, 1)
	ran := false
	go func() { left <- j.Update(ctx, func(*Tx) error { ran = true; return nil }) }()
	go func() { stays <- j.Update(t.Context(), func(*Tx) error { return nil }) }()
	queued(j, 2)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left was told %v", err)
	}
	release()
	if err := <-stays; err != nil {
		t.Error(err)
	}
	if ran {
		t.Error("the update of a caller who had left ran")
	}
}

func TestQueueRefusesWhenClosed(t *testing.T) {
	q := newQueue()
	waits, gone := &job{done: make(chan struct{})}, &job{done: make(chan struct{})}
	gone.claimed.Store(true)
	if !q.put(waits) || !q.put(gone) {
		t.Fatal("an open queue refused")
	}
	q.close()
	select {
	case <-waits.done:
	default:
		t.Error("who waits is not told")
	}
	if !errors.Is(waits.err, ErrClosed) || gone.err != nil || q.put(&job{}) || q.take() != nil {
		t.Errorf("told %v and %v", waits.err, gone.err)
	}
}
