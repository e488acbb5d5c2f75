package main

import (
	"strings"
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
			call[sessions.SendResult](f, "session_send", args{"session_id": broken.SessionID, "text": "[say 1]", "wait_seconds": 30})
			w.stopHost()
			w.alter("UPDATE generations SET " + c.set + " WHERE session = '" + broken.SessionID + "'")
			sent := call[sessions.SendResult](f, "session_send", args{"session_id": sound.SessionID, "text": "[say 2]", "wait_seconds": 30})
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
			back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": broken.SessionID, "accept_unconfirmed": true, "wait_seconds": 30})
			if back.Session.State != sessions.SessionIdle {
				t.Errorf("taken up again: %+v", back.Session)
			}
			if agents := w.find(" agent "); len(agents) != 2 {
				t.Errorf("agents: %v", agents)
			}
		})
	}
}
