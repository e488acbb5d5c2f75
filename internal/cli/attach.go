package cli

import (
	"context"
	"errors"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/internal/transcript"
	"github.com/batonmcp/baton/sessions"
)

// Attach is how a person looks at a session.
type Attach struct {
	ID    string
	Watch bool // only look: nothing is sent or answered
	Tail  int  // how much of its history is shown; below 0: all
	transcript.Options
}

// Attach shows a session's history, then what happens. Lines are prompts, queued while it is busy; what the agent asks is
// answered in place. The session never notices that somebody looks, or no longer does.
func (f *Front) Attach(ctx context.Context, a Attach) error {
	s, err := f.look(ctx, a.ID)
	if err != nil {
		return err
	}
	end, err := sessions.DecodeCursor(a.ID, s.Cursor)
	if err != nil {
		return err
	}
	r := f.reader(a.ID)
	if a.Tail >= 0 {
		if err := r.tail(ctx, end, a.Tail, told); err != nil {
			return err
		}
	}
	w := &watch{f: f, id: a.ID, talks: !a.Watch, deaf: a.Watch, p: transcript.NewPrinter(f.talk, f.talk, a.Options)}
	w.begins(s, r.after)
	if f.terminal {
		hint := "-- " + sessionLine(s)
		if w.talks && s.State.Live() {
			hint += "\n-- a line is a prompt, :help tells more, Ctrl-C interrupts the turn, Ctrl-D detaches"
		}
		w.welcome = hint
	}
	if !s.State.Live() && s.State != sessions.SessionReserved {
		w.dead, w.talks = true, false
	}
	err = w.run(ctx, r)
	switch {
	case errors.Is(err, errDetached):
		if f.terminal {
			f.aside.Line(term.Dim, "-- detached; the session goes on")
		}
		return nil
	case errors.Is(err, errAsks):
		if s, err = f.look(ctx, a.ID); err != nil {
			return err
		}
		if asks(s) {
			return needsInput(s)
		}
		return nil
	case err != nil:
		return err
	case w.over != nil && w.over.State == sessions.SessionFailed:
		return ofSession(w.over)
	}
	return nil
}

// begins tells a watch what was so before the first event that it will see.
func (w *watch) begins(s *sessions.Session, after string) {
	from, _ := sessions.DecodeCursor(s.SessionID, after) // it was made here
	if from == 0 {
		return // its events tell
	}
	if s.Running != nil {
		w.running, w.began = s.Running.CommandID, s.Running.SubmittedAt
	}
	for i := range s.Requests {
		if q := s.Requests[i]; q.State == sessions.RequestPending {
			w.open = append(w.open, &q)
		}
	}
}
