package host

import (
	"context"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// inboxPage bounds the sessions that one look at the inbox returns.
const inboxPage = sessions.MaxWaitSessions

// acknowledge remembers the cursors that an inbox call brings. A journal that takes no changes is no reason to show
// nothing: then they count for this call alone.
func (h *Host) acknowledge(ctx context.Context, who sessions.Caller, after map[string]int64) error {
	if len(after) == 0 {
		return nil
	}
	// What was deleted since has nothing left to acknowledge, and does not keep the rest from it.
	seen := func(tx *journal.Tx) (there []string, err error) {
		for id, seq := range after {
			s, found, err := tx.FindSession(id)
			if err != nil {
				return nil, err
			}
			if found && s.Principal == who.Principal && s.State == sessions.SessionDeleted {
				continue
			}
			if s, err = tx.GetSession(who.Principal, id); err != nil {
				return nil, err
			}
			if seq > s.LastSeq {
				return nil, sessions.Errorf(sessions.CodeCursorInvalid, "the cursor of session %s lies beyond its end", id).Do("use a cursor that a call on this session returned")
			}
			there = append(there, id)
		}
		return there, nil
	}
	err := h.update(ctx, func(tx *journal.Tx, c *changes) error {
		there, err := seen(tx)
		if err != nil {
			return err
		}
		for _, id := range there {
			if err := tx.Acknowledge(id, after[id]); err != nil {
				return err
			}
		}
		return nil
	})
	if trouble(err) {
		h.o.Log.Warn().Err(err).Msg("an acknowledgement could not be kept; what it is about will be delivered again")
		return h.look(ctx, func(tx *journal.Tx) error { _, err := seen(tx); return err })
	}
	return err
}

// inbox returns the principal's sessions with news that it has not acknowledged: delivered again until it does. What was
// acknowledged, however much that is, costs nothing.
func inbox(tx *journal.Tx, who sessions.Caller, after map[string]int64, every bool) ([]sessions.Waited, error) {
	var found []sessions.Waited
	for before := int64(0); ; {
		list, err := tx.Inbox(who.Principal, before, inboxPage)
		if err != nil {
			return nil, err
		}
		for _, u := range list {
			before = u.N
			w, ok, err := news(tx, u.Session, max(u.Acked, after[u.ID]), true, every)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, w)
			}
			if len(found) == inboxPage {
				return found, nil
			}
		}
		if len(list) < inboxPage {
			return found, nil
		}
	}
}
