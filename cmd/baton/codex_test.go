package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sessions"
)

// codexWorld is a world with the real Codex and a mock of its model provider.
func codexWorld(t *testing.T) (*world, *responses.Server) {
	t.Helper()
	codex := os.Getenv("BATON_TEST_CODEX")
	if codex == "" {
		t.Skip("SKIPPED: BATON_TEST_CODEX names no Codex binary; continuous integration installs one")
	}
	mock := responses.Start(t)
	w := newWorld(t, "BATON_RUNNER_CODEX="+codex)
	w.env = append(w.env, "CODEX_HOME="+w.path("codex"))
	if err := responses.WriteHome(w.path("codex"), mock.URL); err != nil {
		t.Fatal(err)
	}
	return w, mock
}

func (w *world) codex(f *front, more args) sessions.Session {
	w.t.Helper()
	a := args{"runner": "codex", "cwd": w.work, "model": responses.Model, "wait_seconds": 40}
	for k, v := range more {
		a[k] = v
	}
	return call[sessions.CreateResult](f, "session_create", a).Session
}

func TestCodexStreams(t *testing.T) {
	w, mock := codexWorld(t)
	f := w.open()
	defer f.close()
	before, err := os.ReadFile(w.path("codex/config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	s := w.codex(f, nil)
	if s.State != sessions.SessionIdle || s.Selections.Evidence.Model != responses.Model || s.Selections.Evidence.Sandbox != sessions.SandboxWorkspaceWrite {
		t.Fatalf("not confirmed: %+v", s)
	}
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 40 8 5]", "command_id": "c-1", "wait_seconds": 30})
	if sent.Command.State != sessions.CommandCompleted {
		t.Fatalf("command: %+v", sent.Command)
	}
	evs := f.events(s.SessionID)
	if got := words(evs, "c-1"); len(got) != 40*8 || got != sent.Text {
		t.Errorf("streamed %d bytes, final text has %d", len(got), len(sent.Text))
	}
	if n := count(evs, sessions.EventCommandSettled, "c-1"); n != 1 {
		t.Errorf("%d ends of one command:\n%s", n, kinds(evs))
	}
	if got := mock.Requests(); len(got) != 1 || got[0].Model != responses.Model {
		t.Errorf("the provider got %+v", got)
	}
	after, err := os.ReadFile(w.path("codex/config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Errorf("the user's configuration was changed:\n%s", after)
	}
	closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	if s.Containment.Rung == "pid_namespace" && closed.Stopped != "confirmed" {
		t.Errorf("closed: %+v", closed)
	}
	if left := w.find("app-server"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestCodexApprovals(t *testing.T) {
	w, _ := codexWorld(t)
	f := w.open()
	defer f.close()
	s := w.codex(f, args{"approval_policy": "untrusted"})
	for _, c := range []struct {
		decision string
		there    bool
	}{{"approve", true}, {"deny", false}} {
		file := filepath.Join(w.work, c.decision)
		sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[shell touch " + file + "]", "wait_seconds": 30})
		if len(sent.Session.Requests) != 1 || !sent.Session.NeedsInput {
			t.Fatalf("%s: no request: %+v", c.decision, sent)
		}
		if exists(file) {
			t.Fatalf("%s: the command ran before it was answered", c.decision)
		}
		q := sent.Session.Requests[0]
		if !strings.Contains(q.Title+q.Detail, "touch") {
			t.Errorf("the request does not show its command: %+v", q)
		}
		answered := call[sessions.RespondResult](f, "session_respond", args{"session_id": s.SessionID, "request_id": q.RequestID, "decision": c.decision})
		if answered.Request.State != sessions.RequestAnswered {
			t.Errorf("%s: %+v", c.decision, answered.Request)
		}
		done := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 30})
		if len(done.Sessions) != 1 || done.Sessions[0].Session.Last.State != sessions.CommandCompleted {
			t.Fatalf("%s: %+v", c.decision, done)
		}
		if exists(file) != c.there {
			t.Errorf("%s: the file is there: %v", c.decision, exists(file))
		}
		refused(f, sessions.CodeAlreadyAnswered, "session_respond", args{"session_id": s.SessionID, "request_id": q.RequestID, "option_id": "cancel"})
	}
}

func TestCodexInterrupt(t *testing.T) {
	w, _ := codexWorld(t)
	f := w.open()
	defer f.close()
	s := w.codex(f, nil)
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 2000 8 10]"})
	f.streaming(s.SessionID, sent.Command.CommandID)
	cancelled := call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID})
	if cancelled.Command == nil || cancelled.Command.State != sessions.CommandInterrupted {
		t.Fatalf("cancel: %+v", cancelled.Command)
	}
	again := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "hello", "wait_seconds": 30})
	if again.Command.State != sessions.CommandCompleted {
		t.Errorf("after the cancel: %+v", again.Command)
	}
}

