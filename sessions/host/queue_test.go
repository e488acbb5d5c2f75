package host

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// I05: what becomes of a send, by the state of the session and what its caller chose.
func TestI05_OneTurnAtATime(t *testing.T) {
	cannotSteer := func(s *session) {
		s.says(sessions.Event{Kind: sessions.EventWarning}) // nothing to do with it
		s.frame(bridge.OutOpened, sessions.Opened{NativeID: "native"})
	}
	for name, c := range map[string]struct {
		from  func(*rig) *session
		busy  string
		state sessions.CommandState
		code  sessions.Code
		given string // last of what the bridge is given
	}{
		"idle":              {func(r *rig) *session { return r.idle() }, "", sessions.CommandSubmitted, "", "prompt new"},
		"idle, queue":       {func(r *rig) *session { return r.idle() }, "queue", sessions.CommandSubmitted, "", "prompt new"},
		"idle, steer":       {func(r *rig) *session { return r.idle() }, "steer", sessions.CommandSubmitted, "", "prompt new"},
		"running":           {func(r *rig) *session { return r.runs() }, "", "", sessions.CodeBusy, "prompt c"},
		"running, refuse":   {func(r *rig) *session { return r.runs() }, "refuse", "", sessions.CodeBusy, "prompt c"},
		"running, queue":    {func(r *rig) *session { return r.runs() }, "queue", sessions.CommandQueued, "", "prompt c"},
		"running, steer":    {func(r *rig) *session { return r.runs() }, "steer", sessions.CommandSubmitted, "", "prompt new"},
		"starting":          {func(r *rig) *session { return r.starting() }, "", "", sessions.CodeBusy, "open"},
		"starting, steer":   {func(r *rig) *session { return r.starting() }, "steer", "", sessions.CodeBusy, "open"},
		"starting, queue":   {func(r *rig) *session { return r.starting() }, "queue", sessions.CommandQueued, "", "open"},
		"closing":           {closingSession, "", "", sessions.CodeNotRunning, "close"},
		"closing, queue":    {closingSession, "queue", "", sessions.CodeNotRunning, "close"},
		"failed":            {failedSession, "", "", sessions.CodeNotRunning, "open"},
		"failed, queue":     {failedSession, "queue", "", sessions.CodeNotRunning, "open"},
		"an unknown choice": {func(r *rig) *session { return r.idle() }, "whenever", "", sessions.CodeInvalidParams, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.from(newRig(t))
			res, err := s.trySend("new", busy(c.busy))
			if sessions.CodeOf(err) != c.code || res.Command.State != c.state {
				t.Errorf("got %s, %v; want %s, %s", res.Command.State, err, c.state, c.code)
			}
			if got := s.given(); !strings.HasSuffix(got, c.given) {
				t.Errorf("given: %s, want the last to be %s", got, c.given)
			}
			if c.code != "" {
				s.r.tx(noCommand(s.id, "new", t))
			}
		})
	}
	t.Run("a runner that cannot steer", func(t *testing.T) {
		r := newRig(t)
		s := r.starting()
		cannotSteer(s)
		s.send("c")
		_, err := s.trySend("new", busy("steer"))
		refused(t, err, sessions.CodeUnsupported, "cannot steer", "queue")
	})
}

