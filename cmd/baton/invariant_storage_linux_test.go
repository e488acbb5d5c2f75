package main

import (
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// TestI01_IntentBeforeEffect: what cannot be made durable reaches no agent, whatever it is: a prompt, an answer, a cancel,
// a new session. When it can be again the same call does its work, once.
func TestI01_IntentBeforeEffect(t *testing.T) {
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	idle, asks, runs := w.create(f, "codexlike", nil), w.create(f, "codexlike", nil), w.create(f, "cursorlike", nil)
	q, file := w.asking(f, asks.SessionID, "asks")
	call[sessions.SendResult](f, "session_send", args{"session_id": runs.SessionID, "command_id": "runs", "text": "[say 2][wait]"})
	f.streaming(runs.SessionID, "runs")
	pid := w.hostPID()
	undo := limitFiles(t, pid, 0)
	calls := []struct {
		tool string
		args args
	}{
		{"session_send", args{"session_id": idle.SessionID, "command_id": "later", "text": "#later [say 2]"}},
		{"session_respond", args{"session_id": asks.SessionID, "request_id": q.RequestID, "decision": "approve", "key": "answer"}},
		{"session_cancel", args{"session_id": runs.SessionID, "command_id": "runs", "key": "cancel"}},
		{"session_create", args{"runner": "codexlike", "cwd": w.work, "session_id": sessions.NewID(), "prompt": "#created"}},
	}
	for range 2 {
		for _, c := range calls {
			_, e := try[sessions.SendResult](f, c.tool, c.args)
			if e == nil || e.Code != sessions.CodeStorageFailed && e.Code != sessions.CodeStorageFull || e.Action == "" {
				t.Errorf("%s while nothing can be written: %v", c.tool, e)
			}
		}
	}
	if n := len(w.noted("answer")) + len(w.noted("cancel")) + w.times("#later") + w.times("#created"); n != 0 || exists(file) || len(w.find(" agent ")) != 3 {
		t.Fatalf("%d of what was refused reached an agent; agents: %v", n, w.find(" agent "))
	}
	undo()
	await(t, "the journal", func() bool {
		_, e := try[sessions.SendResult](f, calls[0].tool, calls[0].args)
		return e == nil
	})
	for _, c := range calls[1:] {
		call[sessions.SendResult](f, c.tool, c.args)
	}
	if c := f.ended(idle.SessionID, "later"); c.State != sessions.CommandCompleted {
		t.Errorf("the prompt: %+v", c)
	}
	if c := f.ended(asks.SessionID, "asks"); c.State != sessions.CommandCompleted || size(file) != 1 {
		t.Errorf("the answer: %+v", c)
	}
	if c := f.ended(runs.SessionID, "runs"); c.State != sessions.CommandInterrupted {
		t.Errorf("the cancel: %+v", c)
	}
	if w.times("#later") != 1 || len(w.noted("answer")) != 1 || len(w.noted("cancel")) != 1 {
		t.Errorf("given: %v %v %v", w.noted("prompt"), w.noted("answer"), w.noted("cancel"))
	}
	if now := w.hostPID(); now != pid {
		t.Errorf("host %d took the place of %d", now, pid)
	}
}
