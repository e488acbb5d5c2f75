package main

import (
	"testing"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/sessions"
)

// halfStarted is a session whose host died when it was durable and its agent was not launched, and whose caller is gone.
func halfStarted(t *testing.T, point string) (*world, *front, sessions.Session) {
	t.Helper()
	if !failpoint.Enabled {
		t.Skip("SKIPPED: needs the tag failpoints")
	}
	w := recordedWorld(t)
	// The first attempt finds no host, the second one loses it, and takes the front end along.
	m := &mortal{w: w, env: append([]string{"BATON_FAILPOINT=" + point + ",front.call.after:2", "BATON_FAILPOINT_DIR=" + w.path("")}, w.env...)}
	id := sessions.NewID()
	if _, err := m.once("session_create", args{"runner": "codexlike", "cwd": w.work, "session_id": id, "prompt": "#first [say 1]"}); err == nil {
		t.Fatal("the create was answered")
	}
	m.close()
	f := w.open()
	t.Cleanup(f.close)
	s := f.look(id)
	if s.State != sessions.SessionStarting {
		t.Fatalf("half started: %+v", s)
	}
	return w, f, s
}

// TestI14_AnUnfinishedStartHasExits: a start that nobody finishes can be closed at once, fails by itself after a while,
// and goes on when its call is made again; in no case anything was run unseen.
func TestI14_AnUnfinishedStartHasExits(t *testing.T) {
	for _, point := range []string{"host.create.durable:1", "host.launch.started:1", "host.launch.registered:1"} {
		t.Run("close at "+point, func(t *testing.T) {
			t.Parallel()
			w, f, s := halfStarted(t, point)
			closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
			if closed.Stopped != "confirmed" || closed.Session.State != sessions.SessionClosed {
				t.Errorf("closed: %+v", closed)
			}
			back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 50})
			if back.Session.State != sessions.SessionIdle || w.times("#first") != 0 {
				t.Errorf("taken up: %+v", back.Session)
			}
		})
		t.Run("nobody at "+point, func(t *testing.T) {
			t.Parallel()
			w, f, s := halfStarted(t, point)
			failed := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 40}).Sessions[0].Session
			if failed.State != sessions.SessionFailed || failed.Error == nil || failed.Error.Code != sessions.CodeIncomplete || len(failed.Queued) != 1 {
				t.Fatalf("left alone: %+v", failed)
			}
			if agents := w.find(" agent "); len(agents) != 0 || w.times("#first") != 0 {
				t.Errorf("agents: %v", agents)
			}
			if n := count(f.events(s.SessionID), sessions.EventGap, ""); n != 0 {
				t.Errorf("%d gaps in what no agent said", n)
			}
			back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "run_queue": true, "wait_seconds": 50})
			if back.Session.State != sessions.SessionIdle && back.Session.State != sessions.SessionRunning {
				t.Errorf("taken up: %+v", back.Session)
			}
			f.ended(s.SessionID, failed.Queued[0].CommandID)
			if n := w.times("#first"); n != 1 {
				t.Errorf("its prompt was given %d times", n)
			}
		})
		t.Run("again at "+point, func(t *testing.T) {
			t.Parallel()
			w, f, s := halfStarted(t, point)
			got := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work, "session_id": s.SessionID, "prompt": "#first [say 1]", "wait_seconds": 40})
			if got.Session.Generation != s.Generation || got.Command == nil || got.Command.State != sessions.CommandCompleted {
				t.Errorf("made again: %+v", got)
			}
			if n := w.times("#first"); n != 1 || len(w.find(" agent ")) != 1 {
				t.Errorf("its prompt was given %d times; agents %v", n, w.find(" agent "))
			}
		})
	}
}
