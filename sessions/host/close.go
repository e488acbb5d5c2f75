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
		if code := sessions.CodeOf(err); code == sessions.CodeStorageFull || code == sessions.CodeStorageFailed {
			return h.closeUnwritten(ctx, who, a, err)
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

// closeIn writes the intent to stop. What is queued is cancelled; a session that has ended is left alone.
func (h *Host) closeIn(tx *journal.Tx, c *changes, s journal.Session) error {
	switch s.State {
	case sessions.SessionStarting, sessions.SessionIdle, sessions.SessionRunning:
	default:
		return nil
	}
	queued, err := tx.QueuedCommands(s.ID)
	if err != nil {
		return err
	}
	for _, q := range queued {
		if err := h.cancelCommand(tx, c, s, q, "closed"); err != nil {
			return err
		}
	}
	if _, err := tx.MoveSession(s.ID, sessions.SessionClose); err != nil {
		return err
	}
	if _, err := tx.AppendInput(s.Generation, string(bridge.InClose), s.ID, bridge.CloseInput{Reason: "closed"}); err != nil {
		return err
	}
	c.touch(s.ID, true)
	c.kick = append(c.kick, s.ID)
	return nil
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

// closeUnwritten stops a session whose close could not be journalled.
func (h *Host) closeUnwritten(ctx context.Context, who sessions.Caller, a sessions.CloseArgs, cause error) (sessions.CloseResult, error) {
	v, err := h.view(ctx, who.Principal, a.SessionID)
	if err != nil {
		return sessions.CloseResult{}, cause
	}
	h.mu.Lock()
	t := h.tenders[a.SessionID]
	h.mu.Unlock()
	if t == nil || t.process() == nil {
		return sessions.CloseResult{}, cause
	}
	verdict := t.process().Stop(ctx)
	return sessions.CloseResult{Session: v, Stopped: string(verdict.State),
		Proof: proofOf(verdict) + "; the journal could not be written (" + cause.Error() + ")"}, nil
}
