package acp

import (
	"errors"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// MO-01: an agent that says that it set an option has not thereby set it.
func TestMO01_EchoIsNoConfirmation(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(f *fixture, m message) string
		says string
	}{
		"no set":     {func(*fixture, message) string { return `"result":{}` }, "reported nothing"},
		"no answer":  {func(*fixture, message) string { return `"result":null` }, "reported nothing"},
		"empty set":  {func(*fixture, message) string { return `"result":{"configOptions":[]}` }, "reported nothing"},
		"another":    {func(f *fixture, _ message) string { return `"result":{"configOptions":` + f.peer.config.set() + `}` }, "composer-2.5"},
		"it refuses": {func(*fixture, message) string { return `"error":{"code":-32602,"message":"Invalid model value"}` }, "refused"},
		"another, too": {func(f *fixture, m message) string {
			if m.param(f.T, "configId") == "effort" { // confirms the effort, and leaves the model
				f.peer.config.mu.Lock()
				f.peer.config.model = "claude-opus-4-6"
				f.peer.config.mu.Unlock()
			}
			return f.peer.config.take(m)
		}, "claude-opus-4-6"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Options{})
			f.peer.likeCursor()
			f.peer.answer("session/set_config_option", func(m message) string { return c.set(f, m) })
			_, err := f.open(sessions.OpenParams{Selection: sessions.Selection{Model: "claude-opus-5", Effort: "high"}})
			code := sessions.CodeSelectionUnconfirmed
			if name == "it refuses" {
				code = sessions.CodeModelUnavailable
			}
			if sessions.CodeOf(err) != code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %s saying %q", err, code, c.says)
			}
			if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c", Text: "x"}); !errors.Is(err, sessions.ErrNotWritten) {
				t.Errorf("a prompt after that: %v", err)
			}
		})
	}
}

// MO-01 (a): the answer confirms, and an update right behind it says the old value.
func TestMO01_ContradictedByAnUpdate(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{Selection: sessions.Selection{Model: "gpt-5.5"}})
	f.peer.config.mu.Lock()
	f.peer.config.model = "composer-2.5"
	f.peer.config.mu.Unlock()
	f.peer.update(`"sessionUpdate":"config_option_update","configOptions":` + f.peer.config.set())
	e := f.rec.await(sessions.EventSelectionChanged)
	if e.Selection.Asked.Model != "gpt-5.5" || e.Selection.Evidence.Model != "composer-2.5" {
		t.Errorf("changed %+v", e.Selection)
	}
	if w := f.rec.await(sessions.EventWarning); w.Code != sessions.CodeSelectionUnconfirmed {
		t.Errorf("warning %+v", w)
	}
	err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c1", Text: "x"})
	if sessions.CodeOf(err) != sessions.CodeSelectionUnconfirmed || !errors.Is(err, sessions.ErrNotWritten) || f.peer.sent("session/prompt") > 0 {
		t.Errorf("a prompt after the drift: %v", err)
	}
	// A prompt that selects anew goes on.
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "x", Model: "gpt-5.5"}); err != nil {
		t.Fatal(err)
	}
	if e := f.rec.await(sessions.EventSelectionConfirm); e.Selection.Evidence.Model != "gpt-5.5" || e.Command != "c2" {
		t.Errorf("confirmed %+v", e.Selection)
	}
}

