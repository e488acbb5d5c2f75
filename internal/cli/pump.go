package cli

import (
	"context"

	"github.com/batonmcp/baton/sessions"
)

// step is what a pump has read: events, or the session after it stirred, or why it ends.
type step struct {
	evs     []sessions.Event
	caught  bool // there were no more events when these were read
	session *sessions.Session
	err     error
}

// pump reads the events of a session, as they come, until the context ends. Who takes its steps slowly makes it wait, and
// nobody else: the host keeps what it has not read.
func (r *reader) pump(ctx context.Context, out chan<- step) {
	defer close(out)
	give := func(s step) bool {
		select {
		case out <- s:
			return s.err == nil
		case <-ctx.Done():
			return false
		}
	}
	for {
		evs, more, err := r.page(ctx, sessions.MaxReadLimit)
		if ctx.Err() != nil || !give(step{evs: evs, caught: !more, err: err}) {
			return
		}
		if more {
			continue
		}
		s, err := r.stir(ctx, slice)
		if ctx.Err() != nil || !give(step{session: s, err: err}) {
			return
		}
	}
}
