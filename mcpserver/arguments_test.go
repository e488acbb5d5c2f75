package mcpserver

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batonmcp/baton/sessions"
)

// Every fault of the arguments is refused before the API hears of it, in words that name the argument and say what to do.
func TestBadArguments(t *testing.T) {
	long := strings.Repeat("n", 300)
	for _, tc := range []struct {
		tool, args string
		says       []string // in message or action
	}{
		{"runner_list", `{"refresh":"yes"}`, []string{"refresh", "a string", "a boolean"}},
		{"runner_list", `{"fresh":true}`, []string{`no argument "fresh"`, "refresh"}},
		{"runner_list", `[]`, []string{"an array", "JSON object"}},
		{"runner_list", `"refresh"`, []string{"a string", "JSON object"}},
		{"runner_list", `7`, []string{"an integer", "JSON object"}},
		{"session_send", `{"session_id":"s","text":"half \ud83d of it"}`, []string{`\ud83d`, "half of a character"}},
		{"session_send", `{"session_id":"s","text":"\ude00"}`, []string{`\ude00`}},
		{"session_send", `{"session_id":"s","text":"\ud83d\ud83d\ude00"}`, []string{`\ud83d`}},
		{"session_create", `{}`, []string{"needs runner", "needs cwd", "absolute path"}},
		{"session_create", ``, []string{"needs runner", "needs cwd"}},
		{"session_create", `{"runner":"codex"}`, []string{"needs cwd"}},
		{"session_create", `{"runner":null,"cwd":"/w"}`, []string{"needs runner"}},
		{"session_create", `{"runner":["codex"],"cwd":"/w"}`, []string{"runner", "an array", "a string"}},
		{"session_create", `{"runner":"codex","cwd":"/w","sandbox":"none"}`, []string{"sandbox", `"none"`, "workspace-write"}},
		{"session_create", `{"runner":"codex","cwd":"/w","approval_policy":"always"}`, []string{"approval_policy", "on-request"}},
		{"session_create", `{"runner":"codex","cwd":"/w","writable_roots":"/tmp"}`, []string{"writable_roots", "a string", "an array"}},
		{"session_create", `{"runner":"codex","cwd":"/w","writable_roots":["/a",1]}`, []string{"writable_roots[1]", "an integer"}},
		{"session_create", `{"runner":"codex","cwd":"/w","env":{"TOKEN":123456}}`, []string{"env.TOKEN", "an integer", "a string"}},
		{"session_create", `{"runner":"codex","cwd":"/w","env":["A=b"]}`, []string{"env", "an array", "a JSON object"}},
		{"session_create", `{"runner":"codex","cwd":"/w","mcp_servers":[{"command":"x"}]}`, []string{"needs mcp_servers[0].name"}},
		{"session_create", `{"runner":"codex","cwd":"/w","mcp_servers":[{"name":"a","cmd":"x"}]}`, []string{"mcp_servers[0].cmd"}},
		{"session_create", `{"runner":"codex","cwd":"/w","mcp_servers":{}}`, []string{"mcp_servers", "an array"}},
		{"session_create", `{"runner":"codex","cwd":"/w","runner_options":"x"}`, []string{"runner_options", "a JSON object"}},
		{"session_create", `{"runner":"codex","cwd":"/w","wait_seconds":"10"}`, []string{"wait_seconds", "a string", "an integer"}},
		{"session_create", `{"runner":"codex","cwd":"/w","wait_seconds":60}`, []string{"wait_seconds", "60", "50", "call again"}},
		{"session_create", `{"runner":"codex","CWD":"/w"}`, []string{`no argument "CWD"`, "needs cwd"}},
		{"session_send", `{"session_id":"s"}`, []string{"needs text"}},
		{"session_send", `{"text":"x"}`, []string{"needs session_id"}},
		{"session_send", `{"sessionId":"s","text":"x"}`, []string{`no argument "sessionId"`, "use session_id", "needs session_id"}},
		{"session_send", `{"session_id":"s","text":{"type":"text"}}`, []string{"text", "a JSON object", "a string"}},
		{"session_send", `{"session_id":"s","text":"x","prompt":"y"}`, []string{`no argument "prompt"`}},
		{"session_send", `{"session_id":"s","text":"x","when_busy":"wait"}`, []string{"when_busy", `"wait"`, "refuse, queue, steer"}},
		{"session_send", `{"session_id":"s","text":"x","deadline_seconds":1.5}`, []string{"deadline_seconds", "a number", "an integer"}},
		{"session_send", `{"session_id":"s","text":"x","deadline_seconds":-1}`, []string{"deadline_seconds", "-1"}},
		{"session_send", `{"session_id":"s","text":"x","max_chars":40001}`, []string{"max_chars", "40000"}},
		{"session_send", `{"session_id":"s","text":"x","images":[true]}`, []string{"images[0]", "a boolean"}},
		{"session_send", `{"session_id":"s","text":"x","` + long + `":1}`, []string{"nnn"}},
		{"session_wait", `{"session_ids":"s"}`, []string{"session_ids", "an array"}},
		{"session_wait", `{"session_ids":[` + strings.Repeat(`"s",`, 50) + `"s"]}`, []string{"session_ids", "51", "50"}},
		{"session_wait", `{"after":"cursor"}`, []string{"after", "a JSON object"}},
		{"session_wait", `{"after":{"s":7}}`, []string{"after.s", "an integer"}},
		{"session_wait", `{"until":"done"}`, []string{"until", "settled_or_input"}},
		{"session_wait", `{"wait_seconds":51}`, []string{"wait_seconds", "51", "50"}},
		{"session_wait", `{"wait_seconds":true}`, []string{"wait_seconds", "a boolean"}},
		{"session_wait", `{"session_id":"s"}`, []string{`no argument "session_id"`, "use session_ids"}},
		{"session_read", `{}`, []string{"needs session_id"}},
		{"session_read", `{"session_id":"s","kinds":["message"]}`, []string{"kinds[0]", `"message"`, "text"}},
		{"session_read", `{"session_id":"s","limit":"all"}`, []string{"limit", "a string"}},
		{"session_read", `{"session_id":"s","after":7}`, []string{"after", "an integer"}},
		{"session_respond", `{"session_id":"s"}`, []string{"needs request_id"}},
		{"session_respond", `{"session_id":"s","request_id":7}`, []string{"request_id", "an integer"}},
		{"session_respond", `{"session_id":"s","request_id":"r","decision":"yes"}`, []string{"decision", "approve, deny"}},
		{"session_respond", `{"session_id":"s","request_id":"r","scope":"always"}`, []string{"scope", "once, session"}},
		{"session_respond", `{"session_id":"s","request_id":"r","answers":{"q":"a"}}`, []string{"answers.q", "an array"}},
		{"session_respond", `{"session_id":"s","request_id":"r","answers":{"q":[1]}}`, []string{"answers.q[0]", "an integer"}},
		{"session_respond", `{"session_id":"s","request_id":"r","form":"x"}`, []string{"form", "a JSON object"}},
		{"session_cancel", `{}`, []string{"needs session_id"}},
		{"session_cancel", `{"session_id":"s","turn":"x"}`, []string{`no argument "turn"`}},
		{"session_close", `{"session_id":"s","delete":"true"}`, []string{"delete", "a string", "a boolean"}},
		{"session_close", `{"delete":true}`, []string{"needs session_id"}},
		{"session_resume", `{"session_id":"s","run_queue":1}`, []string{"run_queue", "an integer"}},
		{"session_resume", `{"session_id":"s","cwd":"/w"}`, []string{`no argument "cwd"`}},
		{"session_list", `{"state":"busy"}`, []string{"state", `"busy"`, "idle"}},
		{"session_list", `{"all":0}`, []string{"all", "an integer", "a boolean"}},
		{"session_list", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`, []string{"+2 more"}},
	} {
		name := tc.tool + " " + clip(tc.args, 60)
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			c := start(t, f)
			c.call("1", tc.tool, tc.args, "")
			e := c.answer("1").failed(t)
			if e.Code != sessions.CodeInvalidParams || e.Action == "" || e.Details["tool"] != tc.tool {
				t.Errorf("%s: %+v", name, e)
			}
			text := e.Message + " | " + e.Action
			for _, want := range tc.says {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %q is not in %q", name, want, text)
				}
			}
			if strings.Contains(text, "123456") || len(text) > 2000 {
				t.Errorf("%s: tells too much: %q", name, text)
			}
			if len(f.calls()) > 0 {
				t.Errorf("%s: reached the API", name)
			}
		})
	}
}

// Arguments arrive as they were meant: null is left out, forms are untouched, integers may be written with a fraction.
func TestGoodArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := start(t, f)
		run := func(tool, args string) any {
			t.Helper()
			n := len(f.calls())
			c.call("1", tool, args, "")
			if r := c.answer("1").tool(t); r.IsError {
				t.Fatalf("%s %s: %s", tool, args, r.Structured)
			}
			return f.calls()[n]
		}
		form := `{"z":1.50, "a":"<&>","n":12345678901234567890}`
		if a := run("session_respond", `{"session_id":"s","request_id":"r","form":`+form+`}`).(sessions.RespondArgs); string(a.Form) != form {
			t.Errorf("the form became %s", a.Form)
		}
		a := run("session_create", `{"runner":"codex","cwd":"/w","env":{"A":"b"},"runner_options":{"x":[1]},"title":null,"wait_seconds":3e1,"mcp_servers":[{"name":"m","args":["a"]}]}`).(sessions.CreateArgs)
		if a.Runner != "codex" || a.Cwd != "/w" || a.Env["A"] != "b" || a.RunnerOptions["x"] == nil || a.Title != "" || *a.WaitSeconds != 30 || a.MCPServers[0].Args[0] != "a" {
			t.Errorf("create got %+v", a)
		}
		if a := run("session_wait", ``).(sessions.WaitArgs); a.WaitSeconds != nil || a.SessionIDs != nil {
			t.Errorf("wait got %+v", a)
		}
		if a := run("session_wait", `null`).(sessions.WaitArgs); a.WaitSeconds != nil {
			t.Errorf("wait got %+v", a)
		}
		if a := run("session_send", `{"session_id":"s","text":"x","when_busy":"","lease_id":"l","generation":"g"}`).(sessions.SendArgs); a.LeaseID != "l" || a.Generation != "g" {
			t.Errorf("send got %+v", a)
		}
		if a := run("session_read", `{"session_id":"s","kinds":["text","gap"]}`).(sessions.ReadArgs); len(a.Kinds) != 2 {
			t.Errorf("read got %+v", a)
		}
	})
}

func TestNearest(t *testing.T) {
	s := inputSchema[sessions.SendArgs]()
	for name, want := range map[string]string{"sessionId": "session_id", "sesion_id": "session_id", "Text": "text", "commandid": "command_id",
		"prompt": "", "": "", "x": "", "waitSecond": "wait_seconds", strings.Repeat("session_id", 100): ""} {
		if got := s.nearest(name); got != want {
			t.Errorf("%q is near %q, want %q", name, got, want)
		}
	}
}

func TestIntegers(t *testing.T) {
	for raw, want := range map[string]string{"1": "1", "1.0": "1", "2e1": "20", "1.5": "", "1e30": "", "-0.0": "0", "9223372036854775807": "9223372036854775807"} {
		n, ok := integer(json.RawMessage(raw))
		if ok != (want != "") || ok && jsonOf(n) != want {
			t.Errorf("%s: %d %t", raw, n, ok)
		}
	}
}

// Whole characters, and what only looks like half of one, are text.
func TestSurrogates(t *testing.T) {
	for text, want := range map[string]string{`"\ud83d\ude00"`: "", `"\\ud83d"`: "", `"\\\ud83d"`: `\ud83d`, `"\u00e9"`: "", `"\ud83d"`: `\ud83d`, `"\ud83d\n"`: `\ud83d`,
		`"\ude00\ud83d"`: `\ude00`, `"\u"`: "", `"\ud8"`: "", `"\`: ""} {
		if got := loneSurrogate([]byte(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
