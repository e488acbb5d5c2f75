package acp

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// choose applies selections and has every one confirmed by the agent's own full report: the model first, because the
// other options change with it, then its parameters, the mode, the effort and the native options, each against the set
// that the last answer brought. With all false only what differs from the last time is applied.
//
// Nothing is taken for confirmed before all of it is.
func (a *Agent) choose(ctx context.Context, next asked, all bool) (err error) {
	s := &a.settings
	if effort := a.effortOf(next.Model); effort != "" && next.Effort != "" && effort != plainEffort(next.Effort) {
		return sessions.Errorf(sessions.CodeInvalidParams, "model %q names effort %s, and effort %q was asked beside it",
			next.Model, effort, next.Effort).Do("ask for another model name, or leave the effort out")
	}
	changed := func(selection, word, before string) bool {
		return word != "" && (all || word != before || !s.holdsAll(selection))
	}
	model := changed("model", next.Model, s.asked.Model)
	mode := changed("mode", next.Mode, s.asked.Mode)
	preset, err := a.profile.preset(next.Selection)
	if err != nil {
		return err
	}
	effort := next.Effort != "" && (model || changed("effort", next.Effort, s.asked.Effort))
	native := all || model

	s.choosing, s.touched = true, nil
	defer func() {
		s.choosing = false
		if err == nil {
			return
		}
		for _, selection := range s.touched {
			if s.unsettled == nil {
				s.unsettled = map[string]bool{}
			}
			s.unsettled[selection] = true
		}
	}()

	var confirmed []constraint
	steps := []struct {
		selection, word string
		apply           bool
		run             func() ([]constraint, error)
	}{
		{"model", next.Model, model, func() ([]constraint, error) { return a.chooseModel(ctx, next) }},
		{"approval_policy", preset.policy, preset.mode != "" && all, func() ([]constraint, error) { return a.choosePreset(ctx, preset) }},
		{"sandbox", preset.sandbox, false, nil},
		{"mode", next.Mode, mode, func() ([]constraint, error) { return a.chooseMode(ctx, next.Mode, preset) }},
		{"effort", next.Effort, effort, func() ([]constraint, error) { return a.chooseEffort(ctx, next.Effort) }},
	}
	for _, id := range slices.Sorted(maps.Keys(next.native)) {
		step := steps[0]
		step.selection, step.word, step.apply = id, next.native[id], native
		step.run = func() ([]constraint, error) { return a.chooseNative(ctx, id, next.native[id]) }
		steps = append(steps, step)
	}
	for _, step := range steps {
		switch {
		case step.apply:
			c, err := step.run()
			if confirmed = append(confirmed, c...); err != nil {
				return err
			}
		case step.word != "" && !all:
			confirmed = append(confirmed, s.of(step.selection)...)
		}
	}
	// An answer may have confirmed its own option and changed another one's.
	for _, c := range confirmed {
		if !s.holds(c) {
			after := settings{options: s.options, modes: s.modes, models: s.models, confirmed: confirmed}
			return a.unconfirmed(after.drift())
		}
	}
	s.confirmed, s.asked = confirmed, next
	for _, c := range confirmed {
		delete(s.unsettled, c.selection)
	}
	return nil
}

// of is what was confirmed for one selection.
func (s *settings) of(selection string) (all []constraint) {
	for _, c := range s.confirmed {
		if c.selection == selection {
			all = append(all, c)
		}
	}
	return all
}

// holdsAll tells whether a selection was confirmed, and is still so.
func (s *settings) holdsAll(selection string) bool {
	all := s.of(selection)
	return len(all) > 0 && !slices.ContainsFunc(all, func(c constraint) bool { return !s.holds(c) })
}

