package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// TestI14_OneBrokenSessionBlocksNoOther: whatever is wrong with the record of one live session, the host starts, the
// others go on, and the broken one has an exit.
func TestI14_OneBrokenSessionBlocksNoOther(t *testing.T) {
	for _, c := range []struct{ name, set string }{
		{"no json", `record = 'broken'`},
		{"an empty record", `record = '{}'`},
		{"another shape", `record = '[1,2]'`},
		{"a foreign process", `record = json_set(record, '$.pid', 1)`},
		{"another namespace", `record = json_set(record, '$.pid_scope', 7)`},
		{"no boot", `record = json_set(record, '$.boot_id', '')`},
		{"nothing legible", `record = 'broken', argv = 'broken'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			broken := w.create(f, "codexlike", args{"title": "broken"})
			sound := w.create(f, "codexlike", args{"title": "sound"})
			call[sessions.SendResult](f, "session_send", args{"session_id": broken.SessionID, "text": "[say 1]", "wait_seconds": 50})
			w.stopHost()
			w.alter("UPDATE generations SET " + c.set + " WHERE session = '" + broken.SessionID + "'")
			sent := call[sessions.SendResult](f, "session_send", args{"session_id": sound.SessionID, "text": "[say 2]", "wait_seconds": 50})
			if sent.Command.State != sessions.CommandCompleted || sent.Session.Generation != sound.Generation {
				t.Errorf("the sound one: %+v", sent)
			}
			refused(f, sessions.CodeNotRunning, "session_send", args{"session_id": broken.SessionID, "text": "[say 1]"})
			lost := f.look(broken.SessionID)
			if lost.State != sessions.SessionFailed || lost.Error == nil || !strings.Contains(lost.Error.Action, "accept_unconfirmed") {
				t.Errorf("the broken one: %+v", lost)
			}
			if closed := call[sessions.CloseResult](f, "session_close", args{"session_id": broken.SessionID}); closed.Stopped != "unconfirmed" {
				t.Errorf("closed: %+v", closed)
			}
			refused(f, sessions.CodeStopUnconfirmed, "session_resume", args{"session_id": broken.SessionID})
			back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": broken.SessionID, "accept_unconfirmed": true, "wait_seconds": 50})
			if back.Session.State != sessions.SessionIdle {
				t.Errorf("taken up again: %+v", back.Session)
			}
			if agents := w.find(" agent "); len(agents) != 2 {
				t.Errorf("agents: %v", agents)
			}
		})
	}
}

// TestI14_FrozenBridge: a bridge that stands still holds its session for no longer than it takes to be sure, whether
// somebody waits for it to end or not, and what it held is told as it is.
func TestI14_FrozenBridge(t *testing.T) {
	for _, closing := range []bool{false, true} {
		t.Run(fmt.Sprintf("closed %v", closing), func(t *testing.T) {
			if closing && testing.Short() {
				return // it takes as long as the other one
			}
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			s := w.create(f, "codexlike", nil)
			if s.Containment.Rung != "pid_namespace" {
				t.Skip("SKIPPED: without a pid namespace nothing is proven")
			}
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "c", "text": "[say 3][wait]"})
			f.streaming(s.SessionID, "c")
			for _, p := range w.find("baton bridge") {
				if err := syscall.Kill(p.PID, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			want := sessions.SessionClosed
			if !closing {
				want = sessions.SessionFailed
				res := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 45})
				if len(res.Sessions) != 1 || res.Sessions[0].Session.State != want || res.Sessions[0].Session.Error == nil ||
					res.Sessions[0].Session.Error.Action == "" {
					t.Fatalf("it is %+v", res)
				}
			}
			closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID}) // the first is the last
			if closed.Stopped != "confirmed" || closed.Session.State != want {
				t.Errorf("closed: %s, %s: %s", closed.Session.State, closed.Stopped, closed.Proof)
			}
			back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 50})
			if back.Session.State != sessions.SessionIdle || len(back.Settled) != 1 || back.Settled[0].State != sessions.CommandInterrupted {
				t.Errorf("%s, settled %+v", back.Session.State, back.Settled)
			}
			if n := w.times("[say 3]"); n != 1 {
				t.Errorf("the prompt was given %d times", n)
			}
		})
	}
}
