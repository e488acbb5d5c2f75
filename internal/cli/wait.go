package cli

import (
	"context"
	"slices"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/sessions"
)

// WaitFor is what a wait waits for.
type WaitFor struct {
	IDs   []string          // none: any session of the principal's
	After map[string]string // cursor by session
	Event bool              // any event will do
	Any   bool              // the first of them will do
	Ack   bool              // what is printed of any session is not told again
	Wait
}

// WaitFor waits until every session named, or any, is settled or asks. The status is that of the one that ended worst.
func (f *Front) WaitFor(ctx context.Context, a WaitFor) error {
	rest, deadline := slices.Clone(a.IDs), a.deadline()
	any := a.Any || len(a.IDs) == 0
	var worst error
	cursors := map[string]string{}
	for {
		seconds, over := upTo(deadline)
		args := sessions.WaitArgs{SessionIDs: rest, After: a.After, WaitSeconds: &seconds, MaxChars: sessions.MaxChars}
		if a.Event {
			args.Until = "event"
		}
		res, err := f.api.Wait(ctx, f.who, args)
		if err != nil {
			return err
		}
		if res.TimedOut {
			if over {
				return f.waitedInVain(res)
			}
			continue
		}
		for i := range res.Sessions {
			s := &res.Sessions[i]
			if err := f.waited(s); err != nil {
				return err
			}
			worst = worse(worst, ofSession(&s.Session))
			cursors[s.Session.SessionID] = s.Cursor
			rest = slices.DeleteFunc(rest, func(id string) bool { return id == s.Session.SessionID })
		}
		if !any && len(rest) > 0 && Status(worst) != ExitInput {
			continue
		}
		if a.Ack {
			if _, err := f.api.Wait(ctx, f.who, sessions.WaitArgs{After: cursors, WaitSeconds: new(0), MaxChars: 1}); err != nil {
				return err
			}
		}
		return worst
	}
}

func (f *Front) waited(w *sessions.Waited) error {
	s := &w.Session
	return f.print(*w, s.SessionID, func() {
		f.talk.Line(term.Plain, sessionLine(s))
		if s.Last != nil && s.Running == nil {
			f.talk.Line(term.Plain, commandLine(s.Last))
		}
		f.words(w.Text)
	})
}

func (f *Front) waitedInVain(res sessions.WaitResult) error {
	for i := range res.Sessions {
		if err := f.waited(&res.Sessions[i]); err != nil {
			return err
		}
	}
	return outOfTime("nothing was settled, and nobody asked,")
}

// worse is the one of two ends that a script must see first.
func worse(a, b error) error {
	rank := []int{ExitDone, ExitTime, ExitFailed, ExitUsage, ExitMissing, ExitUnknown, ExitInput}
	if slices.Index(rank, Status(b)) > slices.Index(rank, Status(a)) {
		return b
	}
	return a
}