func (a *Agent) chooseModel(ctx context.Context, next asked) ([]constraint, error) {
	s := &a.settings
	o := s.model()
	if o == nil {
		// Without the option there is nothing that confirms a change: session/set_model is in no schema, and Gemini
		// answers it with {} for a model that does not exist (0.61). What the agent runs anyway needs no change.
		offered := s.offeredModels()
		if len(offered) > 0 && !slices.Contains(offered, next.Model) {
			// Gemini reports whatever name it was started with (0.61.0).
			return nil, sessions.Errorf(sessions.CodeModelUnavailable, "model %q is not offered", next.Model).
				Do("choose one of: %s", list(offered)).With("offered", offered)
		}
		if s.models.Current == next.Model {
			return []constraint{{"model", next.Model, "", next.Model}}, nil
		}
		e := sessions.Errorf(sessions.CodeUnsupported, "the agent has no configuration option for its model, so %q cannot be confirmed", next.Model)
		if s.models.Current != "" {
			return nil, e.Do("leave the model out, or ask for %s, which the agent reports", s.models.Current)
		}
		return nil, e.Do("leave the model out, or choose it in the agent's own configuration")
	}
	n, err := a.readModel(next.Model, o)
	if err != nil {
		return nil, err
	}
	c, err := a.setOption(ctx, *o, n.base, "model", next.Model)
	if err != nil {
		return nil, err
	}
	confirmed := []constraint{c}
	settings, err := n.settings(next.Model, s.options)
	if err != nil {
		return nil, err
	}
	for _, set := range settings {
		o := find(s.options, set.option, "")
		if o == nil { // an answer on the way took it away
			return nil, refuseOption(next.Model, set.option+" is not offered", s.options)
		}
		c, err := a.setOption(ctx, *o, set.value, "model", next.Model)
		if err != nil {
			return nil, err
		}
		confirmed = append(confirmed, c)
	}
	return confirmed, nil
}

// readModel reads a name as the runner has them: Cursor in several ways, everybody else by exact value.
func (a *Agent) readModel(name string, o *option) (modelName, error) {
	if a.cursor {
		return parseModel(name, o.Choices)
	}
	if _, ok := o.pick(name); !ok {
		return modelName{}, refuseModel(name, "is not offered", o.Choices)
	}
	return modelName{base: name}, nil
}

// effortOf is the effort that a model's name carries, "" when it carries none or cannot be read.
func (a *Agent) effortOf(name string) string {
	o := a.settings.model()
	if !a.cursor || o == nil || name == "" {
		return ""
	}
	n, err := parseModel(name, o.Choices)
	if err != nil {
		return ""
	}
	for _, p := range n.params {
		if p[0] == "effort" || p[0] == "reasoning" {
			return plainEffort(p[1])
		}
	}
	return n.effort
}

func (a *Agent) chooseEffort(ctx context.Context, word string) ([]constraint, error) {
	o := findEffort(a.settings.options)
	if o == nil {
		return nil, sessions.Errorf(sessions.CodeUnsupported, "the agent offers no effort for this model, %q was asked", word).
			Do("leave the effort out")
	}
	v, ok := o.pickEffort(word)
	if !ok {
		return nil, sessions.Errorf(sessions.CodeModelUnavailable, "effort %q is not offered for this model", word).
			Do("choose one of: %s", list(o.offers())).With("offered", o.offers())
	}
	c, err := a.setOption(ctx, *o, v, "effort", word)
	return []constraint{c}, err
}

func (a *Agent) chooseNative(ctx context.Context, id, word string) ([]constraint, error) {
	o := find(a.settings.options, id, "")
	if o == nil {
		var ids []string
		for _, o := range a.settings.options {
			ids = append(ids, o.ID)
		}
		return nil, sessions.Errorf(sessions.CodeUnsupported, "the agent has no configuration option %q", id).
			Do("choose among: %s", list(ids)).With("offered", ids)
	}
	v, ok := o.pick(word)
	if !ok {
		return nil, sessions.Errorf(sessions.CodeUnsupported, "option %s does not take %q", id, word).
			Do("choose one of: %s", list(o.offers())).With("offered", o.offers())
	}
	c, err := a.setOption(ctx, *o, v, id, word)
	return []constraint{c}, err
}

// choosePreset sets the mode that stands for an approval policy, and perhaps for a sandbox.
func (a *Agent) choosePreset(ctx context.Context, p preset) ([]constraint, error) {
	s := &a.settings
	o := s.preset()
	if offered := s.offeredPresets(); !slices.Contains(offered, p.mode) {
		return nil, sessions.Errorf(sessions.CodeUnsupported, "the agent has no mode %s, which is its approval policy %s", p.mode, p.policy).
			Do("use a version of the agent that has it").With("offered", offered)
	}
	c, err := a.setMode(ctx, o, p.mode, "approval_policy", p.policy)
	confirmed := []constraint{c}
	if p.sandbox != "" {
		c.selection, c.word = "sandbox", p.sandbox
		confirmed = append(confirmed, c)
	}
	return confirmed, err
}

