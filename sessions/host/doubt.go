package host

import (
	"maps"
	"slices"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// doubt is a command whose caller was told that it was refused, while the commit that failed may have recorded it. When
// the journal is back it is made true: a recorded one ends as not delivered, unless its caller has asked for it again by
// then and was told yes. Until either it is not given to the agent.
type doubt struct{ session, command string }

// doubted notes a refused send, when its record is in doubt.
func (h *Host) doubted(session, command string, err error) {
	if !trouble(err) || sessions.AsError(err).Details["recorded"] != "unknown" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubts[doubt{session, command}] = false
}

// askedAgain is called within a transaction that takes a command: if it was in doubt, it is no longer the recovery's to
// end. Whether the transaction became durable is told to answered.
func (h *Host) askedAgain(session, command string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, found := h.doubts[doubt{session, command}]; found {
		h.doubts[doubt{session, command}] = true
	}
}

// answered ends what askedAgain began: a command that is durable now goes to the agent, one that is not stays in doubt.
func (h *Host) answered(session, command string, durable bool) {
	h.mu.Lock()
	d := doubt{session, command}
	_, found := h.doubts[d]
	if found && durable {
		delete(h.doubts, d)
	} else if found {
		h.doubts[d] = false
	}
	h.mu.Unlock()
	if found && durable {
		h.kick(session)
	}
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
	list := slices.Collect(maps.Keys(h.doubts))
	h.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	var settled []doubt
	if err := h.commit(h.life, func(tx *journal.Tx, c *changes) error {
		settled = nil
		for _, d := range list {
			h.mu.Lock()
			again, found := h.doubts[d]
			h.mu.Unlock()
			if again || !found {
				continue
			}
			settled = append(settled, d)
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
	for _, d := range settled {
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
			k.Outcome, k.Reason = outcomeNotDelivered, why
		}); err != nil {
			return err
		}
		ap.add(sessions.Event{Kind: sessions.EventCommandSettled, At: tx.Now(), Command: d.command,
			Settled: &sessions.Settlement{Command: d.command, State: sessions.CommandCancelled, Outcome: outcomeNotDelivered, Reason: why}})
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
			Outcome: outcomeNotDelivered, Reason: why}, sessions.Event{Kind: sessions.EventCommandSettled, At: tx.Now(), Command: d.command}); err != nil {
			return err
		}
	}
	return ap.flush(tx, c)
}
