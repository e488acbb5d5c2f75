package acp

import (
	"context"
	"fmt"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// evidence is everything that the agent, and the bridge for it, reports about the selections.
func (a *Agent) evidence() sessions.Evidence {
	e := a.settings.evidence()
	e.AgentName, e.AgentVersion = a.initial.AgentInfo.Name, a.initial.AgentInfo.Version
	e.Sandbox, e.SandboxBy = a.sandbox, a.sandboxBy
	if a.sandboxBy == "agent" {
		e.Sandbox = a.settings.word("sandbox", "")
	}
	e.ApprovalPolicy = a.settings.word("approval_policy", sessions.ApprovalOnRequest) // which is all that the protocol has
	return e
}

// settingsReported is called after the agent reported a change of its settings by itself. A confirmed selection that
// no longer holds is told, and stops further prompts until the agent agrees again or a prompt selects anew.
func (a *Agent) settingsReported() {
	s := &a.settings
	if s.choosing || a.phase != phaseOpen {
		return
	}
	e, d := a.evidence(), s.drift()
	if now := s.summary(); now == s.said {
		return
	} else {
		s.said = now
	}
	both := &sessions.Selections{Asked: s.asked.Selection, Evidence: e}
	changed := sessions.Event{Kind: sessions.EventSelectionChanged, Selection: both}
	if a.turn != nil {
		changed.Command = a.turn.command
	}
	if len(d) == 0 {
		a.emit(changed)
		return
	}
	changed.Data = map[string]any{"differences": d}
	a.emit(changed)
	a.emit(sessions.Event{Kind: sessions.EventWarning, Command: changed.Command, Code: sessions.CodeSelectionUnconfirmed,
		Text: fmt.Sprintf("%s %q was confirmed, and the agent now reports %q", d[0].Name, d[0].Asked, d[0].Reported),
		Data: changed.Data})
	for _, x := range d {
		switch x.Name {
		case "mode":
			if !a.turnMayLeave(x.Asked) {
				a.left(x)
			}
		case "sandbox", "approval_policy":
			a.left(x)
		}
	}
}

// turnMayLeave tells whether the running turn may leave a mode: the user approved just that, as the plan's end.
func (a *Agent) turnMayLeave(mode string) bool {
	return a.turn != nil && a.turn.approved || mode == "default"
}

// left ends a turn that left what it was to stay in. Claude and OpenCode change the mode by themselves.
func (a *Agent) left(d sessions.Difference) {
	if a.turn == nil || a.turn.cancelled {
		return
	}
	why := fmt.Sprintf("the agent left %s %s for %s by itself", strings.ReplaceAll(d.Name, "_", " "), d.Asked, d.Reported)
	if err := a.cancelTurn(context.Background(), why); err != nil {
		a.log.Warn().Err(err).Msg("cancel after a change of mode")
	}
}

// summary is what an event of the settings would say.
func (s *settings) summary() string {
	e := s.evidence()
	return fmt.Sprintf("%q %q %q %q", e.Model, e.Effort, e.Mode, s.drift())
}
