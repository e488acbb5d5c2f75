package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// Several sessions beside each other: each tells its own, and only that.
var codexCrowds = []codexScenario{
	{"two sessions in one directory do not hear each other", func(x *codexRun) {
		a, b := x.create(args{"approval_policy": "untrusted"}), x.create(args{"approval_policy": "untrusted"})
		x.want(a.NativeID != b.NativeID, "one conversation for two sessions")
		ra := x.ask(a.SessionID, "ca", "[shell touch by-a] [text a is done]")
		rb := x.ask(b.SessionID, "cb", "[shell touch by-b] [text b is done]")
		x.want(strings.Contains(ra.Title, "by-a") && strings.Contains(rb.Title, "by-b"), "requests %q, %q", ra.Title, rb.Title)
		refused(x.f, sessions.CodeNotFound, "session_respond", args{"session_id": a.SessionID, "request_id": rb.RequestID, "decision": "approve"})
		x.missing("by-a", "by-b")
		x.answer(b.SessionID, rb, args{"decision": "approve"})
		x.settled(b.SessionID, "cb", sessions.CommandCompleted)
		x.there("by-b")
		x.missing("by-a")
		x.answer(a.SessionID, ra, args{"decision": "deny"})
		x.settled(a.SessionID, "ca", sessions.CommandCompleted)
		x.missing("by-a")
		x.apart(map[string]string{a.SessionID: "a is done", b.SessionID: "b is done"})
	}},
	{"a cancel of one of two sessions in one directory leaves the other alone", func(x *codexRun) {
		a, b := x.create(args{"approval_policy": "never"}), x.create(args{"approval_policy": "never"})
		x.begin(a.SessionID, "c", "[shell touch begun-a; sleep 651; touch after-a]")
		x.begin(b.SessionID, "d", "[shell touch begun-b; until [ -e go ]; do sleep 0.05; done; touch after-b] [text b is done]")
		await(x.t, "both commands", func() bool { return exists(x.here("begun-a")) && exists(x.here("begun-b")) })
		x.want(x.cancel(a.SessionID, "c").State == sessions.CommandInterrupted, "not interrupted")
		if err := os.WriteFile(x.here("go"), nil, 0o600); err != nil {
			x.t.Fatal(err)
		}
		x.settled(b.SessionID, "d", sessions.CommandCompleted)
		x.there("after-b")
		x.missing("after-a")
	}},
	{"two sessions of one Codex home stream at once and stay apart", func(x *codexRun) {
		other := x.path("work2")
		if err := os.Mkdir(other, 0o700); err != nil {
			x.t.Fatal(err)
		}
		a, b := x.create(nil), x.create(args{"cwd": other})
		x.begin(a.SessionID, "ca", "[say 100 8 5] of a")
		x.begin(b.SessionID, "cb", "[say 130 8 5] of b")
		x.settled(a.SessionID, "ca", sessions.CommandCompleted)
		x.settled(b.SessionID, "cb", sessions.CommandCompleted)
		na, nb := len(words(x.f.events(a.SessionID), "ca")), len(words(x.f.events(b.SessionID), "cb"))
		x.want(na == 100*8 && nb == 130*8, "%d and %d bytes", na, nb)
		x.closed(a)
		x.send(b.SessionID, "d", "[text b goes on]", sessions.CommandCompleted)
	}},
	{"twenty sessions at once stay apart", func(x *codexRun) {
		const n = 20
		own := map[string]string{}
		for i := range n {
			text := fmt.Sprintf("this is number %02d", i)
			if err := os.Mkdir(x.here(text), 0o700); err != nil {
				x.t.Fatal(err)
			}
			// 0.154.0 cannot run many sandboxed commands at once that share a TMPDIR: bwrap fails over .git and .codex in it.
			s := x.create(args{"cwd": x.here(text), "approval_policy": "never", "sandbox": sessions.SandboxFullAccess})
			own[s.SessionID] = text
		}
		for id, text := range own {
			x.begin(id, strings.ReplaceAll(text, " ", "-"), fmt.Sprintf("[shell echo %q > file] [text %s]", text, text))
		}
		for id, text := range own {
			x.settled(id, strings.ReplaceAll(text, " ", "-"), sessions.CommandCompleted)
			if wrote, err := os.ReadFile(filepath.Join(x.here(text), "file")); err != nil || string(wrote) != text+"\n" {
				x.t.Errorf("the file of %q has %q (%v); its command: %+v", text, wrote, err, x.tools(id, strings.ReplaceAll(text, " ", "-")))
			}
		}
		x.apart(own)
		x.want(len(x.mock.Requests()) == 2*n, "the provider was sent %d requests", len(x.mock.Requests()))
	}},
}

// apart wants each session to have said its own text, and no other's.
func (x *codexRun) apart(own map[string]string) {
	x.t.Helper()
	for id, text := range own {
		var said []string
		for _, e := range x.f.events(id) {
			if e.Kind == sessions.EventText && e.Final {
				said = append(said, e.Text)
			}
		}
		x.want(strings.Join(said, "|") == text, "session of %q said %q", text, said)
	}
}
