package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// cancel cancels while the bridge does as then says, once the intent is durable.
func (s *session) cancel(a sessions.CancelArgs, then func()) (sessions.CancelResult, error) {
	s.r.t.Helper()
	a.SessionID = s.id
	var res sessions.CancelResult
	err := within(s.r.t, func() (err error) {
		res, err = s.r.Cancel(s.r.t.Context(), s.r.who, a)
		return err
	}, then)
	return res, err
}

// cancelling returns once a cancel of the command is durable.
func (s *session) cancelling(command string) {
	s.r.t.Helper()
	w := s.r.hub.add([]string{s.id}, true)
	defer w.remove()
	for !s.command(command).CancelAsked {
		select {
		case <-w.ch:
		case <-s.r.t.Context().Done():
			s.r.t.Fatal("nobody cancels")
		}
	}
}

// I09: a cancel names what it cancels, is journalled before it is given, and says how it ended.
func TestI09_CancelOfTheRunningCommand(t *testing.T) {
	for _, name := range []string{"", "c"} {
		for _, state := range []sessions.CommandState{sessions.CommandInterrupted, sessions.CommandCancelUnconfirmed, sessions.CommandCompleted, sessions.CommandFailed} {
			t.Run(string(state)+" "+name, func(t *testing.T) {
				s := newRig(t).runs()
				res, err := s.cancel(sessions.CancelArgs{CommandID: name, Key: "k"}, func() {
					s.cancelling("c")
					if s.given() != "open, prompt c, cancel c" {
						t.Errorf("given: %s", s.given())
					}
					s.wants(sessions.SessionRunning, "c", "accepted")
					s.settles("c", state)
				})
				if err != nil || res.Command.State != state || res.Fenced || res.Session.State != sessions.SessionIdle {
					t.Errorf("%+v, %v", res.Command, err)
				}
				// Repeated it tells the same, whatever runs by now.
				s.send("d")
				res, err = s.cancel(sessions.CancelArgs{CommandID: name, Key: "k"}, func() {})
				if err != nil || res.Command.CommandID != "c" || res.Command.State != state {
					t.Errorf("repeated: %+v, %v", res.Command, err)
				}
				s.wants(sessions.SessionRunning, "c", string(state), "d", "submitted")
				if s.given() != "open, prompt c, cancel c, prompt d" {
					t.Errorf("given: %s", s.given())
				}
			})
		}
	}
}

// I09, CA-03: a cancel may come before the agent is known to have the command; it follows the prompt, once.
func TestI09_CancelBeforeAcceptance(t *testing.T) {
	s := newRig(t).idle()
	s.send("c")
	for range 2 {
		if _, err := s.cancel(sessions.CancelArgs{CommandID: "c"}, func() {
			s.cancelling("c")
			if s.given() != "open, prompt c, cancel c" {
				t.Errorf("given: %s", s.given())
			}
			s.settles("c", sessions.CommandInterrupted)
		}); err != nil {
			t.Error(err)
		}
	}
	if !s.command("c").CancelAsked {
		t.Error("the cancel is not kept")
	}
}

// I09: cancelling a command that has ended says how, and touches nothing else.
func TestI09_CancelOfWhatHasEnded(t *testing.T) {
	s := newRig(t).runs()
	s.settles("c", sessions.CommandCompleted)
	_, err := s.cancel(sessions.CancelArgs{}, func() {})
	refused(t, err, sessions.CodeNotRunning, "no running command")
	s.send("d")
	res, err := s.cancel(sessions.CancelArgs{CommandID: "c"}, func() {})
	if err != nil || res.Command.State != sessions.CommandCompleted {
		t.Errorf("%+v, %v", res.Command, err)
	}
	s.reports(bridge.InPrompt, "d", bridge.InputBroken, errors.New("pipe"))
	res, err = s.cancel(sessions.CancelArgs{CommandID: "d"}, func() {})
	if err != nil || res.Command.State != sessions.CommandUnknown {
		t.Errorf("%+v, %v", res.Command, err)
	}
	if s.given() != "open, prompt c, prompt d" {
		t.Errorf("given: %s", s.given())
	}
}

