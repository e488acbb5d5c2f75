package main

import (
	"strings"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sessions"
)

// What was asked for is what the provider is sent, or nothing is.
var codexSelections = []codexScenario{
	{"a model that is not offered is refused, and nothing is sent", func(x *codexRun) {
		for _, name := range []string{"no-such-model", strings.ToUpper(responses.Model)} {
			e := refused(x.f, sessions.CodeModelUnavailable, "session_create", args{"runner": "codex", "cwd": x.work, "model": name, "prompt": "hello", "wait_seconds": 45})
			x.want(strings.Contains(e.Message, responses.Model) && strings.Contains(e.Message, name), "the refusal is %q", e.Message)
		}
		x.want(len(x.mock.Requests()) == 0, "the provider was sent %d requests", len(x.mock.Requests()))
		x.want(len(x.find("app-server")) == 0, "left: %v", x.find("app-server"))
		all := call[sessions.ListResult](x.f, "session_list", args{"all": true}).Sessions
		x.want(len(all) == 2, "%d sessions", len(all))
		for _, s := range all {
			x.want(s.State == sessions.SessionFailed && s.Error != nil && s.Error.Code == sessions.CodeModelUnavailable, "the failed session does not say why: %+v", s)
		}
	}},
	{"an effort that the model lacks is refused, and nothing is sent", func(x *codexRun) {
		e := refused(x.f, sessions.CodeModelUnavailable, "session_create", args{"runner": "codex", "cwd": x.work, "model": responses.Model, "effort": "bogus", "prompt": "hello", "wait_seconds": 45})
		x.want(strings.Contains(e.Message, "high"), "the refusal is %q", e.Message)
		x.want(len(x.mock.Requests()) == 0, "the provider was sent %d requests", len(x.mock.Requests()))
	}},
	{"a wrong model or effort of one send leaves the session as it was", func(x *codexRun) {
		s := x.create(args{"effort": "high"})
		for i, wrong := range []args{{"model": "no-such-model"}, {"effort": "bogus"}} {
			wrong["session_id"], wrong["text"], wrong["command_id"], wrong["wait_seconds"] = s.SessionID, "[text wrong]", string(rune('a'+i)), 30
			sent, e := try[sessions.SendResult](x.f, "session_send", wrong)
			x.want(e != nil && e.Code == sessions.CodeModelUnavailable || e == nil && sent.Command.State == sessions.CommandFailed && sent.Command.Outcome == string(sessions.CodeModelUnavailable), "%v: %v, %+v", wrong, e, sent.Command)
		}
		x.want(len(x.mock.Requests()) == 0, "the provider was sent %d requests", len(x.mock.Requests()))
		x.send(s.SessionID, "c", "[text right]", sessions.CommandCompleted)
		x.want(x.last().Model == responses.Model && x.last().Effort == "high", "the provider was sent %s, %s", x.last().Model, x.last().Effort)
	}},
	{"model and effort of a create are confirmed and reach the provider", func(x *codexRun) {
		s := x.create(args{"model": responses.OtherModel, "effort": "low"})
		e := s.Selections.Evidence
		x.want(e.Model == responses.OtherModel && e.Effort == "low" && e.Sandbox == sessions.SandboxWorkspaceWrite, "evidence %+v", e)
		x.send(s.SessionID, "c", "[text ok]", sessions.CommandCompleted)
		x.want(x.last().Model == responses.OtherModel && x.last().Effort == "low", "the provider was sent %s, %s", x.last().Model, x.last().Effort)
	}},
	{"model and effort of one send hold from then on, and the session shows it", func(x *codexRun) {
		s := x.create(args{"effort": "medium"})
		x.send(s.SessionID, "c", "[text one]", sessions.CommandCompleted)
		x.send(s.SessionID, "d", "[text two]", sessions.CommandCompleted, args{"model": responses.OtherModel, "effort": "high"})
		x.send(s.SessionID, "e", "[text three]", sessions.CommandCompleted)
		for i, want := range []struct{ model, effort string }{{responses.Model, "medium"}, {responses.OtherModel, "high"}, {responses.OtherModel, "high"}} {
			r := x.mock.Requests()[i]
			x.want(r.Model == want.model && r.Effort == want.effort, "request %d is for %s with %s", i, r.Model, r.Effort)
		}
		now := x.one(s.SessionID).Selections
		x.want(now.Evidence.Model == responses.OtherModel && now.Asked.Model == responses.OtherModel && now.Evidence.Effort == "high", "selections %+v", now)
	}},
	{"plan mode comes and goes with a send", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[propose the plan]", sessions.CommandCompleted, args{"mode": "plan"})
		x.want(x.one(s.SessionID).Selections.Evidence.Mode == "plan", "selections %+v", x.one(s.SessionID).Selections)
		x.send(s.SessionID, "d", "[text done]", sessions.CommandCompleted, args{"mode": "default", "effort": "low"})
		x.want(x.one(s.SessionID).Selections.Evidence.Mode == "default", "selections %+v", x.one(s.SessionID).Selections)
		x.want(x.last().Effort == "low" && x.last().Model == responses.Model, "the provider was sent %s, %s", x.last().Model, x.last().Effort)
	}},
	{"a model that another answers for is told, and nothing more is sent until it is asked for again", func(x *codexRun) {
		s := x.create(nil)
		x.begin(s.SessionID, "c", "[reroute another-model] [text ok]")
		e := x.until(s.SessionID, "the change", func(e sessions.Event) bool { return e.Kind == sessions.EventSelectionChanged })
		x.want(e.Selection != nil && e.Selection.Evidence.Model == "another-model" && e.Selection.Asked.Model == responses.Model, "event %+v", e.Selection)
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		before := len(x.mock.Requests())
		x.unsent(s.SessionID, "d", sessions.CodeSelectionUnconfirmed, nil)
		x.want(len(x.mock.Requests()) == before, "the provider was sent a prompt")
		x.send(s.SessionID, "e", "[text again]", sessions.CommandCompleted, args{"model": responses.Model})
	}},
	{"a model that the provider does not know is told, and nothing more is sent until another is asked for",
		unknownModel("[fail 404 model_not_found The model `mock-model` does not exist or you do not have access to it.]")},
	{"a model that the provider calls a bad request is told so, and nothing more is sent until another is asked for",
		unknownModel("[fail 400 model_not_found no such model]")},
	{"a model that an account may not use is told so, and nothing more is sent until another is asked for",
		unknownModel("[fail 400 invalid_request_error The 'mock-model' model is not supported when using Codex with a ChatGPT account.]")},
	{"without a model the one in force is told", func(x *codexRun) {
		s := x.create(args{"model": ""})
		x.want(s.Selections.Evidence.Model == responses.Model && s.Selections.Asked.Model == "", "selections %+v", s.Selections)
		x.send(s.SessionID, "c", "[text ok]", sessions.CommandCompleted)
		x.want(x.last().Model == responses.Model, "the provider was sent %s", x.last().Model)
	}},
}

