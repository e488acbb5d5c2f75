package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// What Codex and its MCP servers want to know.
var codexQuestions = []codexScenario{
	{"a question's answer reaches the model", func(x *codexRun) {
		s := x.create(nil)
		r := x.ask(s.SessionID, "c", "[ask] [text over]")
		x.want(r.Kind == sessions.RequestQuestion && len(r.Questions) == 1 && len(r.Questions[0].Options) == 2 && r.Questions[0].FreeText, "request %+v", r)
		refused(x.f, sessions.CodeInvalidParams, "session_respond", args{"session_id": s.SessionID, "request_id": r.RequestID, "decision": "approve"})
		x.answer(s.SessionID, r, args{"answers": args{"color": []string{"Blue"}}})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.want(strings.Contains(x.output(), "Blue"), "the model was told %q", x.output())
	}},
	{"a question is answered in the user's own words", func(x *codexRun) {
		s := x.create(args{"mode": "plan"})
		r := x.ask(s.SessionID, "c", "[ask] [text over]")
		x.answer(s.SessionID, r, args{"answers": args{"color": []string{"a pale green"}}})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.want(strings.Contains(x.output(), "a pale green"), "the model was told %q", x.output())
	}},
	{"a question that is declined tells the model nothing", func(x *codexRun) {
		s := x.create(nil)
		x.answer(s.SessionID, x.ask(s.SessionID, "c", "[ask] [text over]"), args{"decision": "deny"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.want(!strings.Contains(x.output(), "Blue") && !strings.Contains(x.output(), "Red"), "the model was told %q", x.output())
	}},
	{"a tool of an MCP server that only reads is called without asking", func(x *codexRun) {
		x.server()
		s := x.create(nil)
		x.send(s.SessionID, "c", "[mcp fixture look] [text over]", sessions.CommandCompleted)
		tools := x.tools(s.SessionID, "c")
		x.want(len(tools) == 1 && tools[0].Name == "mcp" && tools[0].Title == "fixture.look" && tools[0].Status == "completed", "tools %+v", tools)
		x.want(strings.Contains(x.output(), "seen by the fixture"), "the model was told %q", x.output())
	}},
	{"a tool of an MCP server that changes something is asked for and approved", func(x *codexRun) {
		x.server()
		s := x.create(nil)
		r := x.ask(s.SessionID, "c", `[mcp fixture mark {"path": "`+x.here("marked")+`"}] [text over]`)
		x.want(r.Kind == sessions.RequestApproval && r.Tool != nil && r.Tool.Title == "fixture.mark" && strings.Contains(r.Detail, "marked"), "request %+v", r)
		x.missing("marked")
		x.answer(s.SessionID, r, args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.there("marked")
	}},
	{"a tool of an MCP server that is denied is not called", func(x *codexRun) {
		x.server()
		s := x.create(nil)
		x.answer(s.SessionID, x.ask(s.SessionID, "c", `[mcp fixture mark {"path": "`+x.here("marked")+`"}] [text over]`), args{"decision": "deny"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.missing("marked")
		tools := x.tools(s.SessionID, "c")
		x.want(len(tools) == 1 && tools[0].Status == "failed", "tools %+v", tools)
	}},
	{"a tool of an MCP server approved for the session is not asked for again", func(x *codexRun) {
		x.server()
		s := x.create(nil)
		x.answer(s.SessionID, x.ask(s.SessionID, "c", `[mcp fixture mark {"path": "`+x.here("one")+`"}] [text over]`), args{"decision": "approve", "scope": "session"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.send(s.SessionID, "d", `[mcp fixture mark {"path": "`+x.here("two")+`"}] [text over]`, sessions.CommandCompleted)
		x.there("one", "two")
	}},
	{"an MCP server's form is filled in", func(x *codexRun) {
		x.server()
		s := x.create(nil)
		r := x.ask(s.SessionID, "c", "[mcp fixture name] [text over]")
		x.want(r.Kind == sessions.RequestQuestion && strings.Contains(string(r.Schema), "name") && strings.Contains(r.Title, "Your name?"), "request %+v", r)
		x.answer(s.SessionID, r, args{"form": json.RawMessage(`{"name": "Ada"}`)})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.want(strings.Contains(x.output(), "Ada") && strings.Contains(x.output(), "accept"), "the model was told %q", x.output())
	}},
	{"an MCP server's form is declined", func(x *codexRun) {
		x.server()
		s := x.create(nil)
		x.answer(s.SessionID, x.ask(s.SessionID, "c", "[mcp fixture name] [text over]"), args{"decision": "deny"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.want(strings.Contains(x.output(), "decline"), "the model was told %q", x.output())
	}},
	{"an MCP server asks to open an address", func(x *codexRun) {
		x.server()
		s := x.create(nil)
		r := x.ask(s.SessionID, "c", "[mcp fixture visit] [text over]")
		x.want(r.URL == "https://example.com/grant", "request %+v", r)
		x.answer(s.SessionID, r, args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.want(strings.Contains(x.output(), "accept"), "the model was told %q", x.output())
	}},
	{"an MCP server of the session's own is there, and its environment is nowhere else", func(x *codexRun) {
		const secret = "sesame-4711"
		s := x.create(args{"mcp_servers": []args{{"name": "own", "command": self(x.t), "args": []string{fixtureServer}, "env": args{"OWN_TOKEN": secret}}}})
		for n := 0; n == 0 || n < 30 && !strings.Contains(x.output(), "seen by the fixture"); n++ { // Codex does not wait for it
			x.send(s.SessionID, fmt.Sprint("c-", n), "[mcp own look] [text over]", sessions.CommandCompleted)
		}
		x.want(strings.Contains(x.output(), "seen by the fixture"), "the model was told %q", x.output())
		for _, p := range x.processes() {
			x.want(!strings.Contains(p.Args, secret), "a command line has the secret: %s", p.Args)
		}
		for _, dir := range []string{x.home, x.path("baton")} {
			x.want(len(x.holding(dir, secret)) == 0, "the secret is in %v", x.holding(dir, secret))
		}
	}},
	{"an MCP server that does not start is told of", func(x *codexRun) {
		s := x.create(args{"mcp_servers": []args{{"name": "broken", "command": "/bin/false"}}})
		x.send(s.SessionID, "c", "[text over]", sessions.CommandCompleted)
		x.until(s.SessionID, "a warning about the server", func(e sessions.Event) bool {
			return e.Kind == sessions.EventWarning && strings.Contains(e.Text, "broken")
		})
	}},
}
