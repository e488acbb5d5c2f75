package host

import (
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// Nobody sees another's sessions: whatever is asked of one is answered as if it did not exist, and without effect.
func TestAnothersSessionIsNotFound(t *testing.T) {
	r := newRig(t)
	running, ended := r.runs(), failedSession(r)
	request := running.asks("h", once...)
	them := sessions.Caller{Principal: "them", Env: r.who.Env}
	ctx := t.Context()
	for name, call := range map[string]func(id string) error{
		"send": func(id string) error {
			_, err := r.Send(ctx, them, sessions.SendArgs{SessionID: id, Text: "x", CommandID: "theirs", WhenBusy: "queue"})
			return err
		},
		"send what ran": func(id string) error {
			_, err := r.Send(ctx, them, sessions.SendArgs{SessionID: id, Text: "do c", CommandID: "c"})
			return err
		},
		"wait": func(id string) error {
			_, err := r.Wait(ctx, them, sessions.WaitArgs{SessionIDs: []string{id}, WaitSeconds: ptr(0)})
			return err
		},
		"acknowledge": func(id string) error {
			_, err := r.Wait(ctx, them, sessions.WaitArgs{After: map[string]string{id: sessions.EncodeCursor(id, 1)}, WaitSeconds: ptr(0)})
			return err
		},
		"read": func(id string) error {
			_, err := r.Read(ctx, them, sessions.ReadArgs{SessionID: id})
			return err
		},
		"respond": func(id string) error {
			_, err := r.Respond(ctx, them, sessions.RespondArgs{SessionID: id, RequestID: request, Decision: "approve"})
			return err
		},
		"cancel": func(id string) error {
			_, err := r.Cancel(ctx, them, sessions.CancelArgs{SessionID: id})
			return err
		},
		"cancel a command": func(id string) error {
			_, err := r.Cancel(ctx, them, sessions.CancelArgs{SessionID: id, CommandID: sessions.NewID(), Key: "k-" + id})
			return err
		},
		"close": func(id string) error {
			_, err := r.Close(ctx, them, sessions.CloseArgs{SessionID: id, Delete: true, WaitSeconds: ptr(0)})
			return err
		},
		"resume": func(id string) error {
			_, err := r.Resume(ctx, them, sessions.ResumeArgs{SessionID: id, AcknowledgeUnknown: true, WaitSeconds: ptr(0)})
			return err
		},
	} {
		theirs := call(sessions.NewID())
		for _, s := range []*session{running, ended} {
			if err := call(s.id); sessions.CodeOf(err) != sessions.CodeNotFound {
				t.Errorf("%s: %v", name, err)
			}
		}
		if name != "cancel" && name != "cancel a command" && sessions.CodeOf(theirs) != sessions.CodeNotFound { // a cancel of nobody's is a fence
			t.Errorf("%s of nobody's: %v", name, theirs)
		}
	}
	if res, err := r.List(ctx, them, sessions.ListArgs{All: true}); err != nil || len(res.Sessions) != 0 {
		t.Errorf("they list %+v, %v", res, err)
	}
	if res, err := r.Wait(ctx, them, sessions.WaitArgs{WaitSeconds: ptr(0)}); err != nil || len(res.Sessions) != 0 {
		t.Errorf("they have in their inbox %+v, %v", res, err)
	}
	running.wants(sessions.SessionRunning, "c", "accepted")
	ended.wants(sessions.SessionFailed)
	if running.given() != "open, prompt c" || running.request(request).State != sessions.RequestPending {
		t.Errorf("given: %s", running.given())
	}
	// And nothing of it is in the way of its owner.
	if _, err := r.Cancel(ctx, r.who, sessions.CancelArgs{SessionID: sessions.NewID(), Key: "k-" + running.id}); err != nil {
		t.Error(err)
	}
	running.settles("c", sessions.CommandCompleted)
	if _, err := running.closes(sessions.CloseArgs{Delete: true}, func() { running.closing(); running.ends(sandbox.Confirmed) }); err != nil {
		t.Error(err)
	}
}

// A call without a name is refused by every verb: the journal takes nobody for the host itself, who sees all sessions.
func TestACallNamesItsPrincipal(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	ctx, now := t.Context(), ptr(0)
	for _, name := range []string{"", "two words", strings.Repeat("x", 200)} {
		who := sessions.Caller{Principal: name, Env: r.who.Env}
		for verb, call := range map[string]func() error{
			"runner_list": func() error { _, err := r.RunnerList(ctx, who, sessions.RunnerListArgs{}); return err },
			"create":      func() error { _, err := r.Create(ctx, who, r.args()); return err },
			"send":        func() error { _, err := r.Send(ctx, who, sessions.SendArgs{SessionID: s.id, Text: "x"}); return err },
			"wait":        func() error { _, err := r.Wait(ctx, who, sessions.WaitArgs{WaitSeconds: now}); return err },
			"read":        func() error { _, err := r.Read(ctx, who, sessions.ReadArgs{SessionID: s.id}); return err },
			"respond": func() error {
				_, err := r.Respond(ctx, who, sessions.RespondArgs{SessionID: s.id, RequestID: sessions.NewID()})
				return err
			},
			"cancel": func() error { _, err := r.Cancel(ctx, who, sessions.CancelArgs{SessionID: s.id}); return err },
			"close": func() error {
				_, err := r.Close(ctx, who, sessions.CloseArgs{SessionID: s.id, WaitSeconds: now})
				return err
			},
			"resume": func() error {
				_, err := r.Resume(ctx, who, sessions.ResumeArgs{SessionID: s.id, WaitSeconds: now})
				return err
			},
			"list": func() error { _, err := r.List(ctx, who, sessions.ListArgs{}); return err },
		} {
			if err := call(); sessions.CodeOf(err) != sessions.CodeInvalidParams || !strings.Contains(err.Error(), "principal") {
				t.Errorf("%s by %q: %v", verb, name, err)
			}
		}
	}
	s.wants(sessions.SessionRunning, "c", "accepted")
}
