package host

import (
	"context"
	"errors"
	"testing"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// A call whose caller has left ends with an error of the table that says so and what to do; what waits ends with it, and
// what it asked for goes on.
func TestACallIsLeft(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	q := s.asks("h", once...)
	for name, call := range map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { _, err := r.Create(ctx, r.who, r.args()); return err },
		"send": func(ctx context.Context) error {
			_, err := r.Send(ctx, r.who, sessions.SendArgs{SessionID: s.id, CommandID: "d", Text: "x", WhenBusy: "queue"})
			return err
		},
		"respond": func(ctx context.Context) error {
			_, err := r.Respond(ctx, r.who, sessions.RespondArgs{SessionID: s.id, RequestID: q, Decision: "approve"})
			return err
		},
		"cancel": func(ctx context.Context) error {
			_, err := r.Cancel(ctx, r.who, sessions.CancelArgs{SessionID: s.id})
			return err
		},
		"close": func(ctx context.Context) error {
			_, err := r.Close(ctx, r.who, sessions.CloseArgs{SessionID: s.id})
			return err
		},
		"resume": func(ctx context.Context) error {
			_, err := r.Resume(ctx, r.who, sessions.ResumeArgs{SessionID: s.id})
			return err
		},
		"read": func(ctx context.Context) error {
			_, err := r.Read(ctx, r.who, sessions.ReadArgs{SessionID: s.id})
			return err
		},
		"list": func(ctx context.Context) error { _, err := r.List(ctx, r.who, sessions.ListArgs{}); return err },
		"wait": func(ctx context.Context) error {
			_, err := r.Wait(ctx, r.who, sessions.WaitArgs{SessionIDs: []string{s.id}})
			return err
		},
		"inbox": func(ctx context.Context) error { _, err := r.Wait(ctx, r.who, sessions.WaitArgs{}); return err },
	} {
		why := errors.New("the user closed the window")
		for _, c := range []struct {
			why, is error
		}{{nil, context.Canceled}, {why, why}} {
			ctx, leave := context.WithCancelCause(t.Context())
			leave(c.why)
			err := call(ctx)
			refused(t, err, sessions.CodeTimeout, "ended by its caller")
			if !errors.Is(err, c.is) || sessions.AsError(err).Action == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if s.given() != "open, prompt c" || s.request(q).State != sessions.RequestPending {
		t.Errorf("given: %s", s.given())
	}
}

// The end of an agent comes in two frames. Between them, and so for whoever looks at the journal then, a command whose
// fate only the second tells is no contradiction.
func TestTheJournalHoldsBetweenTwoFrames(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	s.send("c")
	s.frame(bridge.OutExited, bridge.Exit{Reason: "exit", Taken: 1})
	s.wants(sessions.SessionFailed, "c", "submitted")
	problems, err := r.j.Check(t.Context())
	if err != nil || len(problems) > 0 {
		t.Errorf("between: %v, %v", problems, err)
	}
	s.frame(bridge.OutStopped, bridge.Stopped{Taken: 1})
	s.wants(sessions.SessionFailed, "c", "failed")
	problems, err = r.j.Check(t.Context())
	if err != nil || len(problems) > 0 {
		t.Errorf("after: %v, %v", problems, err)
	}
}
