package cli

import (
	"context"
	"time"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/sessions"
)

// Wait is whether and how long a command waits for the end of what it started. The zero value waits for nothing.
type Wait struct {
	Wait  bool
	Limit time.Duration // 0: as long as it takes
}

// slice is the wait of one call to the host, in seconds.
const slice = 20

// deadline is the moment at which a wait that begins now is over; the zero time is never.
func (w Wait) deadline() time.Time {
	if w.Limit <= 0 {
		return time.Time{}
	}
	return time.Now().Add(w.Limit)
}

// upTo is the wait of the next call, in seconds; over tells that the time is up.
func upTo(deadline time.Time) (seconds int, over bool) {
	if deadline.IsZero() {
		return slice, false
	}
	left := time.Until(deadline)
	return int(min(slice, max(0, (left+time.Second-1)/time.Second))), left <= 0
}

// Create starts a session, and waits for the end of its first command where that is wanted.
func (f *Front) Create(ctx context.Context, a sessions.CreateArgs, w Wait) error {
	name(&a)
	if w.Wait && a.Prompt == "" {
		return Usage("there is nothing to wait for: --wait goes with a prompt")
	}
	res, err := f.created(ctx, a, w)
	if err != nil {
		return err
	}
	if err := f.print(res, res.Session.SessionID, func() {
		if w.Wait && res.Command != nil && res.Command.State.Settled() {
			f.words(res.Text)
			return
		}
		f.talk.Line(term.Plain, sessionLine(&res.Session))
		if res.Command != nil {
			f.talk.Line(term.Plain, commandLine(res.Command))
		}
	}); err != nil {
		return err
	}
	switch {
	case w.Wait && res.Command != nil:
		return ofCommand(res.Command, &res.Session)
	case res.Session.State == sessions.SessionFailed:
		return ofSession(&res.Session)
	}
	return nil
}

// name gives a creation the ids under which it can be made again: without a key of the user's they are made here, before
// the first attempt.
func name(a *sessions.CreateArgs) {
	if a.SessionID == "" && a.Key == "" {
		a.SessionID = sessions.NewSessionID()
	}
}

// created makes the call until the session is ready, and its command has ended where that is waited for. The same call
// again joins what the first one began.
func (f *Front) created(ctx context.Context, a sessions.CreateArgs, w Wait) (res sessions.CreateResult, err error) {
	deadline := w.deadline()
	for {
		seconds, over := upTo(deadline)
		if w.Wait || !deadline.IsZero() {
			a.WaitSeconds = &seconds
		}
		if res, err = f.api.Create(ctx, f.who, a); err != nil {
			return res, err
		}
		switch s := &res.Session; {
		case s.State == sessions.SessionStarting && !over && deadline.IsZero() && !w.Wait: // the agent takes its time
		case !w.Wait || over || res.Command == nil || res.Command.State.Settled() || asks(s) || !s.State.Live() && s.State != sessions.SessionReserved:
			return res, nil
		}
	}
}

// words prints what an agent said, with an end of line.
func (f *Front) words(text string) {
	if text != "" {
		f.talk.Print(term.Plain, text)
		f.talk.Fresh()
	}
}