// unknownModel is a turn that fails because the provider knows no such model, as the prompt has it say.
func unknownModel(prompt string) func(*codexRun) {
	return func(x *codexRun) {
		s := x.create(nil)
		sent := x.send(s.SessionID, "c", prompt, sessions.CommandFailed)
		x.want(sent.Command.Outcome == "model_not_found", "outcome %q: %s", sent.Command.Outcome, sent.Command.Reason)
		before := len(x.mock.Requests())
		x.unsent(s.SessionID, "d", sessions.CodeSelectionUnconfirmed, nil)
		x.want(len(x.mock.Requests()) == before, "the provider was sent a prompt")
		if x.fixed { // which model answers cannot be changed and confirmed
			return
		}
		x.send(s.SessionID, "e", "[text other]", sessions.CommandCompleted, args{"model": responses.OtherModel})
		x.want(x.last().Model == responses.OtherModel, "the provider was sent %s", x.last().Model)
	}
}

// unsent wants a send to be refused, at once or as the end of its command.
func (x *codexRun) unsent(session, command string, code sessions.Code, more args) {
	x.t.Helper()
	a := args{"session_id": session, "text": "[text unsent]", "command_id": command, "wait_seconds": 50}
	for k, v := range more {
		a[k] = v
	}
	sent, e := try[sessions.SendResult](x.f, "session_send", a)
	if e == nil && sent.Command.State == sessions.CommandFailed && sent.Command.Outcome == string(code) {
		return
	}
	if e == nil || e.Code != code {
		x.t.Errorf("%s: %v, %+v; want %s", command, e, sent.Command, code)
	}
}
