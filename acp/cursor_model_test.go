package acp

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// catalogue is a model catalogue as Cursor publishes it with parameterizedModelPicker, names with what each must
// resolve to, and names with a part of what their refusal must say. Values that a name does not mention are kept.
type catalogue struct {
	Options map[string]json.RawMessage
	Resolve []struct {
		Name, Model string
		Set         map[string]any
	}
	Refuse []struct{ Name, Says string }
}

func loadCatalogue(t *testing.T) (catalogue, []choice) {
	t.Helper()
	raw, err := os.ReadFile("testdata/cursor_models.json")
	if err != nil {
		t.Fatal(err)
	}
	var c catalogue
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	var offered []choice
	for _, id := range slices.Sorted(maps.Keys(c.Options)) {
		offered = append(offered, choice{Value: id, Name: id})
	}
	return c, offered
}

func (c catalogue) resolve(t *testing.T, name string, offered []choice) (string, map[string]any, error) {
	t.Helper()
	n, err := parseModel(name, offered)
	if err != nil {
		return "", nil, err
	}
	set, ok := parseOptions(c.Options[n.base])
	if !ok {
		t.Fatalf("%s: resolved to %q, which is not in the catalogue", name, n.base)
	}
	settings, err := n.settings(name, set)
	got := map[string]any{}
	for _, s := range settings {
		if _, twice := got[s.option]; twice {
			t.Errorf("%s: %s is set twice", name, s.option)
		}
		got[s.option] = s.value
	}
	return n.base, got, err
}

func TestCursorModelNames(t *testing.T) {
	c, offered := loadCatalogue(t)
	for _, want := range c.Resolve {
		model, set, err := c.resolve(t, want.Name, offered)
		if err != nil || model != want.Model || !maps.Equal(set, want.Set) {
			t.Errorf("%s: resolved to %s %v, %v; want %s %v", want.Name, model, set, err, want.Model, want.Set)
		}
	}
	for _, want := range c.Refuse {
		model, set, err := c.resolve(t, want.Name, offered)
		var e *sessions.Error
		if !errors.As(err, &e) || e.Code != sessions.CodeModelUnavailable || e.Action == "" {
			t.Errorf("%s: %s %v, %v; want it refused with an action", want.Name, model, set, err)
		} else if !strings.Contains(e.Error(), want.Says) {
			t.Errorf("%s: refused with %q, which does not say %q", want.Name, e, want.Says)
		}
	}
}

// Each name is asked of an agent that serves the catalogue and changes its options with the model: it stands at what the name
// means, and no prompt is sent to one that was not offered.
func TestCursorModelsAsSelected(t *testing.T) {
	c, _ := loadCatalogue(t)
	for _, want := range c.Resolve {
		f := newFixture(t, Options{})
		f.peer.likeCursor()
		o, err := f.open(sessions.OpenParams{Selection: sessions.Selection{Model: want.Name}})
		if err != nil || o.Evidence.Model != want.Name {
			t.Errorf("%s: %+v, %v", want.Name, o.Evidence, err)
			continue
		}
		f.peer.config.mu.Lock()
		if f.peer.config.model != want.Model || !maps.Equal(f.peer.config.values, want.Set) {
			t.Errorf("%s: the agent stands at %s %v; want %s %v", want.Name, f.peer.config.model, f.peer.config.values, want.Model, want.Set)
		}
		f.peer.config.mu.Unlock()
		f.prompt("c")
	}
	for _, want := range c.Refuse {
		if want.Name == "" { // no selection
			continue
		}
		f := newFixture(t, Options{})
		f.peer.likeCursor()
		_, err := f.open(sessions.OpenParams{Selection: sessions.Selection{Model: want.Name}})
		if sessions.CodeOf(err) != sessions.CodeModelUnavailable || !strings.Contains(err.Error(), want.Says) {
			t.Errorf("%s: %v, which does not say %q", want.Name, err, want.Says)
		}
		if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c", Text: "x"}); !errors.Is(err, sessions.ErrNotWritten) || f.peer.sent("session/prompt") > 0 {
			t.Errorf("%s: a prompt after that: %v", want.Name, err)
		}
	}
}

// Without parameterizedModelPicker, or where it is ignored, each variant is an id of its own.
func TestCursorFixedVariants(t *testing.T) {
	var offered []choice
	for _, id := range []string{"default[]", "composer-2.5[fast=true]", "claude-opus-4-8[thinking=true,effort=high,fast=false]",
		"claude-opus-4-8[thinking=false,effort=high,fast=false]", "gpt-5.5[reasoning=high,fast=true]"} {
		offered = append(offered, choice{Value: id})
	}
	for name, want := range map[string]string{
		"default": "default[]", "composer-2.5-fast": "composer-2.5[fast=true]", "composer-2.5[fast=true]": "composer-2.5[fast=true]",
		"claude-opus-4-8-thinking":        "claude-opus-4-8[thinking=true,effort=high,fast=false]",
		"gpt-5.5-high-fast":               "gpt-5.5[reasoning=high,fast=true]",
		"claude-opus-4-8[thinking=false]": "claude-opus-4-8[thinking=false,effort=high,fast=false]",
	} {
		n, err := parseModel(name, offered)
		if err != nil || n.base != want || n.slug || n.params != nil {
			t.Errorf("%s: %+v, %v; want %s", name, n, err, want)
		}
	}
	for name, says := range map[string]string{
		"claude-opus-4-8": "fits several", "gpt-5.5-high": "not offered in that variant", "composer-2.5[fast=false]": "not offered in that variant",
	} {
		if _, err := parseModel(name, offered); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want it refused because it %s", name, err, says)
		}
	}
}
