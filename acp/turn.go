package acp

import (
	"context"

	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// turn is the one prompt in flight.
type turn struct {
	command   string
	call      *wire.Call
	accepted  bool
	cancelled bool   // by us
	why       string // it was cancelled, where no caller asked
	declined  bool   // a request of it was denied
	approved  bool   // its plan, or its leaving of a mode, was approved
	feeds     map[string]*feed
	said      string // the last whole text
}

// prompt is Prompt, on the loop. Never two prompts are in flight: agents queue the second, cancel or fail the first,
// or never answer (six agents, all different).
func (a *Agent) prompt(ctx context.Context, p sessions.Prompt, blocks []block, reply func(error)) {
	if err := a.mayPrompt(p); err != nil {
		reply(notWritten(err))
		return
	}
	if err := a.reselect(ctx, p); err != nil {
		reply(notWritten(err))
		return
	}
	call, err := a.conn.Call(context.WithoutCancel(ctx), methodPrompt, promptParams{a.session, blocks})
	if err != nil {
		reply(err)
		return
	}
	a.turns++
	a.turn = &turn{command: p.CommandID, call: call, feeds: map[string]*feed{}}
	reply(nil)
	a.endTerminals()
	a.endLate()
	a.last = p.CommandID
	a.emit(sessions.Event{Kind: sessions.EventTurnStarted, Command: p.CommandID})
}

// mayPrompt refuses a prompt for which nothing needs to be asked of the agent.
func (a *Agent) mayPrompt(p sessions.Prompt) error {
	switch {
	case p.Steer != "":
		return sessions.Errorf(sessions.CodeUnsupported, "ACP version 1 cannot steer a running turn").
			Do("wait for the end of the turn, or cancel it")
	case a.phase != phaseOpen:
		return sessions.Errorf(sessions.CodeNotRunning, "the conversation is not open").Do("resume the session")
	case a.turn != nil:
		return sessions.Errorf(sessions.CodeBusy, "command %s is running", a.turn.command).Do("wait for its end, or cancel it")
	case a.prepared != "":
		return sessions.Errorf(sessions.CodeBusy, "command %s is about to run", a.prepared).Do("wait for its end, or cancel it")
	case len(p.Images) > 0 && !a.initial.AgentCapabilities.PromptCapabilities.Image:
		return sessions.Errorf(sessions.CodeUnsupported, "this agent takes no images").Do("leave the images out")
	}
	return nil
}

// reselect applies the selections of a prompt and sees that all earlier ones still hold.
func (a *Agent) reselect(ctx context.Context, p sessions.Prompt) error {
	s := &a.settings
	next := s.asked
	if p.Model != "" {
		next.Model = p.Model
		if p.Effort == "" && a.effortOf(p.Model) != "" {
			next.Effort = "" // the new name carries its own
		}
	}
	if p.Effort != "" {
		next.Effort = p.Effort
	}
	if p.Mode != "" {
		next.Mode = p.Mode
	}
	if p.Model+p.Effort+p.Mode != "" {
		a.prepared, a.fenced = p.CommandID, false
		err := a.choose(ctx, next, len(s.unsettled) > 0)
		a.prepared = ""
		if err != nil {
			a.settingsReported()
			return err
		}
		if now := s.summary(); now != s.said {
			s.said = now
			a.emit(sessions.Event{Kind: sessions.EventSelectionConfirm, Command: p.CommandID,
				Selection: &sessions.Selections{Asked: s.asked.Selection, Evidence: a.evidence()}})
		}
		if a.fenced {
			return sessions.Errorf(sessions.CodeFenced, "command %s was cancelled before it was sent", p.CommandID)
		}
	}
	switch {
	case a.phase != phaseOpen:
		return sessions.Errorf(sessions.CodeNotRunning, "the session was closed before the prompt was sent")
	case len(s.unsettled) > 0:
		left := slices.Sorted(maps.Keys(s.unsettled))
		return sessions.Errorf(sessions.CodeSelectionUnconfirmed, "an earlier change of %s broke off half way", list(left)).
			Do("name %s with the next prompt, or resume the session", list(left))
	}
	return sessions.UnconfirmedError(s.drift())
}

// accept records the first proof that the agent took the prompt.
func (a *Agent) accept(evidence string) {
	if a.turn == nil || a.turn.accepted {
		return
	}
	a.turn.accepted = true
	a.emit(sessions.Event{Kind: sessions.EventCommandAccepted, Command: a.turn.command, Data: map[string]any{"evidence": evidence}})
}

// ofPast tells whether a tool belongs to an earlier turn and not to this one.
func (t *turn) ofPast(a *Agent, tool string) bool {
	if tool == "" || t.feeds[""] != nil && t.feeds[""].tools[tool] != nil {
		return false
	}
	_, old := a.past.tools.get(tool)
	return old
}

// promptAnswered ends the turn as the agent's answer says.
func (a *Agent) promptAnswered(m wire.Message) {
	t := a.turn
	a.accept("response")
	if m.Err != nil {
		a.endTurn(a.failure(t, m.Err))
		return
	}
	var r promptResult
	if err := decode(m.Result, &r); err != nil {
		r.StopReason = ""
	}
	if u := r.Usage; u != nil {
		a.emit(sessions.Event{Kind: sessions.EventUsage, Command: t.command, Usage: &sessions.Usage{
			Input: u.Input, Cached: u.CacheRead, Output: u.Output, Reasoning: u.Thought, Total: u.Total}})
	}
	a.endTurn(t.outcome(r.StopReason, a.o.Redact))
}

// outcome is what a stop reason means for the command.
func (t *turn) outcome(stop string, hide sessions.Redactor) sessions.Settlement {
	s := sessions.Settlement{Command: t.command, State: sessions.CommandFailed, Outcome: stop}
	switch stop {
	case "end_turn": // also after our cancel: OpenCode ends a turn that it had as good as finished so
		s.State = sessions.CommandCompleted
	case "cancelled":
		switch {
		case t.cancelled:
			s.State, s.Reason = sessions.CommandInterrupted, t.why
		case t.declined: // codex-acp (2.6.0) and zed's (0.16.0) end the turn so when an approval is rejected
			s.Outcome, s.Reason = "cancelled_by_agent", "the agent gave up the turn after a request of it was denied"
		default:
			s.Outcome, s.Reason = "cancelled_by_agent", "the agent cancelled the turn, nobody asked for it"
		}
	case "max_tokens":
		s.Reason = "the turn reached the limit of tokens"
	case "max_turn_requests":
		s.Reason = "the turn reached the limit of requests to the model"
	case "refusal":
		s.Reason = "the agent refused to go on"
	case "":
		s.Outcome, s.Reason = "no_stop_reason", "the agent ended the turn without saying how"
	default:
		s.Outcome = hide.Redact(stop) // as an outcome it would be left as it is
		s.Reason = "the agent ended the turn with a reason that is not known: " + s.Outcome
	}
	return s
}

// failure is what an error in place of the result means.
func (a *Agent) failure(t *turn, e *wire.ResponseError) sessions.Settlement {
	s := sessions.Settlement{Command: t.command, State: sessions.CommandFailed, Outcome: strconv.FormatInt(e.Code, 10)}
	s.Reason = fmt.Sprintf("the agent answered the prompt with error %d: %s", e.Code, e.Message)
	if text := errorText(e); text != e.Message {
		s.Reason += ": " + text
	}
	event := sessions.Event{Kind: sessions.EventError, Command: t.command, Code: sessions.CodeAgentProtocol,
		Data: map[string]any{"code": e.Code}, Raw: kept(e.Data)}
	switch {
	case t.cancelled && (e.Code == codeCancelled || e.Code == wire.CodeInternalError):
		// An aborted request surfaces as one of the two in the official SDK.
		s.State, s.Outcome = sessions.CommandInterrupted, "cancelled"
		if t.why != "" {
			s.Reason = t.why + "; " + s.Reason
		}
		return s
	case a.mustLogIn(e):
		s.Outcome = string(sessions.CodeNotLoggedIn)
		s.Reason += "; " + a.login()
		event.Code = sessions.CodeNotLoggedIn
	}
	event.Text = s.Reason
	a.emit(event)
	return s
}

// softFailures begin texts with which agents report, as an ordinary answer and end_turn, that the turn did not happen.
// The protocol has no other trace of them. Seen with Cursor 2026.04.15 (a model that the account cannot use, though it
// was confirmed) to 2026.08.
var softFailures = []string{
	"Error: I: AI Model Not Found", "Upgrade your plan", "Error: RetriableError", "Error: T: [internal]",
	"Error: [internal]", "Error: ERROR_",
}

// softFailure is the line with which a turn that ended well says that it did not.
func softFailure(text string, hide sessions.Redactor) string {
	text = strings.TrimSpace(text)
	for _, begin := range softFailures {
		if strings.HasPrefix(text, begin) {
			line, _, _ := strings.Cut(text, "\n")
			return told(line, 300, hide)
		}
	}
	return ""
}

// endTurn is the only way out of a turn while the link lives.
func (a *Agent) endTurn(s sessions.Settlement) {
	t := a.turn
	a.finishTurn("unfinished")
	if soft := softFailure(t.said, a.o.Redact); soft != "" && s.State == sessions.CommandCompleted {
		s.Reason = "the agent ended the turn with: " + soft
		a.emit(sessions.Event{Kind: sessions.EventWarning, Command: t.command, Text: s.Reason,
			Data: map[string]any{"soft_failure": soft}})
	}
	a.emit(sessions.Event{Kind: sessions.EventTurnCompleted, Command: t.command, Settled: &s})
	a.emit(sessions.Event{Kind: sessions.EventCommandSettled, Command: t.command, Settled: &s})
}

// finishTurn closes what is open of the turn and leaves the agent free for the next one.
func (a *Agent) finishTurn(open string) {
	t := a.turn
	if t.cancelled {
		open = "cancelled"
	}
	a.withdrawAll("its turn has ended")
	a.stopTerminals()
	a.settleFiles()
	for _, f := range t.sorted() {
		f.finish(open)
		a.past.keep(f)
	}
	a.turn, a.grace = nil, nil
}

// linkEnded closes what is open. The bridge settles the command.
func (a *Agent) linkEnded() {
	a.endLate()
	if t := a.turn; t != nil {
		for _, f := range t.sorted() {
			f.lost = true
			f.finish("unfinished")
		}
		a.turn = nil
	}
}

// cancel is Cancel, on the loop.
func (a *Agent) cancel(ctx context.Context, command string) error {
	switch {
	case a.turn != nil && a.turn.command == command:
		return a.cancelTurn(ctx, "")
	case a.prepared != "" && a.prepared == command:
		a.fenced = true
	}
	return nil
}

// cancelTurn asks for the end of the turn once. session/cancel is a notification: as a request Cursor drops it and
// six agents refuse it. Whatever the agent waits for is answered, too, because some end the turn only then.
func (a *Agent) cancelTurn(ctx context.Context, why string) error {
	if a.turn.cancelled {
		return nil
	}
	a.turn.cancelled, a.turn.why = true, why
	a.grace = time.After(a.o.CancelGrace)
	err := a.conn.Notify(context.WithoutCancel(ctx), methodCancel, sessionID{a.session})
	a.withdrawAll("its turn was cancelled")
	a.stopTerminals()
	return err
}

// graceOver gives up a turn that did not end after its cancel, and the link with it: an answer that came later would be
// of a turn that nobody knows any more.
func (a *Agent) graceOver() {
	a.grace = nil
	if a.turn == nil {
		return
	}
	s := sessions.Settlement{Command: a.turn.command, State: sessions.CommandCancelUnconfirmed, Outcome: "cancel_ignored",
		Reason: fmt.Sprintf("the agent did not end the turn within %s of its cancel", a.o.CancelGrace)}
	a.endTurn(s)
	a.err = sessions.Errorf(sessions.CodeTimeout, "the agent did not end command %s within %s of its cancel", s.Command, a.o.CancelGrace).
		Do("resume the session")
	a.over = true
	a.conn.Close()
}
