package host

import (
	"slices"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// free makes a session idle when nothing runs any more, and sends the next of its queue when next says so.
func (a *applier) free(tx *journal.Tx, c *changes, next bool) error {
	_, busy, err := tx.RunningCommand(a.session)
	if err != nil || busy {
		return err
	}
	s, err := tx.GetSession("", a.session)
	if err != nil {
		return err
	}
	if s.State == sessions.SessionRunning {
		if _, err := tx.MoveSession(a.session, sessions.SessionFree); err != nil {
			return err
		}
		s.State = sessions.SessionIdle
	}
	c.touch(a.session, true)
	if !next || s.State != sessions.SessionIdle {
		return nil
	}
	return a.dispatch(tx, c)
}

// dispatch submits the oldest queued command of an idle session, those apart that wait to be let go.
func (a *applier) dispatch(tx *journal.Tx, c *changes) error {
	unknown, err := tx.UnknownCommands(a.session, false)
	if err != nil || len(unknown) > 0 {
		return err // the queue waits until somebody has looked
	}
	queued, err := tx.QueuedCommands(a.session)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(queued, func(q journal.Command) bool { return q.WhenBusy != heldInQueue })
	if i < 0 {
		return nil
	}
	q := queued[i]
	if _, err := tx.MoveCommand(a.session, q.CommandID, sessions.CommandSubmit, func(cmd *journal.Command) { cmd.Generation = a.generation }); err != nil {
		return err
	}
	if _, err := tx.MoveSession(a.session, sessions.SessionBusy); err != nil {
		return err
	}
	return a.submit(tx, c, q)
}

// heldInQueue marks, in place of what its caller chose for a busy session, a queued command that another one overtook while
// the queue was paused. It was not what its caller expected to follow, so that it waits until somebody asks for the queue.
const heldInQueue = "held"

// holdQueue marks what is queued now, and letGo takes the marks off.
func holdQueue(tx *journal.Tx, session string) error { return markQueue(tx, session, heldInQueue) }

func letGo(tx *journal.Tx, session string) error { return markQueue(tx, session, "queue") }

func markQueue(tx *journal.Tx, session, mark string) error {
	queued, err := tx.QueuedCommands(session)
	if err != nil {
		return err
	}
	for _, q := range queued {
		if q.WhenBusy == mark {
			continue
		}
		if _, err := tx.UpdateCommand(session, q.CommandID, func(cmd *journal.Command) { cmd.WhenBusy = mark }); err != nil {
			return err
		}
	}
	return nil
}

// submit writes the intent to give a command to the agent.
func (a *applier) submit(tx *journal.Tx, c *changes, q journal.Command) error {
	in := bridge.PromptInput{DeadlineSeconds: q.DeadlineSeconds, Prompt: sessions.Prompt{CommandID: q.CommandID, Text: q.Text, Images: q.Images,
		Steer: q.Steer, Model: q.Overrides.Model, Effort: q.Overrides.Effort, Mode: q.Overrides.Mode}}
	n, err := tx.AppendInput(a.generation, string(bridge.InPrompt), q.CommandID, in)
	if err != nil {
		return err
	}
	a.add(sessions.Event{Kind: sessions.EventCommandSubmitted, At: tx.Now(), Command: q.CommandID})
	c.touch(a.session, false)
	c.hand = append(c.hand, handed{session: a.session, generation: a.generation, n: uint64(n), prompt: in})
	return nil
}
