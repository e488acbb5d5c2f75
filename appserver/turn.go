package appserver

import (
	"encoding/json"
	"slices"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// phase is how far a turn of ours has come.
type phase int

const (
	preparing phase = iota // settings are being changed; nothing of the prompt has left
	submitted              // turn/start has left
	running                // Codex answered turn/start, or told of its start
	ended                  // Codex ended it; after a cancel its remains are still being cleaned up
)

// turn is one turn of our thread. Without a command it is one that Codex began by itself.
type turn struct {
	command  string
	id       string
	phase    phase
	started  bool // turn/started was seen
	accepted bool
	told     bool        // its start was
	steers   []*steering // commands that were written into it
	waiting  []func()    // for started, or the end
	reply    func(error) // Prompt waits for it; nil once it is answered
	cancel   *cancelling
	cleaning *cleaning
	settled  *sessions.Settlement
	over     string // the budget that ended it, as an outcome, and
	why      string // as a sentence
}

// has tells whether the turn belongs to a command, as its own or as one that steers it.
func (t *turn) has(command string) bool {
	return t != nil && (t.command == command || slices.ContainsFunc(t.steers, func(s *steering) bool { return s.command == command }))
}

func (a *Agent) startAnswered(t *turn, raw json.RawMessage, err error) {
	if a.life.Err() != nil || t.phase == ended {
		return
	}
	var r turnStartResult
	if err == nil {
		err = decode(raw, &r)
		if err == nil && r.Turn.ID == "" {
			err = sessions.Errorf(sessions.CodeAgentProtocol, "Codex named no turn for command %s", t.command)
		}
		if err != nil && t.phase != running {
			a.fail(sessions.AsError(err).Do("resume the session: what became of the command is read from the thread's record"))
			return
		}
	}
	switch r := refused(err); {
	case r != nil && t.phase == submitted: // nothing began
		a.settle(t, sessions.Settlement{State: sessions.CommandFailed, Outcome: startRefused(r), Reason: r.Error()})
		return
	case err != nil && t.phase == submitted:
		// Without an answer nobody knows whether the turn runs. A new process can read it from the record.
		a.fail(asError(err))
		return
	case err != nil:
		return // turn/started has told what the answer would have
	}
	a.bind(t, r.Turn.ID)
	if t.cancel != nil && !t.started {
		_ = a.interrupt(t) // before anything else, and again: the first may have come before there was a turn
	}
}

// startRefused is the outcome of a refused turn/start.
func startRefused(r *refusal) string {
	const overloaded = -32001 // "Server overloaded; retry later."
	if r.code == overloaded {
		return "server_overloaded"
	}
	return string(sessions.CodeAgentProtocol)
}

// bind gives a turn of ours its id: Codex has it.
func (a *Agent) bind(t *turn, id string) {
	t.phase = running
	if t.id != "" && t.id != id { // what started was none of ours, the answer names ours
		a.warn(sessions.Event{Command: t.command, Turn: id}, "turn %s was begun by Codex itself, command %s runs in turn %s", t.id, t.command, id)
		a.foreign, t.started = &turn{id: t.id, phase: running, started: true, told: true}, false
	}
	t.id = id
	a.accept(t)
	if t.started {
		a.wake(t)
	}
}

func (a *Agent) accept(t *turn) {
	if !t.accepted && t.command != "" {
		t.accepted = true
		a.emit(sessions.Event{Kind: sessions.EventCommandAccepted, Command: t.command, Turn: t.id})
	}
}

// wake runs what waited for the turn to have started, or to have ended.
func (a *Agent) wake(t *turn) {
	waiting := t.waiting
	t.waiting = nil
	for _, fn := range waiting {
		fn()
	}
}

// turnStarted takes turn/started.
func (a *Agent) turnStarted(raw json.RawMessage) error {
	n, err := decodeTurn(raw)
	if err != nil {
		return err
	}
	if !a.isRoot(n.ThreadID) {
		a.subStarted(n)
		return nil
	}
	t := a.turn
	switch {
	case a.past.has(n.Turn.ID): // told again
	case t != nil && t.phase == submitted, t != nil && t.phase == running && t.id == n.Turn.ID:
		t.started = true
		a.bind(t, n.Turn.ID)
		a.tellStarted(t)
		if t.cancel != nil {
			_ = a.interrupt(t) // a write that fails has ended the link
		}
	default:
		a.foreign = &turn{id: n.Turn.ID, phase: running, started: true}
		a.usage.begin()
		a.turnBegins()
		a.tellStarted(a.foreign)
		a.warn(sessions.Event{Turn: n.Turn.ID}, "Codex began a turn by itself (a goal or its own queue); no command can be sent until it ends")
		a.checkBudget()
	}
	return nil
}

// decodeTurn reads turn/started or turn/completed, but for the items, which can be long.
func decodeTurn(raw json.RawMessage) (n turnNote, err error) {
	if err = decode(wire.Without(raw, "turn"), &n); err == nil {
		err = decode(wire.Without(wire.Member(raw, "turn"), "items"), &n.Turn)
	}
	return n, err
}

// tellStarted says once that a turn runs.
func (a *Agent) tellStarted(t *turn) {
	if !t.told {
		t.told = true
		a.emit(sessions.Event{Kind: sessions.EventTurnStarted, Command: t.command, Turn: t.id})
	}
}

// turnCompleted takes turn/completed. One for a turn that has ended already changes nothing.
func (a *Agent) turnCompleted(raw json.RawMessage) error {
	n, err := decodeTurn(raw)
	if err != nil {
		return err
	}
	if !a.isRoot(n.ThreadID) {
		a.subEnded(n)
		return nil
	}
	switch t := a.turn; {
	case a.foreign != nil && a.foreign.phase == running && a.foreign.id == n.Turn.ID:
		a.turnEnded(a.foreign, n.Turn, "")
	case t != nil && t.phase == running && t.id == n.Turn.ID:
		a.turnEnded(t, n.Turn, "")
	case t != nil && t.phase == submitted && !a.past.has(n.Turn.ID):
		a.bind(t, n.Turn.ID) // it was over before its answer came
		a.turnEnded(t, n.Turn, "")
	default:
		a.o.Logger.Debug().Str("turn", n.Turn.ID).Msg("end of a turn that is not running")
	}
	return nil
}

// turnEnded is the end of a turn, by Codex's word or, when by says so, by its record.
func (a *Agent) turnEnded(t *turn, result wireTurn, by string) {
	s := t.exhausted(settlement(result, t.cancel != nil))
	s.By = by
	a.over(t, s)
	if s.Outcome == outcomeModelNotFound {
		a.modelMissing(t)
	}
	if t.cancel != nil || s.State == sessions.CommandInterrupted {
		a.clean(t, s)
		return
	}
	if n := len(a.activeSubs()); n > 0 {
		a.warn(sessions.Event{Command: t.command, Turn: t.id}, "the turn ended while %d of its sub-agents still work", n)
	}
	a.settle(t, s)
}

// over closes what goes with a turn and tells of its end. Its commands are settled later: what an interrupted turn
// leaves running is stopped first.
func (a *Agent) over(t *turn, s sessions.Settlement) {
	a.tellStarted(t)
	a.turnOver()
	t.phase = ended
	a.past.add(t.id, pastTurn{command: t.command, cancelled: t.cancel != nil})
	a.closeItems(a.root, t.id, s.State == sessions.CommandInterrupted)
	a.withdrawTurn(a.root, t.id, "the turn ended")
	s.Command = t.command
	a.emit(sessions.Event{Kind: sessions.EventTurnCompleted, Command: t.command, Turn: t.id, Settled: &s, Spent: a.budget.tell()})
	a.wake(t)
}

// settle says how a turn's commands ended, once.
func (a *Agent) settle(t *turn, s sessions.Settlement) {
	if t.phase != ended { // refused: it never ran
		a.turnOver()
	}
	t.phase = ended
	switch t {
	case a.turn:
		a.turn = nil
	case a.foreign:
		a.foreign = nil
	}
	if t.cancel != nil {
		t.cancel.grace.off()
		t.cancel.reconcile.off()
	}
	a.wake(t)
	t.settled = &s
	if t.command != "" {
		a.settleCommand(t, t.command)
	}
	for _, st := range t.steers {
		if st.answered { // the others wait for their answer, which may be a refusal
			a.settleCommand(t, st.command)
		}
	}
}

func (a *Agent) settleCommand(t *turn, command string) {
	own := *t.settled
	own.Command = command
	a.emit(sessions.Event{Kind: sessions.EventCommandSettled, Command: command, Turn: t.id, Settled: &own})
}