// MO-03: the agent moves to another model in the middle of a turn. That turn goes on, both names are told, and nothing more
// is sent with a model that nobody asked for.
func TestMO03_AnotherModelInATurn(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{Selection: sessions.Selection{Model: "gpt-5.5"}})
	m := f.prompt("c1")
	f.peer.config.mu.Lock()
	f.peer.config.model = "composer-2.5"
	f.peer.config.mu.Unlock()
	f.peer.update(`"sessionUpdate":"config_option_update","configOptions":` + f.peer.config.set())
	if e := f.rec.await(sessions.EventSelectionChanged); e.Command != "c1" || e.Selection.Asked.Model != "gpt-5.5" || e.Selection.Evidence.Model != "composer-2.5" {
		t.Errorf("changed %s: %+v", e.Command, e.Selection)
	}
	if w := f.rec.await(sessions.EventWarning); w.Command != "c1" || !strings.Contains(w.Text, "gpt-5.5") || !strings.Contains(w.Text, "composer-2.5") {
		t.Errorf("warning %+v", w)
	}
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	if s := f.settled(); s.State != sessions.CommandCompleted || f.peer.sent("session/cancel") > 0 {
		t.Errorf("settled %+v", s)
	}
	err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "x"})
	if sessions.CodeOf(err) != sessions.CodeSelectionUnconfirmed || !errors.Is(err, sessions.ErrNotWritten) || f.peer.sent("session/prompt") != 1 {
		t.Errorf("the next prompt: %v", err)
	}
}

// A parameter of the model drifts: the evidence names it.
func TestDriftOfAParameter(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{Selection: sessions.Selection{Model: "gpt-5.5-high"}, Options: map[string]any{"context": "1m"}})
	f.peer.config.mu.Lock()
	f.peer.config.values["reasoning"] = "low"
	f.peer.config.mu.Unlock()
	f.peer.update(`"sessionUpdate":"config_option_update","configOptions":` + f.peer.config.set())
	if e := f.rec.await(sessions.EventSelectionChanged); e.Selection.Evidence.Model != "gpt-5.5[reasoning=low]" {
		t.Errorf("changed %+v", e.Selection.Evidence)
	}
	f.peer.config.mu.Lock()
	f.peer.config.values["reasoning"] = "high"
	f.peer.config.mu.Unlock()
	f.peer.update(`"sessionUpdate":"config_option_update","configOptions":` + f.peer.config.set())
	if e := f.rec.await(sessions.EventSelectionChanged); e.Selection.Evidence.Model != "gpt-5.5-high" || e.Data != nil {
		t.Errorf("changed back %+v", e)
	}
	f.prompt("c1")
}

// MO-02: an unknown model is refused with what there is; what a prompt selects stays, and is visible.
func TestMO02_UnknownModelAndOverrides(t *testing.T) {
	for _, model := range []string{"no-such-model", "GPT-5.5", "gpt-5.5 "} {
		f := newFixture(t, Options{})
		f.peer.likeCursor()
		_, err := f.open(sessions.OpenParams{Selection: sessions.Selection{Model: model}})
		if sessions.CodeOf(err) != sessions.CodeModelUnavailable || !strings.Contains(err.Error(), "gpt-5.5") {
			t.Errorf("%s: %v", model, err)
		}
	}
	f := opened(t, Options{}, sessions.OpenParams{Selection: sessions.Selection{Model: "claude-opus-5", Effort: "high"}})
	err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c0", Text: "x", Model: "no-such-model"})
	if sessions.CodeOf(err) != sessions.CodeModelUnavailable || !errors.Is(err, sessions.ErrNotWritten) {
		t.Errorf("%v", err)
	}
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c1", Text: "x", Model: "claude-opus-4-6"}); err != nil {
		t.Fatal(err)
	}
	if e := f.rec.await(sessions.EventSelectionConfirm); e.Selection.Evidence.Model != "claude-opus-4-6" || e.Selection.Evidence.Effort != "high" {
		t.Errorf("the effort did not stay: %+v", e.Selection.Evidence)
	}
	f.peer.result(f.peer.next("session/prompt"), `{"stopReason":"end_turn"}`)
	f.settled()
	before := f.peer.sent("session/set_config_option")
	f.peer.result(f.prompt("c2"), `{"stopReason":"end_turn"}`)
	f.settled()
	if f.peer.config.model != "claude-opus-4-6" || f.peer.sent("session/set_config_option") != before {
		t.Error("the override did not stay")
	}
}

