package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sessions"
)

// The same conversation in another process.
var codexResumes = []codexScenario{
	{"a closed session goes on with its conversation", func(x *codexRun) {
		s := x.create(args{"effort": "high"})
		x.send(s.SessionID, "c", "[text remember this]", sessions.CommandCompleted)
		x.closed(s)
		back := x.resume(s.SessionID, nil).Session
		x.want(back.NativeID == s.NativeID && back.Generation != s.Generation, "resumed as %s, %s", back.NativeID, back.Generation)
		x.want(back.Selections.Evidence.Model == responses.Model && back.Selections.Evidence.Effort == "high" && back.Selections.Evidence.Sandbox == sessions.SandboxWorkspaceWrite, "evidence %+v", back.Selections.Evidence)
		before := count(x.f.events(s.SessionID), sessions.EventText, "c")
		x.send(s.SessionID, "d", "[text and on]", sessions.CommandCompleted)
		x.want(strings.Contains(string(x.last().Body), "remember this"), "the model does not know what was said")
		x.want(count(x.f.events(s.SessionID), sessions.EventText, "c") == before, "old text is told again")
	}},
	{"a resume asks for other settings and gets them", func(x *codexRun) {
		out := x.outside()
		s := x.create(args{"approval_policy": "never"})
		x.send(s.SessionID, "c", "[shell touch "+out+"/a] [text over]", sessions.CommandCompleted)
		x.missing(out + "/a")
		x.closed(s)
		back := x.resume(s.SessionID, args{"model": responses.OtherModel, "effort": "low", "mode": "plan", "sandbox": sessions.SandboxFullAccess}).Session
		e := back.Selections.Evidence
		x.want(e.Model == responses.OtherModel && e.Effort == "low" && e.Mode == "plan" && e.Sandbox == sessions.SandboxFullAccess, "evidence %+v", e)
		x.send(s.SessionID, "d", "[shell touch "+out+"/a] [text over]", sessions.CommandCompleted)
		x.there(out + "/a")
		x.want(x.last().Model == responses.OtherModel && x.last().Effort == "low", "the provider was sent %s, %s", x.last().Model, x.last().Effort)
		x.closed(s)
		again := x.resume(s.SessionID, args{"sandbox": sessions.SandboxReadOnly, "mode": "default"}).Session
		x.want(again.Selections.Evidence.Sandbox == sessions.SandboxReadOnly && again.Selections.Evidence.Mode == "default", "evidence %+v", again.Selections.Evidence)
		x.send(s.SessionID, "e", "[shell touch inside "+out+"/b] [text over]", sessions.CommandCompleted)
		x.missing("inside", out+"/b")
	}},
	{"a resume without a model has the one that was asked for last", func(x *codexRun) {
		s := x.create(args{"effort": "low"})
		x.send(s.SessionID, "c", "[text one]", sessions.CommandCompleted, args{"model": responses.OtherModel, "effort": "high"})
		x.closed(s)
		e := x.resume(s.SessionID, nil).Session.Selections
		x.want(e.Evidence.Model == responses.OtherModel && e.Evidence.Effort == "high" && e.Asked.Model == responses.OtherModel, "selections %+v", e)
		x.send(s.SessionID, "d", "[text two]", sessions.CommandCompleted)
		x.want(x.last().Model == responses.OtherModel && x.last().Effort == "high", "the provider was sent %s, %s", x.last().Model, x.last().Effort)
	}},
	{"a conversation whose record ends in the middle of a line goes on", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[text remember this]", sessions.CommandCompleted)
		x.closed(s)
		f, err := os.OpenFile(x.rollout(), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(`{"timestamp":"2026-12-01T00:00:00Z","type":"event_`)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			x.t.Fatal(err)
		}
		back := x.resume(s.SessionID, nil).Session
		x.want(back.NativeID == s.NativeID, "resumed as %s", back.NativeID)
		x.send(s.SessionID, "d", "[text and on]", sessions.CommandCompleted)
		x.want(strings.Contains(string(x.last().Body), "remember this"), "the model does not know what was said")
		x.closed(s)
		x.resume(s.SessionID, nil)
		x.send(s.SessionID, "e", "[text and on again]", sessions.CommandCompleted)
		x.want(strings.Contains(string(x.last().Body), "and on"), "the model does not know what was said after the torn line")
	}},
	{"a conversation whose record is gone is refused, and no other takes its place", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[text one]", sessions.CommandCompleted)
		x.closed(s)
		record := x.rollout()
		if err := os.Rename(record, x.path("moved")); err != nil {
			x.t.Fatal(err)
		}
		e := refused(x.f, sessions.CodeNotFound, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 45})
		x.want(strings.Contains(e.Message, s.NativeID), "the refusal is %+v", e)
		now := x.one(s.SessionID)
		x.want(now.NativeID == s.NativeID && len(x.mock.Requests()) == 1, "native id %s, %d requests", now.NativeID, len(x.mock.Requests()))
		if err := os.Rename(x.path("moved"), record); err != nil {
			x.t.Fatal(err)
		}
		x.resume(s.SessionID, nil)
		x.send(s.SessionID, "d", "[text two]", sessions.CommandCompleted)
	}},
	{"a wrong model of a resume is refused, and nothing is sent", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[text one]", sessions.CommandCompleted)
		x.closed(s)
		refused(x.f, sessions.CodeModelUnavailable, "session_resume", args{"session_id": s.SessionID, "model": "no-such-model", "wait_seconds": 45})
		x.want(len(x.mock.Requests()) == 1, "the provider was sent %d requests", len(x.mock.Requests()))
		x.resume(s.SessionID, args{"model": responses.Model})
		x.send(s.SessionID, "d", "[text two]", sessions.CommandCompleted)
	}},
	{"a conversation that never began is made anew, and says so", func(x *codexRun) {
		s := x.create(nil)
		x.closed(s)
		back := x.resume(s.SessionID, nil).Session
		x.want(back.NativeID != s.NativeID && back.NativeID != "", "native id %s after %s", back.NativeID, s.NativeID)
		said := false
		for _, e := range x.f.events(s.SessionID) {
			said = said || e.Generation == back.Generation && e.Kind == sessions.EventWarning && strings.Contains(e.Text, "never ran a turn")
		}
		x.want(said, "nothing says so:\n%s", kinds(x.f.events(s.SessionID)))
		x.send(s.SessionID, "c", "[text first]", sessions.CommandCompleted)
	}},
	{"a conversation that another Codex has open is refused by that name, and taken when it is free", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[text mine]", sessions.CommandCompleted)
		x.closed(s)
		end := x.another(s.NativeID)
		e := refused(x.f, sessions.CodeBusy, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 45})
		x.want(strings.Contains(e.Message, "another process") && strings.Contains(e.Message, s.NativeID) && e.Action != "", "the refusal is %+v", e)
		end()
		x.resume(s.SessionID, nil)
		x.send(s.SessionID, "d", "[text mine again]", sessions.CommandCompleted)
	}},
	{"a Codex that is killed in a turn leaves an outcome that its record settles", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "a", "[text before]", sessions.CommandCompleted)
		x.begin(s.SessionID, "c", "[say 2000 8 10]")
		x.f.streaming(s.SessionID, "c")
		x.killAgent()
		x.failed(s.SessionID)
		x.want(x.one(s.SessionID).Last.State == sessions.CommandUnknown, "last %+v", x.one(s.SessionID).Last)
		refused(x.f, sessions.CodeOutcomeUnknown, "session_send", args{"session_id": s.SessionID, "text": "more"})
		back := x.resume(s.SessionID, nil)
		x.want(back.Session.NativeID == s.NativeID && back.Session.Generation != s.Generation, "resumed as %s, %s", back.Session.NativeID, back.Session.Generation)
		x.want(len(back.Settled) == 1 && back.Settled[0].State == sessions.CommandInterrupted, "settled %+v", back.Settled)
		x.send(s.SessionID, "d", "[text on]", sessions.CommandCompleted)
		x.want(x.prompts("say 2000") == 1, "it was sent %d times", x.prompts("say 2000"))
		x.told = nil // an unknown outcome and what settled it are two ends
	}},
	{"a Codex that is killed while it asks asks no more", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		r := x.ask(s.SessionID, "c", "[shell touch never]")
		x.killAgent()
		x.failed(s.SessionID)
		_, e := try[sessions.RespondResult](x.f, "session_respond", args{"session_id": s.SessionID, "request_id": r.RequestID, "decision": "approve"})
		x.want(e != nil, "an answer to a dead process was taken")
		x.resume(s.SessionID, nil)
		x.want(len(x.one(s.SessionID).Requests) == 0, "requests %+v", x.one(s.SessionID).Requests)
		x.missing("never")
		x.told = nil
	}},
	{"a killed host loses nothing of a turn", func(x *codexRun) {
		s := x.create(nil)
		x.begin(s.SessionID, "c", "[say 150 8 10]")
		x.f.streaming(s.SessionID, "c")
		x.killHost()
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		evs := x.f.events(s.SessionID)
		whole := texts(evs, "c")
		x.want(len(words(evs, "c")) == 150*8 && len(whole) == 1 && whole[0] == words(evs, "c"), "%d bytes of text, whole %q", len(words(evs, "c")), whole)
		x.want(x.one(s.SessionID).Generation == s.Generation, "the generation changed")
		x.want(len(x.mock.Requests()) == 1, "the provider was sent %d requests", len(x.mock.Requests()))
	}},
	{"a killed host loses no request, and its answer is given once", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		r := x.ask(s.SessionID, "c", "[shell echo x >> log]")
		x.killHost()
		x.answer(s.SessionID, r, args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.want(x.file(x.here("log")) == "x\n", "the command wrote %q", x.file(x.here("log")))
	}},
}

