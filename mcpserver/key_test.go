package mcpserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batonmcp/baton/sessions"
)

// ID-01: 20 parallel sends of one command id reach the API as one key.
func TestParallelRepeatsShareTheirKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := start(t, f)
		for i := range 20 {
			c.call(jsonOf(i), "session_send", `{"session_id":"s","text":"x","command_id":"c1"}`, fmt.Sprintf(`{"claudecode/toolUseId":"toolu_%d"}`, i))
		}
		for i := range 20 {
			ok(t, c.answer(jsonOf(i)), "session_send")
		}
		for _, a := range f.calls() {
			if id := a.(sessions.SendArgs).CommandID; id != "c1" {
				t.Errorf("key %q", id)
			}
		}
	})
}

// keyOf is the key with which a mutating call reached the API.
func keyOf(a any) string {
	switch a := a.(type) {
	case sessions.CreateArgs:
		return a.Key
	case sessions.SendArgs:
		return a.CommandID
	case sessions.RespondArgs:
		return a.Key
	case sessions.CancelArgs:
		return a.Key
	case sessions.CloseArgs:
		return a.Key
	case sessions.ResumeArgs:
		return a.Key
	}
	return ""
}

// I04: every mutating call has a key before its first attempt: the explicit one, else the client's own call id, else a
// fresh one.
func TestI04_KeyOrder(t *testing.T) {
	for _, tool := range []struct{ name, args, key string }{
		{"session_create", `"runner":"codex","cwd":"/w"`, "key"},
		{"session_create", `"runner":"codex","cwd":"/w"`, "session_id"},
		{"session_send", `"session_id":"s","text":"x"`, "command_id"},
		{"session_respond", `"session_id":"s","request_id":"r","decision":"approve"`, "key"},
		{"session_cancel", `"session_id":"s"`, "key"},
		{"session_close", `"session_id":"s"`, "key"},
		{"session_resume", `"session_id":"s"`, "key"},
	} {
		t.Run(tool.name+" "+tool.key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				c := start(t, f)
				try := func(args, meta string) string {
					t.Helper()
					n := len(f.calls())
					c.call("1", tool.name, "{"+tool.args+args+"}", meta)
					if r := c.answer("1").tool(t); r.IsError {
						t.Fatalf("%s", r.Structured)
					}
					return keyOf(f.calls()[n])
				}
				const use = `{"claudecode/toolUseId":"toolu_01"}`
				if k := try(`,"`+tool.key+`":"mine"`, use); k != "mine" {
					t.Errorf("explicit key became %q", k)
				}
				if k := try("", use); k != "call-toolu_01" {
					t.Errorf("call id became %q", k)
				}
				if k := try(`,"`+tool.key+`":""`, use); k != "call-toolu_01" {
					t.Errorf("call id beside an empty key became %q", k)
				}
				long := `{"claudecode/toolUseId":"` + strings.Repeat("ü ", 200) + `"}`
				k := try("", long)
				if err := sessions.CheckName("key", k); err != nil || k != try("", long) {
					t.Errorf("an unusable call id became %q: %v", k, err)
				}
				a, b := try("", ""), try("", `{"claudecode/toolUseId":7,"threadId":"t"}`)
				if a == b || sessions.CheckUUID("key", a) != nil || sessions.CheckUUID("key", b) != nil {
					t.Errorf("fresh keys %q and %q", a, b)
				}
			})
		})
	}
}

// The caller is the server's, with the client's name for itself, and never the arguments'.
func TestCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := New(f, Options{Caller: sessions.Caller{Principal: "ci", Env: []string{"HOME=/h"}}})
		c := startSilent(t, s)
		go c.read()
		c.line(initialize)
		ok(t, c.answer(`"init-1"`), "initialize")
		c.call("1", "session_list", "", "")
		ok(t, c.answer("1"), "list")
		if who := f.callers[0]; who.Principal != "ci" || len(who.Env) != 1 || who.Client != "probe 9" {
			t.Errorf("caller %+v", who)
		}
		f2 := &fake{}
		c2 := start(t, f2)
		c2.call("1", "session_list", "", "")
		ok(t, c2.answer("1"), "list")
		if who := f2.callers[0]; who.Principal != sessions.DefaultPrincipal {
			t.Errorf("caller %+v", who)
		}
	})
}
