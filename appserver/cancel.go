package appserver

import (
	"context"
	"encoding/json"

	"github.com/batonmcp/baton/sessions"
)

// cancelling is a cancel that is under way. Its presence on a turn is the fence: whatever Codex still says of the turn,
// it is interrupted.
type cancelling struct {
	grace     *alarm
	reconcile *alarm
	retried   bool // with the id that Codex named
}

// Cancel asks Codex to end the turn of a command. "" names a turn that Codex began by itself.
func (a *Agent) Cancel(ctx context.Context, command string) error {
	var sent error
	err := a.do(ctx, func() { sent = a.cancel(command) })
	if err == nil {
		err = sent
	}
	return err
}

func (a *Agent) cancel(command string) error {
	t := a.turn
	if command == "" {
		t = a.foreign
	}
	if !t.has(command) || t.phase == ended || t.cancel != nil {
		return nil // ended, or asked for already
	}
	if t.phase == preparing {
		a.drop(t, notWritten(sessions.Errorf(sessions.CodeFenced, "command %s was cancelled before it was sent", command).Do("send a new command")))
		return nil
	}
	t.cancel = &cancelling{}
	t.cancel.grace = a.alarms.after(a.o.CancelGrace, func() { a.cancelIgnored(t) })
	sent := a.interrupt(t)
	for _, s := range a.activeSubs() {
		a.interruptSub(s)
	}
	for _, r := range a.openRequests() {
		a.closeRequest(r, "the turn is being cancelled")
	}
	return sent
}

// interrupt sends turn/interrupt. Between the answer to turn/start and turn/started Codex refuses the turn's own id
// ("no active turn") and runs the turn all the same (0.144.6 to 0.171.0, 10-14 of 15 tries). An empty id stops whatever
// is active or about to be, at any time and in every version; the thread is ours alone, so that can only be this turn.
func (a *Agent) interrupt(t *turn) error {
	id := ""
	if t.started {
		id = t.id
	}
	// Detached: a cancel that was decided is sent, whether or not its caller still waits.
	return a.call(context.WithoutCancel(a.life), "turn/interrupt", turnInterruptParams{ThreadID: a.root, TurnID: id},
		func(_ json.RawMessage, err error) { a.interruptAnswered(t, id, err) })
}

func (a *Agent) interruptAnswered(t *turn, id string, err error) {
	if a.life.Err() != nil || t.phase == ended || err == nil {
		return // the end comes as turn/completed; the grace watches over it
	}
	switch other := otherTurn(err); {
	case other != "" && other != t.id && !t.cancel.retried:
		t.cancel.retried = true
		a.adopt(t, other)
	case other != "" || noActiveTurn(err):
		if !t.started || id == "" {
			return // not cancelled: turn/started will send the next one
		}
		a.reconcileSoon(t)
	default:
		a.warn(sessions.Event{Command: t.command, Turn: t.id}, "Codex did not take the cancel: %s", err)
	}
}

// adopt retries with the turn that Codex says is active, after its record has shown that it holds our command.
func (a *Agent) adopt(t *turn, other string) {
	a.spawn(func(ctx context.Context) {
		ours, err := a.turnHolds(ctx, other, t.command)
		_ = a.do(ctx, func() {
			switch {
			case t.phase == ended:
			case err == nil && ours:
				t.id, t.started = other, true
				_ = a.interrupt(t) // a write that fails has ended the link
			default:
				a.reconcileSoon(t)
			}
		})
	})
}

// reconcileSoon reads from the record how a turn ended that Codex says is not active. Its turn/completed may be on its
// way, so it gets a moment.
func (a *Agent) reconcileSoon(t *turn) {
	if t.cancel.reconcile != nil {
		return
	}
	t.cancel.reconcile = a.alarms.after(a.o.ReconcileAfter, func() {
		if t.phase == ended {
			return
		}
		a.spawn(func(ctx context.Context) {
			record, err := a.turnRecord(ctx, t.id)
			_ = a.do(ctx, func() { a.reconciled(t, record, err) })
		})
	})
}

func (a *Agent) reconciled(t *turn, record *wireTurn, err error) {
	if t.phase == ended {
		return
	}
	if err == nil && record != nil && record.Status != "inProgress" {
		a.turnEnded(t, *record, byRecord)
		return
	}
	if record == nil {
		// Codex runs no such turn and has no record of it either: it is over, and how is not known.
		s := sessions.Settlement{State: sessions.CommandCancelUnconfirmed, Outcome: "ended_unknown",
			Reason: "Codex says that the turn is not running, but never told how it ended"}
		a.over(t, s)
		a.clean(t, s)
	}
	// Else it is still running: the grace decides.
}

// cancelIgnored is the end of the grace.
func (a *Agent) cancelIgnored(t *turn) {
	s := sessions.Settlement{State: sessions.CommandCancelUnconfirmed, Outcome: "cancel_ignored",
		Reason: "Codex did not end the turn within " + a.o.CancelGrace.String() + " of being asked to"}
	if t.phase == ended {
		if t.cleaning == nil {
			return
		}
		if len(a.activeSubs()) == 0 { // only answers are missing; what is left of processes is the bridge's to find
			a.settle(t, t.cleaning.settlement)
			return
		}
		s.Outcome = "subagents_running"
		s.Reason = "Codex ended the turn, but not its sub-agents within " + a.o.CancelGrace.String()
	}
	a.settle(t, s)
	a.fail(sessions.Errorf(sessions.CodeTimeout, "%s", s.Reason).Do("resume the session"))
}

// cleaning is what goes on between the end of an interrupted turn and the word that its command is interrupted.
type cleaning struct {
	settlement sessions.Settlement
	open       int // calls without an answer
}

// clean stops what an interrupted turn leaves running: its shell commands live on as background terminals, its
// sub-agents go on working, and a goal begins the next turn.
func (a *Agent) clean(t *turn, s sessions.Settlement) {
	t.phase = ended
	t.cleaning = &cleaning{settlement: s}
	if t.cancel == nil { // Codex ended it by itself, by an answer that says so
		t.cancel = &cancelling{grace: a.alarms.after(a.o.CancelGrace, func() { a.cancelIgnored(t) })}
	}
	threads := []string{a.root}
	for _, sub := range a.activeSubs() {
		a.interruptSub(sub)
	}
	for _, sub := range a.subs {
		threads = append(threads, sub.thread)
	}
	for _, thread := range threads {
		a.cleanCall(t, "thread/backgroundTerminals/clean", threadID{thread})
	}
	if a.goal == goalActive {
		a.cleanCall(t, "thread/goal/set", goalParams{a.root, goalPaused})
		a.warn(sessions.Event{Command: t.command, Turn: t.id}, "the thread's goal is paused, or it would begin the next turn by itself")
	}
	a.cleaned()
}

func (a *Agent) cleanCall(t *turn, method string, params any) {
	err := a.call(context.WithoutCancel(a.life), method, params, func(_ json.RawMessage, err error) {
		if err != nil { // older versions lack the method; then nothing but the bridge's own census can tell
			a.o.Logger.Debug().Err(err).Str("method", method).Msg("after an interrupt")
		}
		t.cleaning.open--
		if a.life.Err() == nil {
			a.cleaned()
		}
	})
	if err == nil {
		t.cleaning.open++
	}
}

// cleaned settles a turn whose remains are gone.
func (a *Agent) cleaned() {
	for _, t := range []*turn{a.turn, a.foreign} {
		if t != nil && t.cleaning != nil && t.cleaning.open == 0 && len(a.activeSubs()) == 0 {
			a.settle(t, t.cleaning.settlement)
		}
	}
}
