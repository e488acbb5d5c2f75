package host

import (
	"errors"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// usage keeps what a command has used so far, and as the session's what its latest turn has. An agent reports the window
// and the tokens apart, so that a count that a report leaves out stands.
func (a *applier) usage(tx *journal.Tx, e sessions.Event) error {
	used := *e.Usage
	_, found, err := tx.FindCommand(a.session, e.Command)
	if err != nil {
		return err
	}
	if found {
		if _, err := tx.UpdateCommand(a.session, e.Command, func(cmd *journal.Command) {
			if cmd.Usage != nil {
				used = over(*cmd.Usage, used)
			}
			cmd.Usage = &used
		}); err != nil {
			return err
		}
	}
	_, err = tx.UpdateSession(a.session, func(s *journal.Session) { s.Usage = &used })
	return err
}

// over is a later report of the same turn laid over an earlier one.
func over(was, now sessions.Usage) sessions.Usage {
	for _, f := range []struct{ was, now *int64 }{{&was.Input, &now.Input}, {&was.Cached, &now.Cached}, {&was.Output, &now.Output},
		{&was.Reasoning, &now.Reasoning}, {&was.Total, &now.Total}, {&was.Window, &now.Window}} {
		if *f.now == 0 {
			*f.now = *f.was
		}
	}
	if now.Cost == 0 {
		now.Cost = was.Cost
	}
	return now
}

var settling = map[sessions.CommandState]sessions.CommandEvent{
	sessions.CommandCompleted:         sessions.CommandComplete,
	sessions.CommandFailed:            sessions.CommandFail,
	sessions.CommandInterrupted:       sessions.CommandInterrupt,
	sessions.CommandCancelUnconfirmed: sessions.CommandInterruptUnproven,
	sessions.CommandUnknown:           sessions.CommandLost,
}

// settle moves a command to its end, and lets the queue go on where it may. What steered it has an end of its own: it may
// not have reached the agent at all.
func (a *applier) settle(tx *journal.Tx, c *changes, s sessions.Settlement, e sessions.Event) error {
	cmd, found, err := tx.FindCommand(a.session, s.Command)
	if err != nil {
		return err
	}
	if !found || cmd.State.Terminal() || (cmd.State == sessions.CommandUnknown && s.State == sessions.CommandUnknown) {
		return nil // settled before; the first outcome stands
	}
	if err := a.move(tx, s); err != nil {
		return err
	}
	if tookPlace(s) { // also where its acceptance was lost with the bridge, and the agent's record tells of it
		if err := a.ran(tx); err != nil {
			return err
		}
	}
	e.Settled = &s
	a.add(e)
	if s.Outcome == outcomeIgnored {
		// Its process is stopped now; until that is over the session must not look as if it waited for work.
		return a.fail(tx, c, sessions.Errorf(sessions.CodeAgentProtocol, "the agent did not end command %s after its cancel, so its process is being stopped", s.Command).
			Do("resume the session; nothing is sent again by itself"))
	}
	return a.free(tx, c, !a.holds && cmd.Steer == "" && goesOn(s.State))
}

// tookPlace tells whether a command that ended so was a turn for certain. What was cancelled or failed may have ended before
// it was one, unless the agent's record has it.
func tookPlace(s sessions.Settlement) bool {
	if s.By != "" {
		return s.By != journalNotDelivered && s.Outcome != outcomeNotDelivered && s.State != sessions.CommandUnknown
	}
	return s.State == sessions.CommandCompleted
}

// goesOn tells whether the queue goes on after a turn that ended so.
func goesOn(s sessions.CommandState) bool {
	return s == sessions.CommandCompleted || s == sessions.CommandFailed
}

func (a *applier) move(tx *journal.Tx, s sessions.Settlement) error {
	ev, ok := settling[s.State]
	if !ok {
		return &sessions.ImpossibleError{Machine: "command", State: "any", Event: string(s.State)}
	}
	if s.By == journalNotDelivered {
		ev = sessions.CommandNotDelivered
	}
	_, err := tx.MoveCommand(a.session, s.Command, ev, func(cmd *journal.Command) { cmd.Outcome, cmd.Reason = s.Outcome, s.Reason })
	var impossible *sessions.ImpossibleError
	if errors.As(err, &impossible) {
		return nil // reported by the journal; the first outcome stands
	}
	return err
}

// outcomeIgnored is how an adapter settles a command whose agent did not end it within the grace of a cancel.
const outcomeIgnored = "cancel_ignored"

// outcomeNotDelivered is how a command ends that no agent got to see.
const outcomeNotDelivered = "not_delivered"

// journalNotDelivered marks a settlement by the proof that no byte reached the agent.
const journalNotDelivered = "not delivered"