func closingSession(r *rig) *session {
	s := r.idle()
	if _, err := r.Close(r.t.Context(), r.who, sessions.CloseArgs{SessionID: s.id, WaitSeconds: ptr(0)}); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func failedSession(r *rig) *session {
	s := r.idle()
	s.ends(sandbox.Confirmed)
	return s
}

// The queue goes on after completed and failed, and stands still after everything else until somebody asks for it.
func TestQueueGoesOn(t *testing.T) {
	for state, goes := range map[sessions.CommandState]bool{
		sessions.CommandCompleted: true, sessions.CommandFailed: true,
		sessions.CommandInterrupted: false, sessions.CommandCancelUnconfirmed: false, sessions.CommandUnknown: false,
	} {
		t.Run(string(state), func(t *testing.T) {
			r := newRig(t)
			s := r.runs()
			s.send("q1", busy("queue"))
			s.send("q2", busy("queue"))
			s.settles("c", state)
			if goes {
				s.wants(sessions.SessionRunning, "q1", "submitted", "q2", "queued")
				return
			}
			s.wants(sessions.SessionIdle, "q1", "queued", "q2", "queued")
			_, err := r.Resume(t.Context(), r.who, sessions.ResumeArgs{SessionID: s.id, RunQueue: true, AcknowledgeUnknown: state == sessions.CommandUnknown, WaitSeconds: ptr(0)})
			if err != nil {
				t.Fatal(err)
			}
			s.wants(sessions.SessionRunning, "q1", "submitted", "q2", "queued")
			s.settles("q1", sessions.CommandCompleted)
			s.wants(sessions.SessionRunning, "q1", "completed", "q2", "submitted")
		})
	}
}

// A prompt that is refused spends no command of the queue where the next would be refused as well.
func TestQueueIsNotSpentOnRefusals(t *testing.T) {
	for code, goes := range map[sessions.Code]bool{
		sessions.CodeModelUnavailable: true, sessions.CodeUnsupported: true, sessions.CodeInvalidParams: true,
		sessions.CodeNotRunning: false, sessions.CodeAgentExited: false, sessions.CodeBusy: false, sessions.CodeSelectionUnconfirmed: false, sessions.CodeFenced: false,
	} {
		t.Run(string(code), func(t *testing.T) {
			s := newRig(t).idle()
			s.send("c")
			s.send("q", busy("queue"))
			s.reports(bridge.InPrompt, "c", bridge.InputRefused, sessions.Errorf(code, "no"))
			if goes {
				s.wants(sessions.SessionRunning, "c", "failed", "q", "submitted")
			} else {
				s.wants(sessions.SessionIdle, "c", "failed", "q", "queued")
			}
		})
	}
}

// What waits in a paused queue, or after a resume that did not ask for it, is not let go by what is sent instead.
func TestQueueThatWasOvertaken(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	s.send("old1", busy("queue"))
	s.send("old2", busy("queue"))
	s.settles("c", sessions.CommandInterrupted)
	s.send("new")
	s.send("after", busy("queue"))
	s.settles("new", sessions.CommandCompleted)
	s.wants(sessions.SessionRunning, "old1", "queued", "old2", "queued", "after", "submitted")
	s.settles("after", sessions.CommandCompleted)
	s.wants(sessions.SessionIdle, "old1", "queued", "old2", "queued")
	if v := s.view(); !strings.Contains(v.Recovery, "run_queue") {
		t.Errorf("recovery %q", v.Recovery)
	}
	run := sessions.ResumeArgs{SessionID: s.id, RunQueue: true, WaitSeconds: ptr(0)}
	s.send("meanwhile")
	if _, err := r.Resume(t.Context(), r.who, run); err != nil { // asked for while another runs
		t.Fatal(err)
	}
	s.wants(sessions.SessionRunning, "meanwhile", "submitted", "old1", "queued")
	s.settles("meanwhile", sessions.CommandCompleted)
	s.wants(sessions.SessionRunning, "old1", "submitted", "old2", "queued")
	s.settles("old1", sessions.CommandCompleted)
	s.wants(sessions.SessionRunning, "old2", "submitted")
}

func TestQueueAfterResume(t *testing.T) {
	for _, run := range []bool{false, true} {
		t.Run(fmt.Sprintf("run_queue %v", run), func(t *testing.T) {
			r := newRig(t)
			s := r.runs()
			s.send("q1", busy("queue"))
			s.send("q2", busy("queue"))
			s.settles("c", sessions.CommandInterrupted)
			s.ends(sandbox.Confirmed)
			s.wants(sessions.SessionFailed, "q1", "queued", "q2", "queued")
			res, err := r.Resume(t.Context(), r.who, sessions.ResumeArgs{SessionID: s.id, RunQueue: run, WaitSeconds: ptr(0)})
			if err != nil {
				t.Fatal(err)
			}
			s = r.bridgeOf(res.Session)
			s.opens()
			if run {
				s.wants(sessions.SessionRunning, "q1", "submitted", "q2", "queued")
				return
			}
			s.wants(sessions.SessionIdle, "q1", "queued", "q2", "queued")
			s.send("new")
			s.settles("new", sessions.CommandCompleted)
			s.wants(sessions.SessionIdle, "q1", "queued", "q2", "queued")
		})
	}
}

func TestQueueIsBounded(t *testing.T) {
	s := newRig(t).runs()
	for i := range sessions.MaxQueue {
		s.send(fmt.Sprint("q", i), busy("queue"))
	}
	_, err := s.trySend("more", busy("queue"))
	refused(t, err, sessions.CodeLimitExceeded, "100")
}

// A steering command owns no turn: it names the running one, and its end moves neither the session nor the queue.
func TestSteering(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	s.send("steer", busy("steer"))
	s.send("q", busy("queue"))
	if c := s.command("steer"); c.Steer != "c" {
		t.Errorf("it steers %q", c.Steer)
	}
	s.accepts("steer")
	s.text("c", "both done")
	s.settles("c", sessions.CommandInterrupted)
	s.wants(sessions.SessionIdle, "c", "interrupted", "steer", "accepted", "q", "queued")
	s.settles("steer", sessions.CommandCompleted) // it must not let a paused queue go
	s.wants(sessions.SessionIdle, "steer", "completed", "q", "queued")
	if res := s.send("steer", busy("steer"), func(a *sessions.SendArgs) { a.WaitSeconds = ptr(1) }); res.Text != "both done" {
		t.Errorf("the text of the turn that it steered is %q", res.Text)
	}
	w, err := r.Wait(t.Context(), r.who, sessions.WaitArgs{SessionIDs: []string{s.id}})
	if err != nil || w.Sessions[0].Text != "both done" {
		t.Errorf("%+v, %v", w, err)
	}

	s = newRig(t).runs()
	s.send("steer2", busy("steer"))
	s.reports(bridge.InPrompt, "steer2", bridge.InputRefused, sessions.Errorf(sessions.CodeNotRunning, "the turn has ended"))
	s.wants(sessions.SessionRunning, "c", "accepted", "steer2", "failed")
	if c := s.command("steer2"); c.Outcome != "not_running" {
		t.Errorf("outcome %q", c.Outcome)
	}
}

// What a command overrides goes with its prompt, images as paths of the workspace.
func TestPromptCarriesWhatWasAsked(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	s.send("c", func(a *sessions.SendArgs) { a.Model, a.Effort, a.Mode, a.DeadlineSeconds = "m", "high", "plan", 60 })
	in := s.inputs()[1]
	want := `{"command_id":"c","text":"do c","model":"m","effort":"high","mode":"plan","deadline_seconds":60}`
	if string(in.Payload) != want {
		t.Errorf("%s", in.Payload)
	}
}

// A send that waits returns at once when its session asks already: somebody has to answer before anything goes on.
func TestSendThatWaitsMeetsAQuestion(t *testing.T) {
	s := newRig(t).runs()
	s.asks("h", once...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := s.r.Send(ctx, s.r.who, sessions.SendArgs{SessionID: s.id, CommandID: "q", Text: "t", WhenBusy: "queue", WaitSeconds: ptr(50)})
	if err != nil || !res.Session.NeedsInput || res.Command.State != sessions.CommandQueued {
		t.Errorf("%+v, %v", res, err)
	}
}
