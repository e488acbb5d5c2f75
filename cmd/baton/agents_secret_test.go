package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// SE-02: a command of a real agent writes a secret in two halves, of which each agent tells in its own way, some while the
// command runs, some in pieces. No part of it that is worth anything is kept.
func TestRealAgentsTellNoSecret(t *testing.T) {
	for _, a := range everyAgent {
		t.Run(a.runner, func(t *testing.T) {
			w, _ := a.start(t)
			f := w.open()
			defer f.close()
			const first, second = "Zq7-pLanted+h", "4lFx9Q~7Tz2w0k"
			s := a.create(w, f, args{"mode": "default", "env": args{"MY_SETTING": first + second}})
			written := `printf %s "begin ${MY_SETTING%` + second + `}"; sleep 2; printf %s "${MY_SETTING#` + first + `} end"; echo; echo "$MY_SETTING"`
			if err := os.WriteFile(filepath.Join(w.work, "write-it"), []byte(written), 0o600); err != nil {
				t.Fatal(err)
			}
			asked := a.mustAsk(t, f, s.SessionID, a.command("sh write-it"))
			call[sessions.RespondResult](f, "session_respond", args{"session_id": s.SessionID, "request_id": asked.Requests[0].RequestID, "decision": "approve"})
			if last := f.settle(s.SessionID); last.Last.State != sessions.CommandCompleted {
				t.Errorf("%+v", last.Last)
			}
			told := w.baton("journal", "export", s.SessionID)
			if !strings.Contains(told, "[redacted]") && a.runner != "gemini" { // which tells of no output (0.61.0)
				t.Errorf("nothing was redacted: %s", told)
			}
			for i := range len(first+second) - 7 {
				if part := (first + second)[i : i+8]; strings.Contains(told, part) {
					at := strings.Index(told, part)
					t.Fatalf("%q is told: %s", part, told[max(0, at-1500):min(len(told), at+500)])
				}
			}
		})
	}
}
