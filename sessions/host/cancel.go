package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// cancelPatience is how long cancel waits to tell how the command ended.
const cancelPatience = 20 * time.Second

// Cancel ends one command. What it cancels is resolved once and journalled; a repetition under the same key replays that.
func (h *Host) Cancel(ctx context.Context, who sessions.Caller, a sessions.CancelArgs) (sessions.CancelResult, error) {
	if err := named(who); err != nil {
		return sessions.CancelResult{}, err
	}
	if err := sessions.CheckUUID("session_id", a.SessionID); err != nil {
		return sessions.CancelResult{}, err
	}
	if a.CommandID != "" {
		if err := sessions.CheckName("command_id", a.CommandID); err != nil {
			return sessions.CancelResult{}, err
		}
	}
	if err := checkKey(a.Key); err != nil {
		return sessions.CancelResult{}, err
	}
	mean := meaning("cancel", a)
	var was cancelled
	var before bool
	err := h.update(ctx, func(tx *journal.Tx, c *changes) (err error) {
		was, before, err = h.cancelOnce(tx, c, who, a, mean)
		return err
	})
	if err != nil {
		return sessions.CancelResult{}, err
	}
	res := sessions.CancelResult{Fenced: was.Fenced}
	if was.Command == "" && !was.Own {
		return res, nil
	}
	v, _, err := h.await(ctx, who.Principal, a.SessionID, cancelPatience, func(tx *journal.Tx, v *sessions.Session) (bool, error) {
		if was.Own {
			return before || v.State != sessions.SessionRunning || v.Running != nil, nil
		}
		cmd, found, err := tx.FindCommand(a.SessionID, was.Command)
		if err != nil || !found {
			return true, err
		}
		res.Command = &cmd.Command
		return cmd.State.Settled(), nil
	})
	res.Session = &v
	return res, err
}

// cancelled is what a cancel resolved to.
type cancelled struct {
	Command string `json:"command,omitempty"`
	Fenced  bool   `json:"fenced,omitempty"`
	Own     bool   `json:"own,omitempty"` // a turn that the agent began by itself
}

// cancelOnce does what a cancel asks for, or finds what it came to before.
func (h *Host) cancelOnce(tx *journal.Tx, c *changes, who sessions.Caller, a sessions.CancelArgs, mean string) (was cancelled, before bool, err error) {
	op, found, err := replay(tx, who, a.Key, "cancel", mean)
	if err != nil {
		return was, false, err
	}
	if found {
		err = json.Unmarshal(op.Result, &was)
		return was, true, err
	}
	if was, err = h.cancelIn(tx, c, who, a); err != nil || a.Key == "" {
		return was, false, err
	}
	result, err := json.Marshal(was)
	if err != nil {
		return was, false, err
	}
	return was, false, tx.PutOperation(journal.Operation{Principal: who.Principal, Key: a.Key, Verb: "cancel", Scope: a.SessionID, Meaning: mean, State: "done", Result: result})
}

func (h *Host) cancelIn(tx *journal.Tx, c *changes, who sessions.Caller, a sessions.CancelArgs) (was cancelled, err error) {
	_, found, err := tx.FindSession(a.SessionID)
	if err != nil {
		return was, err
	}
	if !found { // a reservation that does not exist yet can never launch
		_, err := tx.PutFence(who.Principal, "session", "", a.SessionID)
		return cancelled{Fenced: true}, err
	}
	s, err := tx.GetSession(who.Principal, a.SessionID)
	if err != nil {
		return was, err
	}
	if err := guard(s, a.Guard); err != nil {
		return was, err
	}
	target := a.CommandID
	if target == "" {
		running, found, err := tx.RunningCommand(s.ID)
		switch {
		case err != nil:
			return was, err
		case !found && s.State == sessions.SessionRunning:
			if err := h.unserved(s.ID); err != nil {
				return was, err
			}
			return cancelled{Own: true}, cancelOwn(tx, c, s)
		case !found:
			return was, sessions.Errorf(sessions.CodeNotRunning, "session %s has no running command", s.ID).Do("name the command_id to cancel or to forbid")
		}
		target = running.CommandID
	}
	cmd, found, err := tx.FindCommand(s.ID, target)
	if err != nil {
		return was, err
	}
	if !found {
		if _, err := uuid.Parse(target); err != nil {
			return was, sessions.Errorf(sessions.CodeNotFound, "session %s has no command %.80q, and only a UUID can be forbidden in advance", s.ID, target).Do("check the command_id")
		}
		_, err := tx.PutFence(who.Principal, "command", s.ID, target)
		return cancelled{Command: target, Fenced: true}, err
	}
	return cancelled{Command: target}, h.cancelCommand(tx, c, s, cmd, "cancelled")
}

// cancelOwn writes the intent to end the turn that the agent began by itself: no command names it, so the session does.
func cancelOwn(tx *journal.Tx, c *changes, s journal.Session) error {
	if _, err := tx.AppendInput(s.Generation, string(bridge.InCancel), s.ID, bridge.CancelInput{Reason: "cancelled"}); err != nil {
		return err
	}
	c.touch(s.ID, false)
	c.kick = append(c.kick, s.ID)
	return nil
}

// cancelCommand writes the intent to end a command, once. Of a command that has ended nothing is touched.
func (h *Host) cancelCommand(tx *journal.Tx, c *changes, s journal.Session, cmd journal.Command, reason string) error {
	ap := applier{h: h, session: s.ID, generation: s.Generation}
	switch cmd.State {
	case sessions.CommandQueued:
		if _, err := tx.MoveCommand(s.ID, cmd.CommandID, sessions.CommandCancelQueued, func(k *journal.Command) {
			k.CancelAsked, k.Outcome, k.Reason = true, "cancelled", "it was cancelled before any agent saw it"
		}); err != nil {
			return err
		}
		ap.add(sessions.Event{Kind: sessions.EventCommandSettled, At: tx.Now(), Command: cmd.CommandID,
			Settled: &sessions.Settlement{Command: cmd.CommandID, State: sessions.CommandCancelled, Outcome: "cancelled"}})
		return ap.flush(tx, c)
	case sessions.CommandSubmitted, sessions.CommandAccepted:
		if cmd.CancelAsked {
			return nil
		}
		if err := h.unserved(s.ID); err != nil {
			return err
		}
		if _, err := tx.UpdateCommand(s.ID, cmd.CommandID, func(k *journal.Command) { k.CancelAsked = true }); err != nil {
			return err
		}
		names := cmd.CommandID
		if cmd.Steer != "" {
			names = cmd.Steer // what it steers is the turn that ends
		}
		if _, err := tx.AppendInput(s.Generation, string(bridge.InCancel), cmd.CommandID, bridge.CancelInput{Command: names, Reason: reason}); err != nil {
			return err
		}
		c.touch(s.ID, false)
		c.kick = append(c.kick, s.ID)
	}
	return nil
}