// A queued command is cancelled without an agent ever seeing it, and no later one with it.
func TestCancelOfAQueuedCommand(t *testing.T) {
	s := newRig(t).runs()
	s.send("q1", busy("queue"))
	s.send("q2", busy("queue"))
	res, err := s.cancel(sessions.CancelArgs{CommandID: "q1"}, func() {})
	if err != nil || res.Command.State != sessions.CommandCancelled {
		t.Errorf("%+v, %v", res.Command, err)
	}
	s.settles("c", sessions.CommandCompleted)
	s.wants(sessions.SessionRunning, "q1", "cancelled", "q2", "submitted")
	if s.given() != "open, prompt c, prompt q2" {
		t.Errorf("given: %s", s.given())
	}
}

// Cancelling what steers a turn cancels the turn.
func TestCancelOfASteeringCommand(t *testing.T) {
	s := newRig(t).runs()
	s.send("steer", busy("steer"))
	res, err := s.cancel(sessions.CancelArgs{CommandID: "steer"}, func() {
		s.cancelling("steer")
		for _, in := range s.inputs() {
			if in.Kind == journal.InputCancel && (in.Ref != "steer" || string(in.Payload) != `{"command":"c","reason":"cancelled"}`) {
				t.Errorf("%s: %s", in.Ref, in.Payload)
			}
		}
		s.settles("c", sessions.CommandInterrupted)
		s.settles("steer", sessions.CommandInterrupted)
	})
	if err != nil || res.Command.CommandID != "steer" || res.Command.State != sessions.CommandInterrupted {
		t.Errorf("%+v, %v", res.Command, err)
	}
}

// A cancel that could not be given is told, and the command goes on.
func TestCancelThatIsNotGiven(t *testing.T) {
	s := newRig(t).runs()
	if _, err := s.cancel(sessions.CancelArgs{}, func() {
		s.cancelling("c")
		s.reports(bridge.InCancel, "c", bridge.InputRefused, sessions.Errorf(sessions.CodeNotRunning, "gone"))
		s.wants(sessions.SessionRunning, "c", "accepted")
		s.settles("c", sessions.CommandCompleted)
	}); err != nil {
		t.Error(err)
	}
	if w := s.events(sessions.EventWarning); len(w) != 1 || w[0].Code != sessions.CodeNotRunning || w[0].Command != "c" {
		t.Errorf("%+v", w)
	}
}

// I12: a cancel of what does not exist yet forbids it for good, to its principal alone.
func TestI12_FencesOutliveEverything(t *testing.T) {
	r := newRig(t)
	them := sessions.Caller{Principal: "them", Env: r.who.Env}
	id := sessions.NewID()
	create := func(who sessions.Caller) error {
		_, err := r.Create(t.Context(), who, r.args(func(a *sessions.CreateArgs) { a.SessionID = id }))
		return err
	}
	for range 2 {
		res, err := r.Cancel(t.Context(), r.who, sessions.CancelArgs{SessionID: id, Key: "k"})
		if err != nil || !res.Fenced || res.Session != nil || res.Command != nil {
			t.Errorf("%+v, %v", res, err)
		}
	}
	refused(t, create(r.who), sessions.CodeFenced, id)
	if err := create(them); err != nil {
		t.Errorf("another principal's create: %v", err)
	}
	refused(t, create(r.who), sessions.CodeFenced) // now theirs, and still the same answer
	r.mu.Lock()
	if len(r.launches) != 1 {
		t.Errorf("%d launches are kept", len(r.launches))
	}
	r.mu.Unlock()

	s := r.idle()
	c := sessions.NewID()
	res, err := s.cancel(sessions.CancelArgs{CommandID: c}, func() {})
	if err != nil || !res.Fenced || res.Command != nil || res.Session == nil {
		t.Errorf("%+v, %v", res, err)
	}
	_, err = s.trySend(c)
	refused(t, err, sessions.CodeFenced, "new command_id")
	_, err = s.trySend(c, busy("queue"))
	refused(t, err, sessions.CodeFenced)
	_, err = s.cancel(sessions.CancelArgs{CommandID: "no-uuid"}, func() {})
	refused(t, err, sessions.CodeNotFound, "no-uuid")
	s.send("no-uuid") // which forbade nothing
	if s.given() != "open, prompt no-uuid" {
		t.Errorf("given: %s", s.given())
	}
	other := r.idle()
	other.send(c) // a command is forbidden in its session
	_, err = r.Cancel(t.Context(), r.who, sessions.CancelArgs{SessionID: "no-uuid"})
	refused(t, err, sessions.CodeInvalidParams)
}

