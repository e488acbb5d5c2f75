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
	seen := func(tx *journal.Tx) error {
		for id, seq := range after {
			s, err := tx.GetSession(who.Principal, id)
			if err != nil {
				return err
			}
			if seq > s.LastSeq {
				return sessions.Errorf(sessions.CodeCursorInvalid, "the cursor of session %s lies beyond its end", id).Do("use a cursor that a call on this session returned")
			}
		}
		return nil
	}
	err := h.update(ctx, func(tx *journal.Tx, c *changes) error {
		if err := seen(tx); err != nil {
			return err
		}
		for id, seq := range after {
			if err := tx.Acknowledge(id, seq); err != nil {
				return err
			}
		}
		return nil
	})
	if trouble(err) {
		h.o.Log.Warn().Err(err).Msg("an acknowledgement could not be kept; what it is about will be delivered again")
		return h.look(ctx, seen)
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
