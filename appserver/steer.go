package appserver

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// steer writes a command into the running turn of another one. Right after its answer to turn/start Codex does not
// know the turn as active yet, so that a steer waits until it has started.
func (a *Agent) steer(ctx context.Context, p sessions.Prompt, reply func(error)) {
	t := a.turn
	switch {
	case p.Model != "" || p.Effort != "" || p.Mode != "":
		reply(notWritten(sessions.Errorf(sessions.CodeUnsupported, "a steering command cannot change model, effort or mode").Do("leave them out, or send the command when the session is idle")))
		return
	case !t.has(p.Steer) || t.phase == ended:
		reply(notWritten(notRunning(p.Steer)))
		return
	case a.budgetError() != nil:
		reply(notWritten(a.budgetError()))
		return
	case t.cancel != nil:
		reply(notWritten(sessions.Errorf(sessions.CodeNotRunning, "command %s is being cancelled", p.Steer).Do("wait for it to settle, then send")))
		return
	case !t.started:
		t.waiting = append(t.waiting, func() {
			switch {
			case a.life.Err() != nil:
				reply(notWritten(context.Cause(a.life)))
			case ctx.Err() != nil:
				reply(notWritten(context.Cause(ctx)))
			default:
				a.steer(ctx, p, reply)
			}
		})
		return
	}
	st := &steering{command: p.CommandID}
	params := turnSteerParams{turnStartParams: a.turnStart(p), ExpectedTurnID: t.id}
	err := a.call(ctx, "turn/steer", params, func(_ json.RawMessage, err error) { a.steerAnswered(t, st, err) })
	if err == nil {
		t.steers = append(t.steers, st)
	}
	reply(err)
}

// steering is a command that steers a turn of another one.
type steering struct {
	command  string
	answered bool // the turn has it
}

func notRunning(command string) *sessions.Error {
	return sessions.Errorf(sessions.CodeNotRunning, "command %s is not running", command).Do("send the command by itself")
}

// steerAnswered: a steer that the turn has settles with it, even when the turn has ended meanwhile. A refused one has
// changed nothing, and ends alone.
func (a *Agent) steerAnswered(t *turn, st *steering, err error) {
	if a.life.Err() != nil {
		return
	}
	switch r := refused(err); {
	case err == nil:
		st.answered = true
		a.emit(sessions.Event{Kind: sessions.EventCommandAccepted, Command: st.command, Turn: t.id})
		if t.settled != nil {
			a.settleCommand(t, st.command)
		}
	case r == nil:
		a.fail(asError(err)) // not told whether the turn has it
	default:
		t.steers = slices.DeleteFunc(t.steers, func(s *steering) bool { return s == st })
		outcome := string(sessions.CodeAgentProtocol)
		if noActiveTurn(err) || otherTurn(err) != "" {
			outcome = string(sessions.CodeNotRunning)
		}
		s := sessions.Settlement{Command: st.command, State: sessions.CommandFailed, Outcome: outcome, Reason: r.Error()}
		a.emit(sessions.Event{Kind: sessions.EventCommandSettled, Command: st.command, Turn: t.id, Settled: &s})
	}
}