// closes closes the session, whose bridge does as then says once the intent is durable.
func (s *session) closes(a sessions.CloseArgs, then func()) (sessions.CloseResult, error) {
	s.r.t.Helper()
	a.SessionID = s.id
	var res sessions.CloseResult
	err := within(s.r.t, func() (err error) {
		res, err = s.r.Close(s.r.t.Context(), s.r.who, a)
		return err
	}, then)
	return res, err
}

// closing returns once the close is durable.
func (s *session) closing() {
	s.r.t.Helper()
	w := s.r.hub.add([]string{s.id}, true)
	defer w.remove()
	for s.view().State != sessions.SessionClosing {
		select {
		case <-w.ch:
		case <-s.r.t.Context().Done():
			s.r.t.Fatal("nobody closes")
		}
	}
}

// I10: stopped means proven; where it is not, nothing new starts over it unless that is accepted, which is journalled.
func TestI10_StoppedMeansProven(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	res, err := s.closes(sessions.CloseArgs{}, func() { s.closing(); s.ends(sandbox.Unconfirmed) })
	if err != nil || res.Stopped != "unconfirmed" || res.Proof != "none" || res.Session.State != sessions.SessionClosed {
		t.Errorf("%+v, %v", res, err)
	}
	if !strings.Contains(res.Session.Recovery, "accept_unconfirmed") {
		t.Errorf("recovery %q", res.Session.Recovery)
	}
	resume := sessions.ResumeArgs{SessionID: s.id, WaitSeconds: ptr(0)}
	_, err = r.Resume(t.Context(), r.who, resume)
	refused(t, err, sessions.CodeStopUnconfirmed, "accept_unconfirmed")
	s.wants(sessions.SessionClosed)
	resume.AcceptUnconfirmed = true
	again, err := r.Resume(t.Context(), r.who, resume)
	if err != nil || again.Session.Generation == s.generation {
		t.Errorf("%+v, %v", again, err)
	}
	if w := s.events(sessions.EventWarning); len(w) != 1 || w[0].Code != sessions.CodeStopUnconfirmed || !strings.Contains(w[0].Text, "local") {
		t.Errorf("%+v", w)
	}
	s = r.bridgeOf(again.Session)
	s.opens()
	if res, err = s.closes(sessions.CloseArgs{}, func() { s.closing(); s.ends(sandbox.Confirmed) }); err != nil || res.Stopped != "confirmed" || res.Proof != "pid_namespace" {
		t.Errorf("%+v, %v", res, err)
	}
}

// A close that does not end in time says so; another one waits for the same end.
func TestCloseTakesLong(t *testing.T) {
	s := newRig(t).idle()
	for range 2 {
		res, err := s.closes(sessions.CloseArgs{WaitSeconds: ptr(0), Delete: true}, func() {})
		if err != nil || res.Stopped != "unconfirmed" || !strings.Contains(res.Proof, "call session_close again") || res.Session.State != sessions.SessionClosing {
			t.Errorf("%+v, %v", res, err)
		}
	}
	s.ends(sandbox.Confirmed)
	res, err := s.closes(sessions.CloseArgs{}, func() {})
	if err != nil || res.Stopped != "confirmed" || s.given() != "open, close" {
		t.Errorf("%+v, %v, given %s", res, err, s.given())
	}
}

