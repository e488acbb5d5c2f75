package main

import (
	"os"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// A read-only session that may write into some folders: a permission profile of Codex's.
var codexProfiles = []codexScenario{
	{"a read-only session writes into its roots alone, after a kill and a resume too", func(x *codexRun) {
		in, below, out := x.outside(), x.here("reports"), x.outside()
		if err := os.Mkdir(below, 0o700); err != nil {
			x.t.Fatal(err)
		}
		ask := args{"approval_policy": "never", "sandbox": sessions.SandboxReadOnly, "writable_roots": []string{in, below}}
		if x.unprofiled {
			ask["runner"], ask["cwd"], ask["wait_seconds"] = "codex", x.work, 45
			e := refused(x.f, sessions.CodeUnsupported, "session_create", ask)
			x.want(strings.Contains(e.Action, "0.154"), "the refusal is %+v", e)
			return
		}
		s := x.create(ask)
		tries := func(s sessions.Session, n string) {
			x.profiled(s)
			x.send(s.SessionID, "c"+n, "[shell touch "+in+"/f"+n+" "+below+"/f"+n+"; touch inside; touch "+out+"/f; touch $TMPDIR/f && echo temporary; cat /etc/hostname && echo seen] [text over]", sessions.CommandCompleted)
			x.there(in+"/f"+n, below+"/f"+n)
			x.missing("inside", out+"/f")
			x.want(!strings.Contains(x.output(), "temporary") && strings.Contains(x.output(), "seen"), "the command said %q", x.output())
		}
		tries(s, "1")
		x.killAgent()
		x.failed(s.SessionID)
		back := x.resume(s.SessionID, nil).Session
		x.want(back.NativeID == s.NativeID && back.Generation != s.Generation, "resumed as %s, %s", back.NativeID, back.Generation)
		tries(back, "2")
		x.closed(back)
		wide := x.resume(s.SessionID, args{"sandbox": sessions.SandboxWorkspaceWrite}).Session
		x.want(wide.Selections.Evidence.Sandbox == sessions.SandboxWorkspaceWrite, "evidence %+v", wide.Selections.Evidence)
		x.send(s.SessionID, "wide", "[shell touch inside "+in+"/f3; touch "+out+"/f] [text over]", sessions.CommandCompleted)
		x.there("inside", in+"/f3")
		x.missing(out + "/f")
		if err := os.Remove(x.here("inside")); err != nil {
			x.t.Fatal(err)
		}
		x.closed(wide)
		tries(x.resume(s.SessionID, args{"sandbox": sessions.SandboxReadOnly}).Session, "4")
	}},
	{"a read-only session with roots holds for patches, sub-agents, other models and plans", func(x *codexRun) {
		in := x.outside()
		s := x.create(args{"approval_policy": "never", "sandbox": sessions.SandboxReadOnly, "writable_roots": []string{in}})
		x.send(s.SessionID, "patch", "[patch "+in+"/p yes] [patch p no] [text over]", sessions.CommandCompleted)
		x.there(in + "/p")
		x.missing("p")
		x.send(s.SessionID, "sub", "[spawn [shell touch "+in+"/s; touch s] [text sub over]] [text over]", sessions.CommandCompleted)
		x.until(s.SessionID, "the sub-agent's end", func(e sessions.Event) bool {
			return e.Kind == sessions.EventText && e.Final && strings.Contains(e.Text, "sub over")
		})
		x.there(in + "/s")
		x.missing("s")
		x.send(s.SessionID, "plan", "[shell touch "+in+"/m; touch m] [text over]", sessions.CommandCompleted, args{"effort": "high", "mode": "plan"})
		x.there(in + "/m")
		x.missing("m")
		x.profiled(x.one(s.SessionID))
	}},
	{"what a read-only session may not write it asks for, and one approval is one command", func(x *codexRun) {
		in := x.outside()
		s := x.create(args{"sandbox": sessions.SandboxReadOnly, "writable_roots": []string{in}})
		r := x.ask(s.SessionID, "c", "[shellesc touch asked] [shell touch after; touch "+in+"/f] [text over]")
		x.answer(s.SessionID, r, args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.there("asked", in+"/f")
		x.missing("after")
	}},
	{"a read-only session has the network for its commands where that is asked for, with roots too", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never", "sandbox": sessions.SandboxReadOnly, "writable_roots": []string{x.outside()},
			"runner_options": args{"network_access": true}})
		x.profiled(s)
		x.send(s.SessionID, "c", "[shell (exec 3<>/dev/tcp/"+x.listener()+") && echo connected; touch inside] [text over]", sessions.CommandCompleted)
		x.want(strings.Contains(x.output(), "connected"), "the command said %q", x.output())
		x.missing("inside")
	}},
	{"a root that holds the workspace of a read-only session is refused, and no folder is marked", func(x *codexRun) {
		for _, root := range []string{x.work, x.path("")} {
			e := refused(x.f, sessions.CodeInvalidParams, "session_create", args{"runner": "codex", "cwd": x.work, "sandbox": sessions.SandboxReadOnly,
				"writable_roots": []string{root}, "wait_seconds": 45})
			x.want(strings.Contains(e.Message, "holds the cwd") && strings.Contains(e.Action, sessions.SandboxWorkspaceWrite), "the refusal is %+v", e)
		}
		x.want(len(x.mock.Requests()) == 0, "the provider was sent %d requests", len(x.mock.Requests()))
	}},
}

// listener is the provider's address, as bash opens it.
func (x *codexRun) listener() string {
	host, _, _ := strings.Cut(strings.TrimPrefix(x.mock.URL, "http://"), "/")
	return strings.Replace(host, ":", "/", 1)
}

// profiled wants the session's evidence to be that of a read-only sandbox, by Codex's own report.
func (x *codexRun) profiled(s sessions.Session) {
	x.t.Helper()
	e := s.Selections.Evidence
	x.want(e.Sandbox == sessions.SandboxReadOnly && e.SandboxBy == "agent", "evidence %+v", e)
}