func TestCodexWrongModelIsRefusedBeforeAnyPrompt(t *testing.T) {
	w, mock := codexWorld(t)
	f := w.open()
	defer f.close()
	e := refused(f, sessions.CodeModelUnavailable, "session_create", args{"runner": "codex", "cwd": w.work, "model": "no-such-model", "prompt": "hello", "wait_seconds": 40})
	if !strings.Contains(e.Error(), responses.Model) {
		t.Errorf("the refusal does not say what there is: %v", e)
	}
	if got := mock.Requests(); len(got) != 0 {
		t.Errorf("the provider got %+v", got)
	}
	list := call[sessions.ListResult](f, "session_list", args{"all": true})
	if len(list.Sessions) != 1 || list.Sessions[0].State != sessions.SessionFailed || list.Sessions[0].Error.Code != sessions.CodeModelUnavailable {
		t.Errorf("the failed session does not say why: %+v", list.Sessions)
	}
	if left := w.find("app-server"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestCodexKilledAgentResumesItsThread(t *testing.T) {
	w, mock := codexWorld(t)
	f := w.open()
	defer f.close()
	s := w.codex(f, nil)
	call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "first", "command_id": "c-1", "wait_seconds": 30})
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 2000 8 10]", "command_id": "c-2"})
	f.streaming(s.SessionID, sent.Command.CommandID)
	agents := w.find("app-server")
	if len(agents) != 1 {
		t.Fatalf("agents: %v", agents)
	}
	if err := syscall.Kill(agents[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lost := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 30}).Sessions
	if len(lost) != 1 || lost[0].Session.State != sessions.SessionFailed || lost[0].Session.Last.State != sessions.CommandUnknown {
		t.Fatalf("after the kill: %+v", lost)
	}
	refused(f, sessions.CodeOutcomeUnknown, "session_send", args{"session_id": s.SessionID, "text": "more"})
	back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 40})
	if back.Session.NativeID != s.NativeID || back.Session.Generation == s.Generation || back.Session.State != sessions.SessionIdle {
		t.Fatalf("resumed: %+v", back.Session)
	}
	if len(back.Settled) != 1 || back.Settled[0].State != sessions.CommandInterrupted {
		t.Errorf("not settled by the thread's record: %+v", back.Settled)
	}
	again := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "and on", "wait_seconds": 30})
	if again.Command.State != sessions.CommandCompleted {
		t.Errorf("after the resume: %+v", again.Command)
	}
	sends := 0
	for _, r := range mock.Requests() {
		if strings.Contains(r.Text, "say 2000") {
			sends++
		}
	}
	if sends != 1 {
		t.Errorf("the lost prompt was sent %d times", sends)
	}
}

func TestCodexGoesOnWhenTheHostIsKilled(t *testing.T) {
	w, mock := codexWorld(t)
	f := w.open()
	defer f.close()
	s := w.codex(f, nil)
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 150 8 10]", "command_id": "c-1"})
	f.streaming(s.SessionID, sent.Command.CommandID)
	w.killHost()
	done := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 40}).Sessions
	if len(done) != 1 || done[0].Session.Last == nil || done[0].Session.Last.State != sessions.CommandCompleted {
		t.Fatalf("after the kill: %+v", done)
	}
	evs := f.events(s.SessionID)
	if got := words(evs, "c-1"); len(got) != 150*8 || got != done[0].Text {
		t.Errorf("%d bytes of text of %d\n%s", len(got), 150*8, kinds(evs))
	}
	if n := len(mock.Requests()); n != 1 {
		t.Errorf("the provider got %d requests", n)
	}
	if s2 := done[0].Session; s2.Generation != s.Generation {
		t.Errorf("the generation changed from %s to %s", s.Generation, s2.Generation)
	}
}