// chooseMode sets the mode. preset is what the same option may stand at already.
func (a *Agent) chooseMode(ctx context.Context, word string, p preset) ([]constraint, error) {
	s := &a.settings
	o := s.mode()
	if p.mode != "" && o == s.preset() {
		if word != "default" {
			return nil, sessions.Errorf(sessions.CodeUnsupported, "mode %s and approval policy %s are one setting of this agent", word, p.policy).
				Do("leave one of them out")
		}
		c := constraint{"mode", word, "", p.mode}
		if o != nil {
			c.option = o.ID
		}
		return []constraint{c}, nil
	}
	mode, ok := a.profile.mode(word, s.offeredModes())
	if !ok {
		return nil, sessions.Errorf(sessions.CodeUnsupported, "the agent has no mode %q", word).
			Do("leave the mode out, or choose one of: %s", list(s.offeredModes())).With("offered", s.offeredModes())
	}
	c, err := a.setMode(ctx, o, mode, "mode", word)
	return []constraint{c}, err
}

// setMode sets a mode, by its option where it is one.
func (a *Agent) setMode(ctx context.Context, o *option, mode, selection, word string) (constraint, error) {
	s := &a.settings
	if o != nil {
		return a.setOption(ctx, *o, mode, selection, word)
	}
	c := constraint{selection, word, "", mode}
	if s.holds(c) {
		return c, nil
	}
	// The answer to session/set_mode says nothing; the update beside it does, before or after.
	s.touched = append(s.touched, selection)
	if _, err := a.call(ctx, methodSetMode, setModeParams{a.session, mode}, a.o.HandshakeTimeout); err != nil {
		return c, a.refusedSetting(selection, word, err)
	}
	err := a.pump(ctx, "the mode's update", a.o.ConfirmTimeout, func() bool { return s.holds(c) })
	if sessions.CodeOf(err) == sessions.CodeTimeout && ctx.Err() == nil {
		return c, a.unconfirmed([]sessions.Difference{{Name: selection, Asked: word, Reported: s.modes.Current}})
	}
	return c, err
}

// unconfirmed is the refusal for differences, with what is known of this agent.
func (a *Agent) unconfirmed(d []sessions.Difference) error {
	err := sessions.UnconfirmedError(d)
	if err == nil || a.profile.hint[d[0].Name] == "" {
		return err
	}
	return sessions.AsError(err).Do("%s", a.profile.hint[d[0].Name])
}

// setOption sets one option and takes the whole answer as the new set. The answer must bring the set, and in it the
// value.
func (a *Agent) setOption(ctx context.Context, o option, value any, selection, word string) (constraint, error) {
	c := constraint{selection, word, o.ID, value}
	p := setOptionParams{SessionID: a.session, ConfigID: o.ID, Value: value}
	if o.Boolean {
		p.Type = "boolean"
	}
	a.settings.touched = append(a.settings.touched, selection)
	m, err := a.call(ctx, methodSetOption, p, a.o.HandshakeTimeout)
	if err != nil {
		return c, a.refusedSetting(selection, word, err)
	}
	var r setOptionResult
	if decode(m.Result, &r) != nil || !a.settings.take(r.ConfigOptions) {
		return c, a.unconfirmed([]sessions.Difference{{Name: selection, Asked: word}})
	}
	if !a.settings.holds(c) {
		reported := ""
		if now := find(a.settings.options, o.ID, ""); now != nil {
			reported = now.current()
		}
		return c, a.unconfirmed([]sessions.Difference{{Name: selection, Asked: word, Reported: reported}})
	}
	return c, nil
}

// refusedSetting is the agent's error for a value that it offered before.
func (a *Agent) refusedSetting(selection, word string, err error) error {
	var e *wire.ResponseError
	if !errors.As(err, &e) {
		return err
	}
	if e.Code != wire.CodeInvalidParams {
		return a.agentError("setting "+selection, e)
	}
	code := sessions.CodeUnsupported
	if selection == "model" || selection == "effort" {
		code = sessions.CodeModelUnavailable
	}
	return sessions.Errorf(code, "the agent refused %s %q: %w", selection, word, e).
		Do("choose another one, or look whether the account may use it").With("data", e.Data)
}
