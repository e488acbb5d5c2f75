package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/sessions"
)

// TestManyHTTPSessions: 200 clients (-short: 50) at once have a session of MCP each, look around, and wait for one agent. All of them
// are answered when it is done, while others come, ask and go.
func TestManyHTTPSessions(t *testing.T) {
	t.Parallel()
	many := 200
	if testing.Short() {
		many = 50
	}
	w := newWorld(t)
	url := w.serveHTTP()
	var token struct{ Secret string }
	if err := json.Unmarshal([]byte(w.baton("token", "new", "many", "--folder", w.work, "--json")), &token); err != nil {
		t.Fatal(err)
	}
	one := w.openHTTP(url, token.Secret)
	defer one.close()
	s := call[sessions.CreateResult](one, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
	call[sessions.SendResult](one, "session_send", args{"session_id": s.SessionID, "command_id": "held", "text": held("go")})

	fronts := make([]*front, many)
	each := func(do func(i int)) {
		var all sync.WaitGroup
		for i := range fronts {
			all.Go(func() { do(i) })
		}
		all.Wait()
	}
	each(func(i int) { fronts[i] = w.openHTTP(url, token.Secret) })
	each(func(i int) {
		if list := call[sessions.ListResult](fronts[i], "session_list", args{}).Sessions; len(list) != 1 || list[0].Running == nil {
			t.Errorf("client %d sees %+v", i, list)
		}
	})
	got := make([]string, many)
	var waiting sync.WaitGroup
	for i, f := range fronts {
		waiting.Go(func() {
			for range 5 {
				r := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 40})
				if !r.TimedOut {
					got[i] = fmt.Sprintf("%d %s", len(r.Sessions), r.Sessions[0].Text)
					return
				}
			}
		})
	}
	for range 5 {
		f := w.openHTTP(url, token.Secret)
		if r, e := try[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 0}); e != nil || !r.TimedOut {
			t.Errorf("beside the waits: %+v, %v", r, e)
		}
		f.close()
	}
	w.write("work/go", "")
	waiting.Wait()
	for i, text := range got {
		if want := "1 " + directive.Words(5); text != want {
			t.Errorf("client %d got %q, not %q", i, text, want)
		}
	}
	each(func(i int) { fronts[i].close() })
	call[sessions.CloseResult](one, "session_close", args{"session_id": s.SessionID})
}
