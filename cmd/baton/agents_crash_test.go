package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// TestRealAgentsOutliveTheirHost kills the host, and then the bridge, in the middle of turns of each real agent that is
// there: what is asked, written, cancelled and closed meanwhile is told once, and as it was.
func TestRealAgentsOutliveTheirHost(t *testing.T) {
	for _, a := range everyAgent {
		t.Run(a.runner, func(t *testing.T) { a.outlive(t) })
	}
}

func (a realAgent) outlive(t *testing.T) {
	w, mock := a.start(t)
	f := w.open()
	defer func() { f.close() }()
	s := a.create(w, f, args{"mode": "default"})
	created := time.Now()
	killHost := func() {
		w.killHost()
		f.close()
		f = w.open()
	}
	// While it writes.
	said, slow := cmp.Or(a.say, "[slow 100] [say 30]"), a.say == ""
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": said, "command_id": "c-writes"})
	written := func() string { return words(f.events(s.SessionID), sent.Command.CommandID) }
	if slow {
		await(t, "the first words", func() bool { return written() != "" })
	}
	killHost()
	if last, got := f.settle(s.SessionID), written(); last.Last.State != sessions.CommandCompleted || !strings.HasSuffix(strings.TrimSpace(got), "w29 w30") || strings.Count(got, "w30") != 1 {
		t.Errorf("written: %+v, %q", last.Last, got)
	}
	if n := mock.Asked(said); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}

	// While it asks.
	for _, decision := range []string{"approve", "deny"} {
		file := filepath.Join(w.work, decision)
		asked := a.mustAsk(t, f, s.SessionID, a.command("touch "+file)).Requests[0]
		killHost()
		now := f.look(s.SessionID)
		if len(now.Requests) != 1 || now.Requests[0].RequestID != asked.RequestID || exists(file) {
			t.Fatalf("asked %+v, and after the end of the host %+v", asked, now.Requests)
		}
		call[sessions.RespondResult](f, "session_respond", args{"session_id": s.SessionID, "request_id": asked.RequestID, "decision": decision})
		want := map[string]sessions.CommandState{"approve": sessions.CommandCompleted, "deny": a.denied}[decision]
		if last := f.settle(s.SessionID); last.Last.State != want || exists(file) != (decision == "approve") {
			t.Errorf("%s: %+v", decision, last.Last)
		}
	}

	// It asks, and is cancelled.
	file := filepath.Join(w.work, "never")
	asked := a.mustAsk(t, f, s.SessionID, a.command("touch "+file)).Requests[0]
	if c := call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID}); c.Command == nil || c.Command.State != sessions.CommandInterrupted {
		t.Errorf("cancelled while it asked: %+v", c.Command)
	}
	if e := refused(f, sessions.CodeWithdrawn, "session_respond", args{"session_id": s.SessionID, "request_id": asked.RequestID, "decision": "approve"}); e == nil || exists(file) {
		t.Errorf("an answer after the cancel: %v", e)
	}

	// While its command runs; the next host cancels.
	a.working(t, w, f, s.SessionID)
	killHost()
	if c := call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID}); c.Command == nil || c.Command.State != sessions.CommandInterrupted {
		t.Errorf("cancelled by the next host: %+v", c.Command)
	}
	if left := w.find("sleep 61"); len(left) > 0 || exists(filepath.Join(w.work, "late")) {
		t.Errorf("left of the cancelled turn: %v", left)
	}

	// The bridge dies, and with it everything of the session.
	a.outlastsMinute(created)
	a.working(t, w, f, s.SessionID)
	w.kill("baton bridge")
	if lost := f.settle(s.SessionID); lost.State != sessions.SessionFailed || lost.Last.State != sessions.CommandUnknown {
		t.Errorf("after the end of the bridge: %s, %+v", lost.State, lost.Last)
	}
	await(t, "the end of what the agent had started", func() bool { return len(w.find("sleep 61")) == 0 && len(w.agents(a)) == 0 })
	back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "acknowledge_unknown": true, "wait_seconds": 50})
	if now := a.ready(w, f, back.Session); now.NativeID != s.NativeID || now.Selections.Evidence.Model != a.model {
		t.Errorf("resumed: %+v", now)
	}

	// Closed while its command runs.
	a.working(t, w, f, s.SessionID)
	closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	if s.Containment.Rung == "pid_namespace" && closed.Stopped != "confirmed" {
		t.Errorf("closed: %+v", closed)
	}
	if last := f.look(s.SessionID).Last; last.State != sessions.CommandInterrupted && last.State != sessions.CommandUnknown {
		t.Errorf("closed in a turn: %+v", last)
	} else {
		t.Logf("closed in a turn: %s: %s", last.State, last.Reason)
	}
	if left := append(w.agents(a), w.find("sleep 61")...); len(left) > 0 || exists(filepath.Join(w.work, "late")) {
		t.Errorf("left: %v", left)
	}

	told := map[string]int{}
	for _, e := range f.events(s.SessionID) {
		if e.Late { // codex-acp tells of a cancelled command once more when it ends (2.6.0)
			continue
		}
		switch e.Kind {
		case sessions.EventTurnStarted, sessions.EventTurnCompleted, sessions.EventCommandSubmitted, sessions.EventCommandAccepted, sessions.EventCommandSettled, sessions.EventToolStarted, sessions.EventToolCompleted:
			told[fmt.Sprint(e.Kind, " ", e.Command, " ", e.Item)]++
		}
	}
	for what, n := range told {
		if n > 1 {
			t.Errorf("told %d times: %s", n, what)
		}
	}
	if n := mock.Asked("sleep 61"); n != 3 {
		t.Errorf("the provider was asked %d times for three commands", n)
	}
}
