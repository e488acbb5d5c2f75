package cli

import (
	"context"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/sessions"
)

// Send gives a session a prompt, and waits for the end of its turn where that is wanted.
func (f *Front) Send(ctx context.Context, a sessions.SendArgs, w Wait) error {
	if a.CommandID == "" {
		a.CommandID = sessions.NewID()
	}
	a.MaxChars = sessions.MaxChars
	res, err := f.sent(ctx, a, w)
	if err != nil {
		return err
	}
	if err := f.print(res, res.Command.CommandID, func() {
		if w.Wait && res.Command.State.Settled() {
			f.words(res.Text)
			return
		}
		f.talk.Line(term.Plain, commandLine(&res.Command))
	}); err != nil || !w.Wait {
		return err
	}
	return ofCommand(&res.Command, &res.Session)
}

// sent makes the call until the command has ended or its session asks. The same call again joins the wait of the first.
func (f *Front) sent(ctx context.Context, a sessions.SendArgs, w Wait) (sessions.SendResult, error) {
	deadline := w.deadline()
	for {
		seconds, over := upTo(deadline)
		if w.Wait {
			a.WaitSeconds = &seconds
		}
		res, err := f.api.Send(ctx, f.who, a)
		if err != nil || !w.Wait || over || res.Command.State.Settled() || asks(&res.Session) || !res.Session.State.Live() {
			return res, err
		}
	}
}
