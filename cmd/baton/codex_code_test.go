package main

import (
	"strings"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sessions"
)

// A model in code mode does everything from JavaScript, in a helper process of Codex; and commands that nobody waits for.
var codexCode = []codexScenario{
	{"what a model in code mode does is told as any other model's", func(x *codexRun) {
		s := x.code(args{"approval_policy": "never"})
		x.want(s.Selections.Evidence.Model == responses.CodeModel, "evidence %+v", s.Selections.Evidence)
		x.send(s.SessionID, "c", "[shell touch made; exit 7] [patch new.txt words] [text over]", sessions.CommandCompleted)
		tools := x.tools(s.SessionID, "c")
		x.want(len(tools) == 2 && tools[0].Name == "command" && tools[0].Exit != nil && *tools[0].Exit == 7 && tools[1].Name == "file_change", "tools %+v", tools)
		x.there("made")
		x.want(x.file(x.here("new.txt")) == "words\n", "the file has %q", x.file(x.here("new.txt")))
		x.want(strings.Contains(x.output(), "Script completed"), "the model was told %q", x.output())
		x.closed(s)
		x.want(len(x.find("code-mode-host")) == 0, "left: %v", x.find("code-mode-host"))
	}},
	{"two commands of one script ask at once, each for itself", func(x *codexRun) {
		s := x.code(args{"approval_policy": "untrusted"})
		x.begin(s.SessionID, "c", `[js await Promise.allSettled(["touch first", "touch second"].map((cmd) => tools.exec_command({cmd}))); text("both");] [text over]`)
		var open []sessions.Request
		for len(open) < 2 {
			x.asked(s.SessionID, "c")
			open = x.one(s.SessionID).Requests
		}
		done, not := "first", "second"
		if strings.Contains(open[1].Title, "first") {
			done, not = not, done
		}
		x.missing(done, not)
		x.answer(s.SessionID, open[1], args{"decision": "deny"})
		x.answer(s.SessionID, open[0], args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.there(done)
		x.missing(not)
	}},
	{"a script that would not end is interrupted, and the next one runs", func(x *codexRun) {
		s := x.code(args{"approval_policy": "never"})
		x.begin(s.SessionID, "c", "[js await tools.exec_command({cmd: 'touch begun; setsid sleep 661 &'}); for (;;);]")
		await(x.t, "the script", func() bool { return exists(x.here("begun")) })
		c := x.cancel(s.SessionID, "c")
		x.want(c.State == sessions.CommandInterrupted, "cancelled: %+v", c)
		x.want(len(x.find("sleep 661")) == 0, "left: %v", x.find("sleep 661"))
		x.send(s.SessionID, "d", "[shell touch after] [text again]", sessions.CommandCompleted)
		x.there("after")
	}},
	{"a sub-agent of a model in code mode is told as its own, and asks for itself", func(x *codexRun) {
		s := x.code(args{"approval_policy": "untrusted"})
		r := x.ask(s.SessionID, "c", "[spawn [shell touch by-sub] [text sub done]] [sleep 6000] [text root done]")
		x.want(strings.HasPrefix(r.Agent, "/root/") && strings.Contains(r.Title, "by-sub"), "request %+v", r)
		x.missing("by-sub")
		x.answer(s.SessionID, r, args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.until(s.SessionID, "the end of the sub-agent", func(e sessions.Event) bool {
			return e.Kind == sessions.EventTurnCompleted && e.Agent != ""
		})
		x.there("by-sub")
	}},
	{"a command that nobody waits for outlives its turn, and ends with a cancel", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never"})
		x.send(s.SessionID, "c", "[background touch begun; sleep 662; touch after] [text over]", sessions.CommandCompleted)
		await(x.t, "the command, which goes on", func() bool { return exists(x.here("begun")) && len(x.asleep("662")) == 1 })
		x.begin(s.SessionID, "d", "[slow]")
		x.f.streaming(s.SessionID, "d")
		c := x.cancel(s.SessionID, "d")
		x.want(c.State == sessions.CommandInterrupted, "cancelled: %+v", c)
		if s.Containment.Rung == "pid_namespace" {
			x.want(len(x.find("sleep 662")) == 0, "left: %v", x.find("sleep 662"))
		} else { // nobody waits for it
			await(x.t, "the end of what an earlier turn left", func() bool { return len(x.find("sleep 662")) == 0 })
		}
		x.until(s.SessionID, "the command's end", func(e sessions.Event) bool {
			return e.Kind == sessions.EventToolCompleted && e.Command == "c" && e.Late
		})
		x.missing("after")
		x.send(s.SessionID, "e", "[text again]", sessions.CommandCompleted)
	}},
	{"what a command left by an earlier turn had started ends with a cancel too, and what it had set free before does not", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never", "sandbox": sessions.SandboxFullAccess}) // in a sandbox all ends with its command
		if s.Containment.Rung != "pid_namespace" {
			return // nobody can prove it
		}
		x.send(s.SessionID, "c", "[shell setsid nohup sh -c 'touch free; exec sleep 665' >/dev/null 2>&1 </dev/null & until [ -e free ]; do sleep 0.05; done] [background setsid sleep 666 & sleep 667; touch after] [text over]", sessions.CommandCompleted)
		await(x.t, "the commands", func() bool {
			return len(x.asleep("665")) == 1 && len(x.asleep("666")) == 1 && len(x.asleep("667")) == 1
		})
		x.begin(s.SessionID, "d", "[slow]")
		x.f.streaming(s.SessionID, "d")
		x.cancel(s.SessionID, "d")
		x.settled(s.SessionID, "d", sessions.CommandInterrupted)
		x.want(len(x.find("sleep 666")) == 0 && len(x.find("sleep 667")) == 0, "left: %v %v", x.find("sleep 666"), x.find("sleep 667"))
		x.want(len(x.find("sleep 665")) == 1, "a daemon of an earlier turn has ended")
		x.missing("after")
		x.closed(s)
		x.want(len(x.find("sleep 665")) == 0, "left: %v", x.find("sleep 665"))
	}},
	{"a command that nobody waits for ends with its session", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never", "sandbox": sessions.SandboxFullAccess})
		x.send(s.SessionID, "c", "[background touch begun; setsid sleep 663 & sleep 664; touch after] [text over]", sessions.CommandCompleted)
		await(x.t, "the command", func() bool { return exists(x.here("begun")) && len(x.find("sleep 66")) >= 2 })
		x.closed(s)
		x.want(len(x.find("sleep 66")) == 0, "left: %v", x.find("sleep 66"))
		x.missing("after")
	}},
}

// code opens a session with a model in code mode.
func (x *codexRun) code(more args) sessions.Session {
	x.t.Helper()
	if err := responses.AddCodeModel(x.home); err != nil {
		x.t.Fatal(err)
	}
	more["model"] = responses.CodeModel
	return x.create(more)
}