// rollout is the only file of a conversation.
func (x *codexRun) rollout() string {
	x.t.Helper()
	found, err := filepath.Glob(filepath.Join(x.home, "sessions/*/*/*/rollout-*.jsonl"))
	if err != nil || len(found) != 1 {
		x.t.Fatalf("records: %v, %v", found, err)
	}
	return found[0]
}

// another opens a conversation with a Codex of its own, and returns what ends that.
func (x *codexRun) another(thread string) (end func()) {
	x.t.Helper()
	r := x.raw()
	r.call("thread/resume", args{"threadId": thread}, nil)
	return r.end
}

// killAgent ends the only Codex of the world as a crash does.
func (x *codexRun) killAgent() {
	x.t.Helper()
	agents := x.find("app-server")
	if len(agents) != 1 {
		x.t.Fatalf("agents: %v", agents)
	}
	if err := syscall.Kill(agents[0].PID, syscall.SIGKILL); err != nil {
		x.t.Fatal(err)
	}
}

// killBridge ends the only bridge of the world as a crash does.
func (x *codexRun) killBridge() {
	x.t.Helper()
	bridges := x.find(" bridge")
	if len(bridges) == 0 {
		x.t.Fatal("there is no bridge")
	}
	for _, p := range bridges {
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			x.t.Fatal(err)
		}
	}
}

// failed waits until a session has failed.
func (x *codexRun) failed(session string) {
	x.t.Helper()
	x.until(session, "the failure of the session", func(e sessions.Event) bool { return e.Kind == sessions.EventSessionFailed })
}
