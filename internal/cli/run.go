package cli

import (
	"context"
	"errors"
	"time"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/internal/transcript"
	"github.com/batonmcp/baton/sessions"
)

// Run is one prompt in a session of its own.
type Run struct {
	sessions.CreateArgs
	Keep  bool          // the session stays open
	Quiet bool          // only what the agent says
	Limit time.Duration // then the turn is cancelled; 0: never
	transcript.Options
}

// Run creates a session with a prompt, shows its turn while it happens, asks what the agent asks, and closes it. Without a
// terminal a turn that asks is left as it is, and so is one that its user detaches from.
func (f *Front) Run(ctx context.Context, r Run) error {
	a := r.CreateArgs
	if a.SessionID == "" && a.Key != "" { // as the host would: both are the same again under the same key
		a.SessionID = sessions.DerivedID("session", f.who.Principal, a.Key)
	}
	name(&a)
	if a.CommandID == "" {
		a.CommandID = sessions.DerivedID("command", f.who.Principal, a.SessionID)
	}
	a.WaitSeconds = new(0)
	res, err := f.api.Create(ctx, f.who, a)
	if err != nil {
		return err
	}
	id := res.Session.SessionID
	r.NoPrompts = true
	w := &watch{f: f, id: id, until: a.CommandID, mute: r.Quiet || f.format == JSON || f.format == ID, p: transcript.NewPrinter(f.talk, f.aside, r.Options)}
	if r.Quiet && f.format == Human {
		w.mute = false
		w.p = transcript.NewPrinter(f.talk, nobody(), r.Options)
	}
	if !w.mute && !r.Quiet {
		f.aside.Line(term.Dim, "-- session "+id)
	}
	if r.Limit > 0 {
		t := time.NewTimer(r.Limit)
		defer t.Stop()
		w.deadline = t.C
	}
	err = w.run(ctx, f.reader(id))
	switch {
	case errors.Is(err, errDetached):
		return &Ended{ExitFailed, "detached; the turn goes on: baton attach " + id}
	case errors.Is(err, errAsks):
		return f.ran(ctx, w, a.CommandID, r.Keep, true)
	case errors.Is(err, errLimit):
		if _, err := f.api.Cancel(ctx, f.who, sessions.CancelArgs{SessionID: id, CommandID: a.CommandID}); err != nil {
			return err
		}
		if err := f.ran(ctx, w, a.CommandID, r.Keep, false); err != nil && Status(err) != ExitFailed {
			return err
		}
		return &Ended{ExitTime, "the turn was cancelled when its time was over"}
	case err != nil:
		return err
	}
	return f.ran(ctx, w, a.CommandID, r.Keep, false)
}

// nobody is a screen that nobody looks at.
func nobody() *term.Screen { return term.PlainScreen(discard{}) }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// ran ends a run: the session is closed, unless its turn goes on or it shall stay, and the result is printed.
func (f *Front) ran(ctx context.Context, w *watch, command string, keep, asks bool) error {
	s, err := f.look(ctx, w.id)
	if err != nil {
		return err
	}
	res := sessions.CreateResult{Session: *s, Text: w.last}
	switch {
	case s.Last != nil && s.Last.CommandID == command:
		res.Command = s.Last
	case s.Running != nil && s.Running.CommandID == command:
		res.Command = s.Running
	}
	if !keep && !asks && s.State.Live() {
		closed, err := f.api.Close(ctx, f.who, sessions.CloseArgs{SessionID: w.id})
		if err != nil {
			return err
		}
		res.Session = closed.Session
		if closed.Stopped != "confirmed" {
			f.aside.Line(term.Dim, "-- the end of its processes is "+closed.Stopped+": "+closed.Proof)
		}
	}
	if err := f.print(res, w.id, func() {}); err != nil {
		return err
	}
	if res.Command == nil {
		return failure(s)
	}
	return ofCommand(res.Command, s)
}

// failure is why a session ended before its command.
func failure(s *sessions.Session) error {
	if s.Error != nil {
		return s.Error
	}
	return &Ended{ExitFailed, sessionLine(s)}
}
