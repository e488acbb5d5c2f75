package host

import (
	"fmt"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// retire is the goroutine that closes sessions in which nothing has happened for the time given.
func (h *Host) retire(limit time.Duration) {
	next := time.Duration(0) // an earlier host may have left some
	for {
		timer := time.NewTimer(next)
		select {
		case <-h.life.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		var err error
		if next, err = h.retireIdle(time.Now(), limit); err != nil && h.life.Err() == nil {
			h.o.Log.Warn().Err(err).Msg("idle sessions could not be looked at")
		}
	}
}

// retireIdle closes the sessions in which nothing has happened for the limit before now, and returns after which time there
// may be the next. What is queued, or waits for an answer, keeps a session open.
func (h *Host) retireIdle(now time.Time, limit time.Duration) (next time.Duration, err error) {
	next = limit
	var due []string
	err = h.j.View(h.life, func(tx *journal.Tx) error {
		for after := int64(0); ; {
			list, more, err := tx.ListSessions(journal.SessionFilter{State: sessions.SessionIdle}, after, maxList)
			if err != nil {
				return err
			}
			for _, s := range list {
				after = s.N
				if left := s.UpdatedAt.Add(limit).Sub(now); left > 0 {
					next = min(next, left)
				} else {
					due = append(due, s.ID)
				}
			}
			if !more {
				return nil
			}
		}
	})
	if err != nil {
		return next, err
	}
	for _, id := range due {
		if err := h.update(h.life, func(tx *journal.Tx, c *changes) error { return h.retireOne(tx, c, id, now, limit) }); err != nil {
			return next, err
		}
	}
	return next, nil
}

// retireOne closes a session that still has nothing to do.
func (h *Host) retireOne(tx *journal.Tx, c *changes, id string, now time.Time, limit time.Duration) error {
	s, err := tx.GetSession("", id)
	if err != nil || s.State != sessions.SessionIdle || s.UpdatedAt.Add(limit).After(now) {
		return err
	}
	queued, err := tx.QueuedCommands(id)
	if err != nil || len(queued) > 0 {
		return err
	}
	if open, err := tx.PendingRequests(id); err != nil || len(open) > 0 {
		return err
	}
	text := fmt.Sprintf("closed because nothing happened in it for %s (idle_close); it can be resumed", limit)
	if err := c.events(tx, id, sessions.Event{Kind: sessions.EventWarning, At: tx.Now(), Code: sessions.CodeTimeout, Text: text}); err != nil {
		return err
	}
	if s, err = tx.GetSession("", id); err != nil {
		return err
	}
	return h.closeFor(tx, c, s, bridge.CloseInput{Reason: "idle"})
}
