package host

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// recover adopts the bridges that live and settles the generations whose bridges do not. One broken record never blocks
// another, and the cost depends on what was live, not on history.
func (h *Host) recover(ctx context.Context) error {
	var live []journal.Generation
	if err := h.j.View(ctx, func(tx *journal.Tx) (err error) {
		var damage []error
		live, damage, err = tx.LiveGenerations()
		for _, e := range damage {
			h.o.Log.Error().Err(e).Msg("a session may live that cannot be recovered, for its record cannot be read")
		}
		return err
	}); err != nil {
		return err
	}
	for _, g := range live {
		failpoint.Hit("host.recover")
		if err := h.recoverOne(ctx, g); err != nil {
			h.o.Log.Error().Err(err).Str("session", g.Session).Msg("session could not be recovered")
		}
	}
	return nil
}

func (h *Host) recoverOne(ctx context.Context, g journal.Generation) error {
	if len(g.Record) == 0 { // nothing was registered, so no agent was executed, and whatever is to be given is still here
		h.tend(g.Session, g.ID, nil, journal.Generation{})
		return nil
	}
	settle := func(cause *sessions.Error, v func(*tender) sandbox.Verdict) {
		t := h.tenderOf(g.Session, g.ID, g)
		t.cause = cause
		h.spawn(func() { h.finish(t, v(t)) })
	}
	var r sandbox.Record
	var proc process
	err := json.Unmarshal(g.Record, &r)
	switch {
	case err == nil && r.PID == 0: // a host registers a process or nothing
		err = errors.New("it names no process")
	case err == nil:
		if p, openErr := sandbox.Open(r); openErr == nil {
			proc = p
		} else {
			err = openErr
		}
	}
	if errors.Is(err, sandbox.ErrGone) {
		settle(nil, func(*tender) sandbox.Verdict {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(h.life), 15*time.Second)
			defer cancel()
			return sandbox.Settle(ctx, r)
		})
		return nil
	}
	if err != nil { // neither adopted nor killed: what the record means is not known
		cause := sessions.Errorf(sessions.CodeStopUnconfirmed, "the record of the session's processes cannot be used: %w", err).
			Do("see that they are gone, then resume with accept_unconfirmed")
		h.unusable(ctx, g, cause)
		settle(cause, func(t *tender) sandbox.Verdict {
			t.dismiss(true, closeLimit)
			return sandbox.Verdict{State: sandbox.Unconfirmed, Proof: sandbox.ProofNone, Detail: err.Error()}
		})
		return err
	}
	h.tend(g.Session, g.ID, proc, g)
	return nil
}