// A failed session is not forgotten while its processes may still be there: nobody would ever look for them.
func TestI10_DeleteWaitsForTheEnd(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	s.frame(bridge.OutExited, bridge.Exit{Reason: "exit", Running: []string{"c"}})
	s.wants(sessions.SessionFailed)
	res, err := s.closes(sessions.CloseArgs{WaitSeconds: ptr(0), Delete: true}, func() {})
	if err != nil || res.Session.State != sessions.SessionFailed || res.Stopped != "unconfirmed" {
		t.Errorf("%+v, %v", res, err)
	}
	s.ends(sandbox.Confirmed)
	res, err = s.closes(sessions.CloseArgs{Delete: true, Key: "k"}, func() {})
	if err != nil || res.Session.State != sessions.SessionDeleted || res.Stopped != "confirmed" {
		t.Errorf("%+v, %v", res, err)
	}
	_, err = r.Read(t.Context(), r.who, sessions.ReadArgs{SessionID: s.id})
	refused(t, err, sessions.CodeNotFound)
	res, err = s.closes(sessions.CloseArgs{Delete: true, Key: "k"}, func() {})
	if err != nil || res.Session.State != sessions.SessionDeleted {
		t.Errorf("repeated: %+v, %v", res, err)
	}
	_, err = s.closes(sessions.CloseArgs{Delete: true}, func() {})
	refused(t, err, sessions.CodeNotFound)
	select {
	case <-r.deleted:
	default:
		t.Error("the janitor was not told")
	}
}

// I12: a repeated close or cancel touches no later generation.
func TestI12_RepetitionsTouchNoLaterGeneration(t *testing.T) {
	for name, del := range map[string]bool{"close": false, "delete that did not come to it": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := r.runs()
			if _, err := s.cancel(sessions.CancelArgs{Key: "cancel"}, func() { s.cancelling("c"); s.settles("c", sessions.CommandInterrupted) }); err != nil {
				t.Fatal(err)
			}
			args := sessions.CloseArgs{Key: "close", WaitSeconds: ptr(0), Delete: del}
			if _, err := s.closes(args, func() {}); err != nil {
				t.Fatal(err)
			}
			s.ends(sandbox.Confirmed)
			res, err := r.Resume(t.Context(), r.who, sessions.ResumeArgs{SessionID: s.id, WaitSeconds: ptr(0), Key: "resume"})
			if err != nil {
				t.Fatal(err)
			}
			next := r.bridgeOf(res.Session)
			next.opens()
			next.send("d")
			for range 2 {
				closed, err := s.closes(args, func() {})
				if err != nil || closed.Stopped != "confirmed" || closed.Session.Generation != next.generation {
					t.Errorf("%+v, %v", closed, err)
				}
				if c, err := s.cancel(sessions.CancelArgs{Key: "cancel"}, func() {}); err != nil || c.Command.CommandID != "c" {
					t.Errorf("%+v, %v", c, err)
				}
				if again, err := r.Resume(t.Context(), r.who, sessions.ResumeArgs{SessionID: s.id, WaitSeconds: ptr(0), Key: "resume"}); err != nil || again.Session.Generation != next.generation {
					t.Errorf("%+v, %v", again, err)
				}
			}
			next.wants(sessions.SessionRunning, "d", "submitted")
			if next.given() != "open, prompt d" {
				t.Errorf("given: %s", next.given())
			}
		})
	}
}

