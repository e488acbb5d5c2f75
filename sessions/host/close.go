package host

import (
	"context"
	"time"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// closeLimit is how long a bridge may take to end its agent before the host kills both.
const closeLimit = 25 * time.Second

// Close ends a session's processes and tells whether their end is proven. It is never refused for want of storage.
func (h *Host) Close(ctx context.Context, who sessions.Caller, a sessions.CloseArgs) (sessions.CloseResult, error) {
	if err := sessions.CheckUUID("session_id", a.SessionID); err != nil {
		return sessions.CloseResult{}, err
	}
	wait, err := seconds(a.WaitSeconds, sessions.DefaultSlice)
	if err != nil {
		return sessions.CloseResult{}, err
	}
	mean := meaning("close", a)
	gone := false
	err = h.update(ctx, func(tx *journal.Tx, c *changes) error {
		if _, found, err := replay(tx, who, a.Key, "close", mean); err != nil {
			return err
		} else if found {
			if s, ok, err := tx.FindSession(a.SessionID); err != nil || ok && s.State == sessions.SessionDeleted {
				gone = true
				return err
			}
		}
		s, err := tx.GetSession(who.Principal, a.SessionID)
		if err != nil {
			return err
		}
		if err := guard(s, a.Guard); err != nil {
			return err
		}
		if err := h.closeIn(tx, c, s); err != nil || a.Key == "" {
			return err
		}
		return tx.PutOperation(journal.Operation{Principal: who.Principal, Key: a.Key, Verb: "close", Scope: s.ID, Meaning: mean, State: "done"})
	})
	if err != nil {
		if trouble(err) {
			return h.closeUnwritten(ctx, who, a, wait, err)
		}
		return sessions.CloseResult{}, err
	}
	if gone {
		return sessions.CloseResult{Session: sessions.Session{SessionID: a.SessionID, State: sessions.SessionDeleted}, Stopped: string(sandbox.Confirmed), Proof: "deleted before"}, nil
	}
	res, err := h.closed(ctx, who, a.SessionID, wait)
	if err != nil || !a.Delete || res.Session.State == sessions.SessionClosing {
		return res, err
	}
	err = h.update(ctx, func(tx *journal.Tx, c *changes) error {
		c.touch(a.SessionID, true)
		return tx.DeleteSession(a.SessionID)
	})
	if err == nil {
		select {
		case h.deleted <- struct{}{}:
		default:
		}
	}
	res.Session.State = sessions.SessionDeleted
	return res, err
}

// closeIn writes the intent to stop. A session that has ended is left alone.
func (h *Host) closeIn(tx *journal.Tx, c *changes, s journal.Session) error {
	moved, err := h.closing(tx, c, s)
	if err != nil || !moved {
		return err
	}
	if _, err := tx.AppendInput(s.Generation, string(bridge.InClose), s.ID, bridge.CloseInput{Reason: "closed"}); err != nil {
		return err
	}
	c.kick = append(c.kick, s.ID)
	return nil
}

// closing moves a live session towards its end and cancels what it has queued.
func (h *Host) closing(tx *journal.Tx, c *changes, s journal.Session) (moved bool, err error) {
	switch s.State {
	case sessions.SessionStarting, sessions.SessionIdle, sessions.SessionRunning:
	default:
		return false, nil
	}
	queued, err := tx.QueuedCommands(s.ID)
	if err != nil {
		return false, err
	}
	for _, q := range queued {
		if err := h.cancelCommand(tx, c, s, q, "closed"); err != nil {
			return false, err
		}
	}
	c.touch(s.ID, true)
	_, err = tx.MoveSession(s.ID, sessions.SessionClose)
	return true, err
}

// closed waits for the end of the last generation and gives its verdict.
func (h *Host) closed(ctx context.Context, who sessions.Caller, id string, wait time.Duration) (sessions.CloseResult, error) {
	var g journal.Generation
	v, done, err := h.await(ctx, who.Principal, id, wait, func(tx *journal.Tx, v *sessions.Session) (found bool, err error) {
		g, found, err = tx.LastGeneration(id)
		if err != nil || !found {
			return true, err
		}
		return !g.EndedAt.IsZero(), nil
	})
	res := sessions.CloseResult{Session: v, Stopped: string(sandbox.Unconfirmed), Proof: "the session is still being stopped; call session_close again"}
	if done && g.Verdict != "" {
		res.Stopped, res.Proof = g.Verdict, g.Proof
	}
	return res, err
}

// closeUnwritten stops a session whose close could not be journalled, because of cause. The journal gets the close, and
// what the agent said last, when it takes changes again.
func (h *Host) closeUnwritten(ctx context.Context, who sessions.Caller, a sessions.CloseArgs, wait time.Duration, cause error) (sessions.CloseResult, error) {
	h.mu.Lock()
	t := h.tenders[a.SessionID]
	owned := t != nil && (who.Principal == "" || t.owner == who.Principal)
	h.mu.Unlock()
	var v sessions.Session
	var g journal.Generation
	err := h.j.View(ctx, func(tx *journal.Tx) error {
		s, err := tx.GetSession(who.Principal, a.SessionID)
		if err != nil {
			return err
		}
		if err := guard(s, a.Guard); err != nil {
			return err
		}
		if v, err = viewOf(tx, s); err != nil {
			return err
		}
		g, _, err = tx.LastGeneration(s.ID)
		return err
	})
	switch {
	case trouble(err) && owned && a.Guard == (sessions.Guard{}): // nothing can be read, and it is stopped all the same
		v = sessions.Session{SessionID: a.SessionID, Principal: who.Principal, Requests: []sessions.Request{}, Queued: []sessions.Command{}}
	case err != nil:
		return sessions.CloseResult{}, err
	}
	res := sessions.CloseResult{Session: v, Stopped: g.Verdict, Proof: g.Proof}
	switch {
	case t == nil && g.EndedAt.IsZero():
		return sessions.CloseResult{}, cause
	case t == nil: // it ended before
	case t.stop(ctx, wait):
		h.mu.Lock()
		verdict := t.verdict
		h.mu.Unlock()
		res.Stopped, res.Proof = string(verdict.State), proofOf(verdict)
	default:
		res.Stopped, res.Proof = string(sandbox.Unconfirmed), "the session is still being stopped; call session_close again"
	}
	if t != nil {
		res.Session.State, res.Session.NeedsInput = sessions.SessionClosing, false
		res.Session.Recovery = "It is stopped without the journal's knowing, which gets to know it when it takes changes again: " + sessions.AsError(cause).Action + "."
		res.Proof += "; not journalled yet: " + sessions.AsError(cause).Message
	}
	if a.Delete {
		return res, sessions.AsError(cause).With("stopped", res.Stopped).With("proof", res.Proof)
	}
	return res, nil
}
