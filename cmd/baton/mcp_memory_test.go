package main

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// A change that a front end was told of is in the list of every other one, which has asked before and may remember, also
// where the host was killed in between.
func TestFrontEndsTellWhatOthersChanged(t *testing.T) {
	w := newWorld(t)
	a, b := w.open(), w.open()
	defer a.close()
	defer b.close()
	s := call[sessions.CreateResult](a, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
	state := func(f *front) string {
		t.Helper()
		list := call[sessions.ListResult](f, "session_list", args{"all": true})
		if len(list.Sessions) != 1 {
			t.Fatalf("%d sessions", len(list.Sessions))
		}
		v := list.Sessions[0]
		last := ""
		if v.Last != nil {
			last = v.Last.CommandID
		}
		return string(v.State) + " " + last
	}
	for i := range 8 {
		for range 3 {
			state(a)
			state(b)
		}
		if i%3 == 2 {
			syscall.Kill(w.hostPID(), syscall.SIGKILL)
		}
		id := fmt.Sprintf("c-%d", i)
		call[sessions.SendResult](a, "session_send", args{"session_id": s.SessionID, "text": "[say 1]", "command_id": id, "wait_seconds": 50})
		if got := state(b); got != "idle "+id {
			t.Fatalf("round %d: the other front end tells %q", i, got)
		}
	}
	call[sessions.CloseResult](b, "session_close", args{"session_id": s.SessionID, "wait_seconds": 50})
	if got := state(a); got != "closed c-7" {
		t.Errorf("after the close the other front end tells %q", got)
	}
}