// A model's name may carry an effort, which then takes the place of the one before; native options stay, and follow
// the model. What the agent reports in between is part of the change.
func TestChangeOfModel(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{Selection: sessions.Selection{Model: "gpt-5.5", Effort: "low"}, Options: map[string]any{"context": "1m"}})
	f.peer.answer("session/set_config_option", func(m message) string {
		answer := f.peer.config.take(m)
		f.peer.update(`"sessionUpdate":"config_option_update","configOptions":` + f.peer.config.set())
		return answer
	})
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c1", Text: "x", Model: "claude-opus-4-8-max"}); err != nil {
		t.Fatal(err)
	}
	f.peer.next("session/prompt")
	e := f.rec.await(sessions.EventSelectionConfirm)
	if e.Selection.Asked.Effort != "" || e.Selection.Evidence.Effort != "max" || e.Selection.Evidence.Model != "claude-opus-4-8-max" {
		t.Errorf("confirmed %+v", e.Selection)
	}
	if n := len(f.rec.all(sessions.EventSelectionChanged, sessions.EventWarning)); n != 0 {
		t.Errorf("the change was reported as drift: %s", f.rec.story())
	}
	f.peer.config.mu.Lock()
	defer f.peer.config.mu.Unlock()
	if v := f.peer.config.values; v["context"] != "1m" || v["effort"] != "max" {
		t.Errorf("the agent stands at %v", v)
	}
}

// A change that breaks off half way leaves settings that nobody asked for: no prompt runs with them.
func TestHalfAChange(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c1", Text: "x", Model: "claude-opus-5", Effort: "minimal"})
	if sessions.CodeOf(err) != sessions.CodeModelUnavailable {
		t.Fatalf("%v", err)
	}
	err = f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "x"})
	if sessions.CodeOf(err) != sessions.CodeSelectionUnconfirmed || !strings.Contains(err.Error(), "name model") {
		t.Errorf("%v", err)
	}
	if e := f.rec.await(sessions.EventSelectionChanged); e.Selection.Evidence.Model != "claude-opus-5" {
		t.Errorf("changed %+v", e.Selection.Evidence)
	}
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c3", Text: "x", Model: "composer-2.5"}); err != nil {
		t.Errorf("%v", err)
	}
}

// An agent that leaves plan mode by itself is stopped; one that was allowed to is not, but the next prompt is.
func TestModeFlipsByItself(t *testing.T) {
	plan := sessions.OpenParams{Selection: sessions.Selection{Mode: "plan"}}
	f := opened(t, Options{}, plan)
	m := f.prompt("c1")
	f.peer.update(`"sessionUpdate":"current_mode_update","currentModeId":"agent"`)
	f.peer.next("session/cancel")
	f.rec.await(sessions.EventSelectionChanged)
	f.rec.await(sessions.EventWarning)
	f.peer.result(m, `{"stopReason":"cancelled"}`)
	if s := f.settled(); s.State != sessions.CommandInterrupted || !strings.Contains(s.Reason, "left mode plan for agent") {
		t.Errorf("settled %+v", s)
	}
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "x"}); sessions.CodeOf(err) != sessions.CodeSelectionUnconfirmed {
		t.Errorf("%v", err)
	}

	f = opened(t, Options{}, plan)
	m = f.prompt("c1")
	f.peer.request("0", "session/request_permission",
		`{"sessionId":"s1","toolCall":{"toolCallId":"t","kind":"switch_mode","title":"Ready to code?"},"options":[{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}`)
	if err := f.resolve(f.rec.await(sessions.EventApprovalRequested).Request, "approve", ""); err != nil {
		t.Fatal(err)
	}
	f.peer.reply("0")
	f.peer.update(`"sessionUpdate":"current_mode_update","currentModeId":"agent"`)
	f.rec.await(sessions.EventSelectionChanged)
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	if s := f.settled(); s.State != sessions.CommandCompleted || f.peer.sent("session/cancel") > 0 {
		t.Errorf("settled %+v", s)
	}
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "x"}); sessions.CodeOf(err) != sessions.CodeSelectionUnconfirmed {
		t.Errorf("%v", err)
	}
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c3", Text: "x", Mode: "default"}); err != nil {
		t.Errorf("%v", err)
	}
}
