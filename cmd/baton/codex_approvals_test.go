package main

import (
	"path/filepath"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// What Codex asks leave for: done after a yes, not done after a no, and never before an answer.
var codexApprovals = []codexScenario{
	{"a command that is approved runs, once", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		r := x.ask(s.SessionID, "c", "[shell echo x >> log] [text over]")
		x.want(strings.Contains(r.Title, "echo x >> log") && strings.Contains(r.Detail, x.work), "request %+v", r)
		x.missing("log")
		x.answer(s.SessionID, r, args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.want(x.file(x.here("log")) == "x\n", "the command wrote %q", x.file(x.here("log")))
		refused(x.f, sessions.CodeAlreadyAnswered, "session_respond", args{"session_id": s.SessionID, "request_id": r.RequestID, "decision": "deny"})
	}},
	{"a command that is denied does not run, and the turn goes on", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		r := x.ask(s.SessionID, "c", "[shell touch denied] [text without it]")
		x.answer(s.SessionID, r, args{"decision": "deny"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.missing("denied")
		tools := x.tools(s.SessionID, "c")
		x.want(len(tools) == 1 && tools[0].Status == "declined", "tools %+v", tools)
		x.want(strings.Contains(x.output(), "rejected"), "the model was told %q", x.output())
		refused(x.f, sessions.CodeAlreadyAnswered, "session_respond", args{"session_id": s.SessionID, "request_id": r.RequestID, "option_id": "cancel"})
	}},
	{"a command approved for the session is not asked again, another one is", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		x.answer(s.SessionID, x.ask(s.SessionID, "c", "[shell touch once]"), args{"decision": "approve", "scope": "session"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.send(s.SessionID, "d", "[shell touch once]", sessions.CommandCompleted)
		r := x.ask(s.SessionID, "e", "[shell touch other]")
		x.missing("other")
		x.answer(s.SessionID, r, args{"decision": "deny"})
		x.settled(s.SessionID, "e", sessions.CommandCompleted)
		x.there("once")
		x.missing("other")
	}},
	{"a command approved this once is asked again", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		for _, c := range []string{"c", "d"} {
			x.answer(s.SessionID, x.ask(s.SessionID, c, "[shell echo x >> log]"), args{"decision": "approve"})
			x.settled(s.SessionID, c, sessions.CommandCompleted)
		}
		x.want(x.file(x.here("log")) == "x\nx\n", "the commands wrote %q", x.file(x.here("log")))
	}},
	{"the option that ends the turn ends it", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		r := x.ask(s.SessionID, "c", "[shell touch never] [text never said]")
		x.answer(s.SessionID, r, args{"option_id": option(r, sessions.OptionCancelTurn)})
		end := x.settled(s.SessionID, "c", sessions.CommandInterrupted)
		x.want(end.Reason != "", "no reason: %+v", end)
		x.missing("never")
		x.want(len(texts(x.f.events(s.SessionID), "c")) == 0, "it went on")
		x.send(s.SessionID, "d", "[text again]", sessions.CommandCompleted)
	}},
	{"the option for every session is a rule of this Codex home, and says so", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		r := x.ask(s.SessionID, "c", "[shell touch ruled]")
		always := option(r, sessions.OptionAllowAlways)
		label := ""
		for _, o := range r.Options {
			if o.OptionID == always {
				label = o.Label
			}
		}
		x.want(strings.Contains(label, "every session of this Codex home") && strings.Contains(label, "touch"), "options %+v", r.Options)
		x.answer(s.SessionID, r, args{"option_id": always})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.want(strings.Contains(x.file(filepath.Join(x.home, "rules/default.rules")), "touch"), "no rule was written")
		x.closed(s)
		s = x.create(args{"approval_policy": "untrusted"})
		x.send(s.SessionID, "d", "[shell touch ruled]", sessions.CommandCompleted)
		x.there("ruled")
	}},
	{"two requests at once are answered in any order, each for itself", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		x.begin(s.SessionID, "c", "[par [shell touch first] [shell touch second]] [text over]")
		var open []sessions.Request
		for len(open) < 2 {
			x.asked(s.SessionID, "c")
			open = x.one(s.SessionID).Requests
		}
		for i, r := range []sessions.Request{open[1], open[0]} {
			x.answer(s.SessionID, r, args{"decision": []string{"approve", "deny"}[i]})
		}
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		done, not := "first", "second"
		if strings.Contains(open[1].Title, "second") {
			done, not = not, done
		}
		x.there(done)
		x.missing(not)
	}},
	{"leaving the sandbox is asked for, and done outside after a yes", func(x *codexRun) {
		out := filepath.Join(x.outside(), "f")
		s := x.create(nil)
		r := x.ask(s.SessionID, "c", "[shellesc touch "+out+"]")
		x.want(strings.Contains(r.Detail, "leave the sandbox"), "request %+v", r)
		x.missing(out)
		x.answer(s.SessionID, r, args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.there(out)
	}},
	{"leaving the sandbox is not done after a no", func(x *codexRun) {
		out := filepath.Join(x.outside(), "f")
		s := x.create(nil)
		x.answer(s.SessionID, x.ask(s.SessionID, "c", "[shellesc touch "+out+"]"), args{"decision": "deny"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.missing(out)
	}},
	{"a file change shows its paths and its text before it is made", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		r := x.ask(s.SessionID, "c", "[patch sub/new.txt many words] [text over]")
		x.want(r.Tool != nil && len(r.Tool.Paths) == 1 && strings.HasSuffix(r.Tool.Paths[0], "sub/new.txt") && strings.Contains(r.Detail, "many words"), "request %+v", r)
		x.missing("sub/new.txt")
		x.answer(s.SessionID, r, args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.want(x.file(x.here("sub/new.txt")) == "many words\n", "the file has %q", x.file(x.here("sub/new.txt")))
	}},
	{"a file change that is denied is not made", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		x.answer(s.SessionID, x.ask(s.SessionID, "c", "[patch new.txt words] [text without]"), args{"decision": "deny"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.missing("new.txt")
		tools := x.tools(s.SessionID, "c")
		x.want(len(tools) == 1 && tools[0].Status == "declined", "tools %+v", tools)
	}},
	{"a file approved for the session is not asked about again, another one is", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		x.answer(s.SessionID, x.ask(s.SessionID, "c", "[patch a.txt one]"), args{"decision": "approve", "scope": "session"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.send(s.SessionID, "d", "[replace a.txt one two]", sessions.CommandCompleted)
		x.want(x.file(x.here("a.txt")) == "two\n", "the file has %q", x.file(x.here("a.txt")))
		x.answer(s.SessionID, x.ask(s.SessionID, "e", "[patch b.txt x]"), args{"decision": "deny"})
		x.settled(s.SessionID, "e", sessions.CommandCompleted)
		x.missing("b.txt")
	}},
	{"a file change whose request ends the turn leaves no tool open", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		r := x.ask(s.SessionID, "c", "[patch new.txt words]")
		x.answer(s.SessionID, r, args{"option_id": option(r, sessions.OptionCancelTurn)})
		x.settled(s.SessionID, "c", sessions.CommandInterrupted)
		x.missing("new.txt")
		tools := x.tools(s.SessionID, "c")
		x.want(len(tools) == 1 && (tools[0].Status == "cancelled" || tools[0].Status == "declined"), "tools %+v", tools)
	}},
	{"permissions are granted for the turn", func(x *codexRun) {
		out := x.outside()
		x.configure("request_permissions_tool = true\n")
		s := x.create(nil)
		r := x.ask(s.SessionID, "c", permissionsFor(out)+" [shell touch "+out+"/f] [text over]")
		x.want(strings.Contains(r.Detail, out) && r.Kind == sessions.RequestApproval, "request %+v", r)
		x.answer(s.SessionID, r, args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.there(out + "/f")
		x.send(s.SessionID, "d", "[shell touch "+out+"/g] [text over]", sessions.CommandCompleted)
		x.missing(out + "/g")
	}},
	{"permissions are granted for the session", func(x *codexRun) {
		out := x.outside()
		x.configure("request_permissions_tool = true\n")
		s := x.create(nil)
		x.answer(s.SessionID, x.ask(s.SessionID, "c", permissionsFor(out)+" [text over]"), args{"decision": "approve", "scope": "session"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.send(s.SessionID, "d", "[shell touch "+out+"/f] [text over]", sessions.CommandCompleted)
		x.there(out + "/f")
	}},
	{"permissions that are denied are not there", func(x *codexRun) {
		out := x.outside()
		x.configure("request_permissions_tool = true\n")
		s := x.create(nil)
		x.answer(s.SessionID, x.ask(s.SessionID, "c", permissionsFor(out)+" [shell touch "+out+"/f] [text over]"), args{"decision": "deny"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.missing(out + "/f")
	}},
	{"a policy asked for at create answers in the user's place, and the events name it", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted", "auto_answer": "approve-edits"})
		x.send(s.SessionID, "c", "[patch new.txt words]", sessions.CommandCompleted)
		x.there("new.txt")
		x.answer(s.SessionID, x.ask(s.SessionID, "d", "[shell touch asked]"), args{"decision": "deny"})
		x.settled(s.SessionID, "d", sessions.CommandCompleted)
		x.missing("asked")
		named := false
		for _, e := range x.f.events(s.SessionID) {
			named = named || e.Kind == sessions.EventRequestResolved && e.Request != nil && strings.Contains(e.Request.AnsweredBy, "approve-edits")
		}
		x.want(named, "no event names the policy:\n%s", kinds(x.f.events(s.SessionID)))
	}},
}

// permissionsFor has the model ask to write a directory.
func permissionsFor(dir string) string {
	return `[permissions {"reason": "more room", "permissions": {"file_system": {"write": ["` + dir + `"]}}}]`
}
