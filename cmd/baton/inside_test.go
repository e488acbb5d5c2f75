package main

import (
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// TestInsideASessionNothingIsOffered: an agent that runs baton gets no tools, starts no host, and cannot read what waits
// for an answer.
func TestInsideASessionNothingIsOffered(t *testing.T) {
	w := newWorld(t)
	outside := w.open()
	defer outside.close()
	s := call[sessions.CreateResult](outside, "session_create", args{"runner": "codexlike", "cwd": w.work, "approval_policy": "untrusted"}).Session
	inside := *w
	inside.env = append(append([]string{}, w.env...), sandbox.MarkerEnv+"=some-session", "BATON_HOME="+w.path("other"))
	f := inside.open()
	defer f.close()
	if tools := f.tools(); len(tools) != 0 {
		t.Errorf("offered inside a session: %v", tools)
	}
	if exists(w.path("other/state")) {
		t.Error("a host was started from inside a session")
	}
	// What the agent itself can try: its own baton, against the state directory that it was not told of.
	sent := call[sessions.SendResult](outside, "session_send", args{"session_id": s.SessionID, "wait_seconds": 50,
		"text": "[run ls " + w.path("baton/state") + " " + w.path("baton/run") + "]"})
	if sent.Command.State != sessions.CommandCompleted {
		t.Fatalf("%+v", sent.Command)
	}
	for _, e := range outside.events(s.SessionID) {
		if e.Tool != nil && e.Kind == sessions.EventToolCompleted {
			t.Logf("the agent saw: %s", e.Tool.Output)
			if e.Tool.Exit == nil || *e.Tool.Exit == 0 {
				if s.Containment.Rung == "pid_namespace" {
					t.Error("Baton's own folders are readable inside a session")
				}
			}
		}
	}
}
