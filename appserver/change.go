package appserver

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// change is one thread/settings/update under way. Codex answers it with {} whatever it does; what it did is in
// thread/settings/updated, which comes before or after the answer, and only when something did change.
type change struct {
	before   sessions.Selection // what was asked until now
	evidence sessions.Evidence  // what was reported until now
	answered bool
	notified bool
	alarm    *alarm
	done     func(error) // in the loop, once
}

// changeSettings asks the thread for what want says and differs from what it reports. done gets nil once Codex reports
// all of it. It belongs to the loop; an error means that nothing was sent and done is never run.
func (a *Agent) changeSettings(ctx context.Context, want sessions.Selection, done func(error)) error {
	c := &change{before: a.sel.asked, evidence: a.sel.evidence, done: done}
	a.sel.asked = want
	a.sel.report(a.sel.settings, a.models, a.version) // the evidence depends on the names asked for
	if len(a.sel.differences()) == 0 {
		done(nil)
		return nil
	}
	err := a.call(ctx, "thread/settings/update", a.settingsParams(), func(_ json.RawMessage, err error) {
		if a.sel.change != c {
			return
		}
		if err != nil {
			a.finishChange(changeRefused(err, a.sel.differences(), a.version))
			return
		}
		c.answered = true
		a.checkChange()
	})
	if err != nil {
		a.sel.asked = c.before
		a.sel.report(a.sel.settings, a.models, a.version)
		return err
	}
	c.alarm = a.alarms.after(a.o.RequestTimeout, func() {
		a.finishChange(sessions.UnconfirmedError(a.sel.differences()))
	})
	a.sel.change = c
	return nil
}

// settingsParams names what differs, and nothing else: each change of model or sandbox restarts the thread's MCP
// servers.
func (a *Agent) settingsParams() settingsUpdateParams {
	s := &a.sel
	p := settingsUpdateParams{ThreadID: a.root}
	modelName := s.settings.Model
	var effort *string
	if s.settings.Effort != "" {
		effort = &s.settings.Effort
	}
	for _, d := range s.differences() {
		switch d.Name {
		case "model":
			p.Model = a.models.slug(s.asked.Model)
			modelName = p.Model
		case "effort":
			p.Effort = s.asked.Effort
			effort = &p.Effort
		case "sandbox", "writable_roots", "network_access":
			if p.Permissions = s.profile; s.profile == "" {
				p.SandboxPolicy = s.policy()
			}
		case "approval_policy":
			p.Approval = s.asked.ApprovalPolicy
		case "mode":
			p.Mode = &collaborationMode{Mode: s.asked.Mode}
		}
	}
	if p.Mode == nil && s.settings.Mode != "" && s.settings.Mode != modeDefault && (p.Model != "" || p.Effort != "") {
		p.Mode = &collaborationMode{Mode: s.settings.Mode} // a mode carries its own model, which would win
	}
	if p.Mode != nil {
		p.Mode.Settings.Model, p.Mode.Settings.Effort = modelName, effort
	}
	return p
}

// checkChange ends the change when Codex has confirmed it, or has reported something else.
func (a *Agent) checkChange() {
	c := a.sel.change
	if c == nil || !c.answered {
		return
	}
	d := a.sel.differences()
	if len(d) == 0 || c.notified {
		a.finishChange(sessions.UnconfirmedError(d))
	}
}

func (a *Agent) finishChange(err error) {
	c := a.sel.change
	a.sel.change = nil
	c.alarm.off()
	if err != nil {
		a.sel.asked = c.before
		a.sel.report(a.sel.settings, a.models, a.version)
		if a.opened { // part of it may have been done
			a.changed(nil, c.evidence, nil)
		}
	}
	c.done(err)
}

// changeRefused says what cannot be had without thread/settings/update, which came between 0.125 and 0.144.
func changeRefused(err error, d []sessions.Difference, v version) error {
	if refused(err) == nil || len(d) == 0 {
		return err
	}
	if i := slices.IndexFunc(d, func(x sessions.Difference) bool { return x.Name == "sandbox" }); i >= 0 {
		if !unknownMethod(err) {
			return sessions.Errorf(sessions.CodeSandboxUnavailable, "sandbox %q was asked: %w", d[i].Asked, err).
				Do("ask for another sandbox")
		}
		return sessions.Errorf(sessions.CodeSandboxUnavailable,
			"Codex %s cannot give sandbox %q to a thread without marking its folder as trusted in your config.toml: %w", v.text, d[i].Asked, err).
			Do("update Codex to 0.144 or later, ask for sandbox %s, or allow the mark with runner_options trust_folder", sessions.SandboxReadOnly)
	}
	if unknownMethod(err) {
		return sessions.Errorf(sessions.CodeUnsupported, "Codex %s cannot change the %s of a thread: %w", v.text, d[0].Name, err).
			Do("update Codex to 0.144 or later, or leave %s out", d[0].Name)
	}
	return sessions.Errorf(sessions.CodeSelectionUnconfirmed, "%s %q was asked: %w", d[0].Name, d[0].Asked, err).
		Do("ask for a value that runner_list shows for this runner, or leave it out").With("differences", d)
}

// settingsUpdated takes thread/settings/updated of our thread.
func (a *Agent) settingsUpdated(raw json.RawMessage) error {
	var n settingsUpdated
	if err := decode(raw, &n); err != nil {
		return err
	}
	if !a.isRoot(n.ThreadID) {
		return nil
	}
	before := a.sel.evidence
	a.sel.report(n.settings(), a.models, a.version)
	if c := a.sel.change; c != nil {
		c.notified = true
		a.checkChange()
		return nil
	}
	if a.opened {
		a.changed(a.turn, before, raw)
	}
	return nil
}

// changed tells about settings that are no longer what they were, without our doing. What was asked for and no longer
// holds stops further prompts until somebody asks for it again.
func (a *Agent) changed(t *turn, before sessions.Evidence, raw json.RawMessage) {
	d := a.sel.differences()
	known := a.sel.drift != nil
	a.sel.drift = sessions.UnconfirmedError(d)
	if same(before, a.sel.evidence) && (len(d) == 0 || known) {
		return
	}
	e := sessions.Event{Kind: sessions.EventSelectionChanged, Selection: a.sel.pair(), Raw: raw}
	if t != nil {
		e.Command, e.Turn = t.command, t.id
	}
	if len(d) > 0 {
		e.Data = map[string]any{"differences": d}
	}
	a.emit(e)
	if len(d) > 0 {
		a.warn(sessions.Event{Command: e.Command, Turn: e.Turn, Code: sessions.CodeSelectionUnconfirmed},
			"Codex does not hold to what was asked any more: %s is %s instead of %q. Nothing more is sent until it is asked for again.",
			d[0].Name, cmp.Or(d[0].Reported, "unknown"), d[0].Asked)
	}
}

func same(a, b sessions.Evidence) bool {
	return a.Model == b.Model && a.Effort == b.Effort && a.Mode == b.Mode && a.Sandbox == b.Sandbox &&
		a.ApprovalPolicy == b.ApprovalPolicy && a.Cwd == b.Cwd
}