// I12: what a call names must hold, or nothing is done; a lease that is lost steers nothing.
func TestI12_Guards(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	id := s.asks("h", once...)
	lease := sessions.NewID()
	r.tx(func(tx *journal.Tx) error {
		_, err := tx.UpdateSession(s.id, func(s *journal.Session) { s.Lease, s.LeaseTerm = lease, 1 })
		return err
	})
	ctx := t.Context()
	calls := map[string]func(g sessions.Guard) error{
		"send": func(g sessions.Guard) error {
			_, err := s.trySend("q", func(a *sessions.SendArgs) { a.WhenBusy, a.Guard = "queue", g })
			return err
		},
		"respond": func(g sessions.Guard) error {
			_, err := r.Respond(ctx, r.who, sessions.RespondArgs{SessionID: s.id, RequestID: id, Decision: "approve", Guard: g})
			return err
		},
		"cancel": func(g sessions.Guard) error {
			_, err := r.Cancel(ctx, r.who, sessions.CancelArgs{SessionID: s.id, Guard: g})
			return err
		},
		"fence": func(g sessions.Guard) error {
			_, err := r.Cancel(ctx, r.who, sessions.CancelArgs{SessionID: s.id, CommandID: sessions.NewID(), Guard: g})
			return err
		},
		"close": func(g sessions.Guard) error {
			_, err := r.Close(ctx, r.who, sessions.CloseArgs{SessionID: s.id, Guard: g, WaitSeconds: ptr(0)})
			return err
		},
		"resume": func(g sessions.Guard) error {
			_, err := r.Resume(ctx, r.who, sessions.ResumeArgs{SessionID: s.id, Guard: g, RunQueue: true, WaitSeconds: ptr(0)})
			return err
		},
		"read": func(g sessions.Guard) error {
			_, err := r.Read(ctx, r.who, sessions.ReadArgs{SessionID: s.id, Guard: g})
			return err
		},
	}
	for name, call := range calls {
		refused(t, call(sessions.Guard{Generation: sessions.NewID()}), sessions.CodeStaleGeneration, s.generation)
		refused(t, call(sessions.Guard{LeaseID: sessions.NewID()}), sessions.CodeLeaseLost)
		refused(t, call(sessions.Guard{Generation: s.generation, LeaseID: sessions.NewID()}), sessions.CodeLeaseLost)
		if s.given() != "open, prompt c" {
			t.Fatalf("%s: given: %s", name, s.given())
		}
	}
	for _, name := range []string{"send", "read", "fence", "resume", "close"} {
		if err := calls[name](sessions.Guard{Generation: s.generation, LeaseID: lease}); err != nil {
			t.Errorf("%s with what holds: %v", name, err)
		}
	}
}

// A turn that the agent began by itself has no command to name: a cancel without one ends it, once.
func TestCancelOfTheAgentsOwnTurn(t *testing.T) {
	s := newRig(t).idle()
	s.says(sessions.Event{Kind: sessions.EventTurnStarted, Turn: "own"})
	w := s.r.hub.add([]string{s.id}, true)
	defer w.remove()
	res, err := s.cancel(sessions.CancelArgs{Key: "k"}, func() {
		for s.given() == "open" {
			<-w.ch
		}
		s.reports(bridge.InCancel, s.id, bridge.InputWritten, nil)
		s.says(sessions.Event{Kind: sessions.EventTurnCompleted, Turn: "own", Settled: &sessions.Settlement{State: sessions.CommandInterrupted}})
	})
	if err != nil || res.Command != nil || res.Fenced || res.Session.State != sessions.SessionIdle {
		t.Errorf("%+v, %v", res, err)
	}
	s.says(sessions.Event{Kind: sessions.EventTurnStarted, Turn: "own, too"})
	if res, err = s.cancel(sessions.CancelArgs{Key: "k"}, func() {}); err != nil || res.Session.State != sessions.SessionRunning {
		t.Errorf("repeated: %+v, %v", res, err)
	}
	if s.given() != "open, cancel "+s.id {
		t.Errorf("given: %s", s.given())
	}
	if in := s.inputs()[1]; string(in.Payload) != `{"command":"","reason":"cancelled"}` {
		t.Errorf("%s", in.Payload)
	}
}

// CA-05: a cancel reaches its own session, whoever else runs.
func TestCancelOfOneOfTwo(t *testing.T) {
	r := newRig(t)
	a, b := r.idle(), r.idle()
	a.send("ca")
	b.send("cb")
	if _, err := a.cancel(sessions.CancelArgs{}, func() {
		a.cancelling("ca")
		b.settles("cb", sessions.CommandCompleted)
		a.settles("ca", sessions.CommandInterrupted)
	}); err != nil {
		t.Fatal(err)
	}
	a.wants(sessions.SessionIdle, "ca", "interrupted")
	b.wants(sessions.SessionIdle, "cb", "completed")
	if b.given() != "open, prompt cb" || b.command("cb").CancelAsked {
		t.Errorf("given: %s", b.given())
	}
}
