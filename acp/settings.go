package acp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// settings is what the agent last reported about the conversation's selections, what was asked, and what of it was
// confirmed.
type settings struct {
	options  []option // the last full set
	reported bool     // there was one
	raw      json.RawMessage
	modes    modes
	models   models // only ever read: setting it confirms nothing
	modeID   string // the option that has the modes of our selections; "": the one of that name

	asked     asked
	confirmed []constraint
	choosing  bool            // updates are part of a change that is under way
	touched   []string        // selections that this change has sent to the agent
	unsettled map[string]bool // selections that a change left half way: what they stand at was asked by nobody
	said      string          // what the last event, or Open, said of all this
}

// asked is every selection that a caller made so far.
type asked struct {
	sessions.Selection
	native map[string]string // option id to value, from runner_options
}

// constraint is one thing that must stay as it is for a selection to hold.
type constraint struct {
	selection string // model, effort, mode, sandbox, approval_policy, or an option's own id
	word      string // what the caller called it
	option    string // the option; "": the session's mode where that is no option
	value     any
}

// take makes a full set of options the current one. It reports false where there is none.
func (s *settings) take(raw json.RawMessage) bool {
	set, ok := parseOptions(raw)
	if !ok {
		return false
	}
	s.options, s.reported, s.raw = set, true, kept(raw)
	if o := s.preset(); o != nil {
		s.modes.Current = o.current()
	}
	return true
}

// opened takes what session/new, load or resume reported.
func (s *settings) opened(r sessionResult) {
	if r.Modes != nil {
		s.modes = *r.Modes
	}
	if r.Models != nil {
		s.models = *r.Models
	}
	s.take(r.ConfigOptions)
}

// switched takes a change of mode that was reported by itself. Agents that have the mode as an option, too, report it
// either way.
func (s *settings) switched(mode string) {
	s.modes.Current = mode
	if o := s.preset(); o != nil {
		o.Current = mode
	}
}

func (s *settings) model() *option { return find(s.options, optionModel, optionModel) }

// preset is the option that goes with the protocol's own modes.
func (s *settings) preset() *option { return find(s.options, optionMode, optionMode) }

// mode is the option that has what our selections call the mode.
func (s *settings) mode() *option {
	if o := find(s.options, s.modeID, ""); o != nil && s.modeID != "" {
		return o
	}
	return s.preset()
}

// holds tells whether the agent's last report agrees with a constraint.
func (s *settings) holds(c constraint) bool {
	switch {
	case c.option != "":
	case c.selection == "model":
		return s.models.Current == c.value
	default:
		return s.modes.Current == c.value
	}
	o := find(s.options, c.option, "")
	return o != nil && o.Current == c.value
}

// word is what stands for a selection in the evidence: the caller's word while everything that it means holds, else
// what the agent reports.
func (s *settings) word(selection, reported string) string {
	word := ""
	var params []string // of a model that is right, those that are not
	for _, c := range s.confirmed {
		if c.selection != selection {
			continue
		}
		word = c.word
		if s.holds(c) {
			continue
		}
		o, model := find(s.options, c.option, ""), s.model()
		if selection != "model" || o == nil || model == nil || o.ID == model.ID {
			return reported
		}
		params = append(params, o.ID+"="+o.current())
	}
	switch {
	case word == "":
		return reported
	case params != nil:
		return reported + "[" + strings.Join(params, ",") + "]"
	}
	return word
}

// evidence is what the agent reports now, as far as it can.
func (s *settings) evidence() sessions.Evidence {
	e := sessions.Evidence{Model: s.models.Current, Mode: s.modes.Current, Raw: s.raw}
	if o := s.model(); o != nil {
		e.Model = o.current()
	}
	if o := s.mode(); o != nil {
		e.Mode = o.current()
	}
	if o := findEffort(s.options); o != nil {
		e.Effort = o.current()
	}
	e.Model, e.Effort, e.Mode = s.word("model", e.Model), s.word("effort", e.Effort), s.word("mode", e.Mode)
	return e
}

// drift is what was confirmed once and is no longer so.
func (s *settings) drift() []sessions.Difference {
	e := s.evidence()
	reported := map[string]string{"model": e.Model, "effort": e.Effort, "mode": e.Mode}
	var d []sessions.Difference
	for _, c := range s.confirmed {
		if s.holds(c) || slices.ContainsFunc(d, func(x sessions.Difference) bool { return x.Name == c.selection }) {
			continue
		}
		r, known := reported[c.selection]
		if o := find(s.options, c.option, ""); !known && o != nil {
			r = o.current()
		} else if !known {
			r = s.modes.Current
		}
		d = append(d, sessions.Difference{Name: c.selection, Asked: c.word, Reported: r})
	}
	return d
}

// modeNames are the ids that agents have for the mode in which nothing special was asked: Claude, Gemini and Qwen say
// default, Cursor and codex-acp agent, OpenCode build, zed's examples code. Wider ones are not among them.
var modeNames = []string{"default", "agent", "build", "code"}

// pickMode turns the name of a mode into the agent's own.
func pickMode(name string, offered []string) (string, bool) {
	names := []string{name}
	if name == "default" {
		names = modeNames
	}
	for _, n := range names {
		if slices.Contains(offered, n) {
			return n, true
		}
	}
	return "", false
}

// offeredModes lists the agent's modes, wherever it reports them.
func (s *settings) offeredModes() []string {
	if o := s.mode(); o != nil {
		return o.offers()
	}
	return s.offeredPresets()
}

// offeredPresets lists the protocol's own modes.
func (s *settings) offeredPresets() []string {
	if o := s.preset(); o != nil {
		return o.offers()
	}
	ids := make([]string, len(s.modes.Available))
	for i, m := range s.modes.Available {
		ids[i] = m.ID
	}
	return ids
}

// offeredModels lists the models of an agent that has no option for them.
func (s *settings) offeredModels() []string {
	ids := make([]string, len(s.models.Available))
	for i, m := range s.models.Available {
		ids[i] = m.ID
	}
	return ids
}

// nativeOptions reads runner_options, which are options of the agent by id.
func nativeOptions(options map[string]any) (map[string]string, error) {
	out := make(map[string]string, len(options))
	for _, id := range slices.Sorted(maps.Keys(options)) {
		switch v := options[id].(type) {
		case string, bool:
			out[id] = valueText(v)
		default:
			return nil, sessions.Errorf(sessions.CodeInvalidParams, "runner option %q is neither a string nor a boolean", id).
				Do("give the value as the agent's configuration option %s takes it", id)
		}
	}
	return out, nil
}
