package cli

import (
	"context"
	"fmt"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/sessions"
)

// Cancel ends a command, or forbids one that does not exist yet.
func (f *Front) Cancel(ctx context.Context, a sessions.CancelArgs) error {
	res, err := f.api.Cancel(ctx, f.who, a)
	if err != nil {
		return err
	}
	id := a.CommandID
	if res.Command != nil {
		id = res.Command.CommandID
	}
	return f.print(res, id, func() {
		switch {
		case res.Fenced:
			f.talk.Line(term.Plain, "there was nothing of that id; it can never start now")
		case res.Command != nil:
			f.talk.Line(term.Plain, commandLine(res.Command))
		case res.Session != nil:
			f.talk.Line(term.Plain, sessionLine(res.Session))
		}
	})
}

// Close ends sessions, one after the other. One that cannot be ended does not keep the others; the status is that of the
// first that was not.
func (f *Front) Close(ctx context.Context, ids []string, a sessions.CloseArgs) error {
	var first error
	for _, id := range ids {
		a.SessionID = id
		err := f.closeOne(ctx, a)
		if err != nil && len(ids) > 1 {
			f.aside.Line(term.Bad, "session "+id+": "+Spoken(err.Error()))
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (f *Front) closeOne(ctx context.Context, a sessions.CloseArgs) error {
	res, err := f.api.Close(ctx, f.who, a)
	if err != nil {
		return err
	}
	if err := f.print(res, res.Session.SessionID, func() {
		f.talk.Line(term.Plain, sessionLine(&res.Session)+"; end of its processes "+res.Stopped+", proof: "+res.Proof)
	}); err != nil {
		return err
	}
	if res.Session.State == sessions.SessionClosing {
		return outOfTime("session " + a.SessionID + " is closing")
	}
	return nil
}

// CloseAll ends every live session of the principal, and says first what that means.
func (f *Front) CloseAll(ctx context.Context, a sessions.CloseArgs) error {
	var ids []string
	for s, err := range f.list(ctx, sessions.ListArgs{}) {
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			f.aside.Line(term.Plain, "stops:")
		}
		ids = append(ids, s.SessionID)
		text := fmt.Sprintf("  %s %s, %s in %s", s.SessionID, s.State, s.Runner, s.Cwd)
		if s.Running != nil {
			text += ", and its command " + s.Running.CommandID
		}
		f.aside.Line(term.Plain, text)
	}
	if len(ids) == 0 {
		f.aside.Line(term.Plain, "no session of "+f.who.Principal+" is live")
		return nil
	}
	f.aside.Line(term.Plain, "keeps running: the host, until it is idle for long enough or stopped (baton host stop), and sessions of other principals")
	return f.Close(ctx, ids, a)
}

// Resume starts a new generation of a session that has ended, or frees a live one from a command whose outcome is unknown.
func (f *Front) Resume(ctx context.Context, a sessions.ResumeArgs) error {
	if a.Key == "" {
		a.Key = sessions.NewID()
	}
	res, err := f.api.Resume(ctx, f.who, a)
	if err != nil {
		return err
	}
	return f.print(res, res.Session.SessionID, func() {
		f.talk.Line(term.Plain, sessionLine(&res.Session))
		for i := range res.Settled {
			f.talk.Line(term.Plain, commandLine(&res.Settled[i]))
		}
		if res.Session.State == sessions.SessionIdle && len(res.Session.Queued) > 0 {
			f.aside.Line(term.Warn, "what waits in its queue is not sent before baton resume --run-queue "+res.Session.SessionID)
		}
	})
}
