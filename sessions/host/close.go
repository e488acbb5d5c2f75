package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// closeLimit is how long a bridge may take to end its agent before the host kills both. The first close can still tell the
// proof: it waits a little longer (sessions.DefaultSlice).
const closeLimit = 20 * time.Second

// Close ends a session's processes and tells whether their end is proven. It is never refused for want of storage.
func (h *Host) Close(ctx context.Context, who sessions.Caller, a sessions.CloseArgs) (sessions.CloseResult, error) {
	if err := named(who); err != nil {
		return sessions.CloseResult{}, err
	}
	if err := sessions.CheckUUID("session_id", a.SessionID); err != nil {
		return sessions.CloseResult{}, err
	}
	wait, err := seconds(a.WaitSeconds, sessions.DefaultSlice)
	if err != nil {
		return sessions.CloseResult{}, err
	}
	if err := checkKey(a.Key); err != nil {
		return sessions.CloseResult{}, err
	}
	mean := meaning("close", a)
	var was closeOp
	err = h.update(ctx, func(tx *journal.Tx, c *changes) (err error) {
		was, err = h.closeOnce(tx, c, who, a, mean)
		return err
	})
	if err != nil {
		if trouble(err) {
			return h.closeUnwritten(ctx, who, a, wait, err)
		}
		return sessions.CloseResult{}, err
	}
	if was.deleted {
		return sessions.CloseResult{Session: sessions.Session{SessionID: a.SessionID, State: sessions.SessionDeleted}, Stopped: string(sandbox.Confirmed), Proof: "deleted before"}, nil
	}
	res, over, err := h.closed(ctx, who, a.SessionID, was.Generation, wait)
	if err != nil || !a.Delete || !over || was.Generation != res.Session.Generation {
		return res, err
	}
	if err := h.forgetSession(ctx, who, a.SessionID, was.Generation); err != nil {
		return res, err
	}
	res.Session.State = sessions.SessionDeleted
	return res, nil
}

// closeOp is what a close came to, as its repetition finds it.
type closeOp struct {
	Generation string `json:"generation,omitempty"` // the one that it ends
	deleted    bool   // it did all that it was asked to, and nothing is left
}

// closeOnce does what a close asks for, or finds what it came to. A repetition touches no later generation.
func (h *Host) closeOnce(tx *journal.Tx, c *changes, who sessions.Caller, a sessions.CloseArgs, mean string) (was closeOp, err error) {
	op, found, err := replay(tx, who, a.Key, "close", mean)
	if err != nil {
		return was, err
	}
	if found {
		s, ok, err := tx.FindSession(a.SessionID)
		if err == nil && len(op.Result) > 0 {
			err = json.Unmarshal(op.Result, &was)
		}
		was.deleted = ok && s.State == sessions.SessionDeleted
		return was, err
	}
	s, err := tx.GetSession(who.Principal, a.SessionID)
	if err != nil {
		return was, err
	}
	if err := guard(s, a.Guard); err != nil {
		return was, err
	}
	was.Generation = s.Generation
	if err := h.closeIn(tx, c, s); err != nil || a.Key == "" {
		return was, err
	}
	result, err := json.Marshal(was)
	if err != nil {
		return was, err
	}
	return was, tx.PutOperation(journal.Operation{Principal: who.Principal, Key: a.Key, Verb: "close", Scope: s.ID, Meaning: mean, State: "done", Result: result})
}

// forgetSession deletes a session whose last generation has ended, unless another one began since.
func (h *Host) forgetSession(ctx context.Context, who sessions.Caller, id, generation string) error {
	err := h.update(ctx, func(tx *journal.Tx, c *changes) error {
		s, found, err := tx.FindSession(id)
		if err != nil || found && s.State == sessions.SessionDeleted {
			return err
		}
		if s, err = tx.GetSession(who.Principal, id); err != nil {
			return err
		}
		if s.Generation != generation || s.State != sessions.SessionClosed && s.State != sessions.SessionFailed {
			return sessions.Errorf(sessions.CodeBusy, "session %s is %s again, and was not deleted", id, s.State).Do("close it first")
		}
		c.touch(id, true)
		return tx.DeleteSession(id)
	})
	if err != nil {
		return err
	}
	select {
	case h.deleted <- struct{}{}:
	default:
	}
	return nil
}

// closeIn writes the intent to stop. A session that has ended is left alone.
func (h *Host) closeIn(tx *journal.Tx, c *changes, s journal.Session) error {
	return h.closeFor(tx, c, s, bridge.CloseInput{Reason: "closed"})
}

func (h *Host) closeFor(tx *journal.Tx, c *changes, s journal.Session, why bridge.CloseInput) error {
	moved, err := h.closing(tx, c, s)
	if err != nil || !moved {
		return err
	}
	if _, err := tx.AppendInput(s.Generation, string(bridge.InClose), s.ID, why); err != nil {
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

// closed waits for the end of a generation and gives its verdict; over tells whether it came in time.
func (h *Host) closed(ctx context.Context, who sessions.Caller, id, generation string, wait time.Duration) (res sessions.CloseResult, over bool, err error) {
	var g journal.Generation
	res.Session, over, err = h.await(ctx, who.Principal, id, wait, func(tx *journal.Tx, v *sessions.Session) (bool, error) {
		if generation == "" {
			return true, nil
		}
		if g, err = tx.GetGeneration(generation); err != nil {
			return false, err
		}
		return !g.EndedAt.IsZero(), nil
	})
	if over && err == nil {
		res.Stopped, res.Proof = g.Verdict, g.Proof
		if g.Verdict == "" {
			res.Stopped, res.Proof = string(sandbox.Confirmed), string(sandbox.ProofNeverStarted)
		}
		return res, true, nil
	}
	res.Stopped, res.Proof = string(sandbox.Unconfirmed), "the session is still being stopped; call session_close again"
	return res, false, err
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
	err := h.look(ctx, func(tx *journal.Tx) error {
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
