package host

import (
	"context"
	"errors"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host/remote"
	"github.com/batonmcp/baton/sessions/journal"
)

// left makes an error of the table of the end of a call whose caller is gone, or whose host is: the work goes on.
func left(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, journal.ErrClosed):
		return errHostEnds
	case err == nil, ctx.Err() == nil, !errors.Is(err, context.Cause(ctx)) && !errors.Is(err, ctx.Err()):
		return err
	}
	return sessions.Errorf(sessions.CodeTimeout, "the call was ended by its caller before it was answered: %w", err).
		Do("look at the session, or make the call again: under the same key nothing is done twice")
}

// look reads the journal for a call.
func (h *Host) look(ctx context.Context, fn func(*journal.Tx) error) error {
	return left(ctx, h.j.View(ctx, fn))
}

// view reads a session of the principal.
func (h *Host) view(ctx context.Context, principal, id string) (v sessions.Session, err error) {
	err = h.look(ctx, func(tx *journal.Tx) error {
		s, err := tx.GetSession(principal, id)
		if err != nil {
			return err
		}
		v, err = viewOf(tx, s)
		return err
	})
	return v, err
}

// await looks at a session until done says so, the time is over or the caller is gone, and returns it as it was seen
// last. The work that is waited for never ends with the wait.
func (h *Host) await(ctx context.Context, principal, id string, d time.Duration, done func(*journal.Tx, *sessions.Session) (bool, error)) (sessions.Session, bool, error) {
	w := h.hub.add([]string{id}, false)
	defer w.remove()
	always := func(*journal.Tx) (bool, error) { return true, nil }
	return h.awaitOn(ctx, w, false, principal, id, d, always, done)
}

// awaitOn is await for a caller that began to listen before: where nothing can have happened yet that was not heard, unheard
// says so, and nothing is looked at before something is. The session is put together only when stirred says that done
// could: that takes seven queries, and most looks find nothing.
func (h *Host) awaitOn(ctx context.Context, w *waiter, unheard bool, principal, id string, d time.Duration, stirred func(*journal.Tx) (bool, error),
	done func(*journal.Tx, *sessions.Session) (bool, error)) (sessions.Session, bool, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	late := d <= 0
	for {
		var v sessions.Session
		var err error
		ok := false
		look := func(tx *journal.Tx) error {
			s, err := tx.GetSession(principal, id)
			if err != nil {
				return err
			}
			if worth, err := stirred(tx); err != nil || !worth && !late {
				return err
			}
			if v, err = viewOf(tx, s); err != nil {
				return err
			}
			ok, err = done(tx, &v)
			return err
		}
		if !unheard || late {
			err = h.look(ctx, look)
		}
		unheard = false
		if err != nil || ok || late {
			return v, ok, err
		}
		select {
		case <-w.ch:
			if end := h.hub.toldOf(w); end != nil {
				return end.session, true, nil
			}
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return v, false, left(ctx, context.Cause(ctx))
		case <-h.life.Done():
			return v, false, errHostEnds
		}
	}
}

// errHostEnds ends the waits of a host that stops; a front end asks the next host by itself.
var errHostEnds = sessions.Errorf(sessions.CodeIncomplete, "%w; sessions go on", remote.ErrHostEnds).Do("ask again")

// ended tells whether no generation of a session is live any more: its processes are gone, proven or not.
func ended(tx *journal.Tx, session string) (bool, error) {
	_, live, err := tx.LiveGeneration(session)
	return !live, err
}

// asks tells whether a session waits for its user.
func asks(v *sessions.Session) bool {
	for _, q := range v.Requests {
		if q.State == sessions.RequestPending {
			return true
		}
	}
	return false
}

// guard refuses a call whose named lease or generation no longer holds.
func guard(s journal.Session, g sessions.Guard) error {
	if g.Generation != "" && g.Generation != s.Generation {
		return sessions.Errorf(sessions.CodeStaleGeneration, "generation %.80q was named, the session's is %s", g.Generation, s.Generation).
			Do("look at the session again, then decide anew")
	}
	if g.LeaseID != "" && g.LeaseID != s.Lease {
		return sessions.Errorf(sessions.CodeLeaseLost, "lease %.80q does not steer session %s", g.LeaseID, s.ID).
			Do("look at who steers it now")
	}
	return nil
}

// replay looks a key up. A key that was used for the same call gives its operation; for another one it is a conflict.
func replay(tx *journal.Tx, who sessions.Caller, key, verb, mean string) (journal.Operation, bool, error) {
	if key == "" {
		return journal.Operation{}, false, nil
	}
	op, found, err := tx.FindOperation(who.Principal, key)
	if err != nil || !found {
		return op, false, err
	}
	if op.Verb != verb || op.Meaning != mean {
		return op, false, journal.KeyConflict(op)
	}
	return op, true, nil
}

// viewOf is a session as every answer shows it. The agent's own report of its settings stays in the journal and in the
// event that confirmed them: it can be long, and an answer is read by a model.
func viewOf(tx *journal.Tx, s journal.Session) (sessions.Session, error) {
	v, err := tx.ViewOf(s)
	v.Selections.Evidence.Raw = nil
	return v, err
}
