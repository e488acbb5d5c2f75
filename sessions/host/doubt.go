package host

import (
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// doubt is a command whose caller was told that it was refused, while the commit that failed may have recorded it. When
// the journal is back it is made true: a recorded one ends as not delivered. Until then it is not given to the agent.
type doubt struct{ session, command string }

// doubted notes a refused send, when its record is in doubt.
func (h *Host) doubted(session, command string, err error) {
	if !trouble(err) || sessions.AsError(err).Details["recorded"] != "unknown" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubts[doubt{session, command}] = struct{}{}
}

func (h *Host) inDoubt(session, command string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, found := h.doubts[doubt{session, command}]
	return found
}

// settleDoubts ends the doubtful commands that turn out to be recorded.
func (h *Host) settleDoubts() error {
	h.mu.Lock()
	var list []doubt
	for d := range h.doubts {
		list = append(list, d)
	}
	h.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	if err := h.commit(h.life, func(tx *journal.Tx, c *changes) error {
		for _, d := range list {
			if err := d.settle(tx, c, h); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range list {
		delete(h.doubts, d)
	}
	return nil
}

func (d doubt) settle(tx *journal.Tx, c *changes, h *Host) error {
	cmd, found, err := tx.FindCommand(d.session, d.command)
	if err != nil || !found {
		return err
	}
	ap := applier{h: h, session: d.session, generation: cmd.Generation}
	const why = "the journal failed while it was recorded, and its caller was told that it was refused; nothing was sent"
	switch cmd.State {
	case sessions.CommandQueued:
		if _, err := tx.MoveCommand(d.session, d.command, sessions.CommandCancelQueued, func(k *journal.Command) {
			k.Outcome, k.Reason = "not_delivered", why
		}); err != nil {
			return err
		}
		ap.add(sessions.Event{Kind: sessions.EventCommandSettled, At: tx.Now(), Command: d.command,
			Settled: &sessions.Settlement{Command: d.command, State: sessions.CommandCancelled, Outcome: "not_delivered", Reason: why}})
	case sessions.CommandSubmitted:
		inputs, err := tx.InputsFor(cmd.Generation, d.command)
		if err != nil {
			return err
		}
		for _, in := range inputs {
			if in.Kind == string(bridge.InPrompt) {
				if err := tx.MarkInput(in.Generation, in.N, journal.InputRefused, why); err != nil {
					return err
				}
			}
		}
		if err := ap.settle(tx, c, sessions.Settlement{Command: d.command, State: sessions.CommandFailed, By: journalNotDelivered,
			Outcome: "not_delivered", Reason: why}, sessions.Event{Kind: sessions.EventCommandSettled, At: tx.Now(), Command: d.command}); err != nil {
			return err
		}
	}
	return ap.flush(tx, c)
}
