package host

import (
	"context"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// inboxPage bounds the sessions that one look at the inbox returns.
const inboxPage = sessions.MaxWaitSessions

// Wait returns when any of the sessions has settled or asks, newer than the cursor where one is given.
func (h *Host) Wait(ctx context.Context, who sessions.Caller, a sessions.WaitArgs) (sessions.WaitResult, error) {
	if len(a.SessionIDs) > sessions.MaxWaitSessions {
		return sessions.WaitResult{}, sessions.Errorf(sessions.CodeLimitExceeded, "%d session_ids were given, the limit is %d", len(a.SessionIDs), sessions.MaxWaitSessions).
			Do("wait for fewer, or give none to wait for any")
	}
	if err := oneOf("until", a.Until, "settled_or_input", "event"); err != nil {
		return sessions.WaitResult{}, err
	}
	wait, err := seconds(a.WaitSeconds, sessions.DefaultWaitSeconds)
	if err != nil {
		return sessions.WaitResult{}, err
	}
	max, err := budget(a.MaxChars)
	if err != nil {
		return sessions.WaitResult{}, err
	}
	after := map[string]int64{}
	for id, cursor := range a.After {
		seq, err := sessions.DecodeCursor(id, cursor)
		if err != nil {
			return sessions.WaitResult{}, err
		}
		after[id] = seq
	}
	every := a.Until == "event"
	look := func(tx *journal.Tx) ([]sessions.Waited, error) {
		return h.lookAt(tx, who, a.SessionIDs, after, every, max)
	}
	if len(a.SessionIDs) == 0 {
		if err := h.acknowledge(ctx, who, after); err != nil {
			return sessions.WaitResult{}, err
		}
		look = func(tx *journal.Tx) ([]sessions.Waited, error) { return h.inbox(tx, who, every, max) }
	}
	return h.waitFor(ctx, who, a.SessionIDs, every, wait, look)
}

func (h *Host) waitFor(ctx context.Context, who sessions.Caller, ids []string, every bool, d time.Duration, look func(*journal.Tx) ([]sessions.Waited, error)) (sessions.WaitResult, error) {
	w := h.hub.add(ids, every)
	defer w.remove()
	timer := time.NewTimer(d)
	defer timer.Stop()
	late := false
	for {
		var found []sessions.Waited
		err := h.j.View(ctx, func(tx *journal.Tx) (err error) {
			found, err = look(tx)
			return err
		})
		if err != nil {
			return sessions.WaitResult{}, err
		}
		if len(found) > 0 {
			return sessions.WaitResult{Sessions: found, Next: next(found)}, nil
		}
		if late || d <= 0 {
			return h.timedOut(ctx, who, ids)
		}
		select {
		case <-w.ch:
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return sessions.WaitResult{}, ctx.Err()
		case <-h.life.Done():
			return sessions.WaitResult{}, errHostEnds
		}
	}
}

// timedOut shows the sessions as they are.
func (h *Host) timedOut(ctx context.Context, who sessions.Caller, ids []string) (sessions.WaitResult, error) {
	res := sessions.WaitResult{Sessions: []sessions.Waited{}, TimedOut: true, Next: "Nothing settled and nobody asks: call session_wait again with the same arguments."}
	err := h.j.View(ctx, func(tx *journal.Tx) error {
		for _, id := range ids {
			s, err := tx.GetSession(who.Principal, id)
			if err != nil {
				return err
			}
			v, err := viewOf(tx, s)
			if err != nil {
				return err
			}
			res.Sessions = append(res.Sessions, sessions.Waited{Session: v, Cursor: v.Cursor})
		}
		return nil
	})
	return res, err
}

// next says in one sentence what to call next.
func next(found []sessions.Waited) string {
	for _, w := range found {
		if asks(&w.Session) {
			return "A session asks: answer its requests with session_respond, then wait again with the cursors given."
		}
	}
	return "Settled: read the text, send the next command, or close; give the cursors as after when you wait again."
}

// lookAt returns those of the sessions that have news.
func (h *Host) lookAt(tx *journal.Tx, who sessions.Caller, ids []string, after map[string]int64, every bool, max int) ([]sessions.Waited, error) {
	var found []sessions.Waited
	for _, id := range ids {
		s, err := tx.GetSession(who.Principal, id)
		if err != nil {
			return nil, err
		}
		seq, cursor := after[id]
		if seq > s.LastSeq {
			return nil, sessions.Errorf(sessions.CodeCursorInvalid, "the cursor of session %s lies beyond its end", id).Do("use a cursor that a call on this session returned")
		}
		w, ok, err := h.news(tx, s, seq, cursor, every, max)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, w)
		}
	}
	return found, nil
}

// news tells whether a session has settled or asks; with a cursor, only by events that are newer.
func (h *Host) news(tx *journal.Tx, s journal.Session, after int64, cursor, every bool, max int) (sessions.Waited, bool, error) {
	v, err := viewOf(tx, s)
	if err != nil {
		return sessions.Waited{}, false, err
	}
	w := sessions.Waited{Session: v, Cursor: v.Cursor}
	if every {
		return w, s.LastSeq > after, h.addText(tx, &w, after, max)
	}
	settled := asks(&v) || !s.State.Live() || (s.State == sessions.SessionIdle && v.Running == nil && len(v.Queued) == 0)
	if len(v.Queued) > 0 && s.State == sessions.SessionIdle {
		settled = true // a paused queue waits for its user
	}
	if !settled {
		return w, false, nil
	}
	if cursor {
		page, err := tx.ReadEvents(s.ID, after, 1, notableKinds, 0)
		if err != nil || len(page.Events) == 0 {
			return w, false, err
		}
	}
	return w, true, h.addText(tx, &w, after, max)
}

// addText gives the final message of the command that settled last, when that is newer than the cursor.
func (h *Host) addText(tx *journal.Tx, w *sessions.Waited, after int64, max int) error {
	last := w.Session.Last
	if last == nil {
		return nil
	}
	page, err := tx.ReadEvents(w.Session.SessionID, after, sessions.MaxReadLimit, []sessions.EventKind{sessions.EventCommandSettled}, 0)
	if err != nil {
		return err
	}
	newer := false
	for _, e := range page.Events {
		newer = newer || e.Command == last.CommandID
	}
	if !newer {
		return nil
	}
	text, _, err := tx.LastFinalText(w.Session.SessionID, last.CommandID)
	w.Text = clip(text, max)
	return err
}

// inboxName is the consumer that remembers how far a principal has acknowledged a session.
func inboxName(principal, session string) string { return "inbox/" + principal + "/" + session }

// acknowledge remembers the cursors that an inbox call brings.
func (h *Host) acknowledge(ctx context.Context, who sessions.Caller, after map[string]int64) error {
	if len(after) == 0 {
		return nil
	}
	return h.update(ctx, func(tx *journal.Tx, c *changes) error {
		for id, seq := range after {
			s, err := tx.GetSession(who.Principal, id)
			if err != nil {
				return err
			}
			if seq > s.LastSeq {
				return sessions.Errorf(sessions.CodeCursorInvalid, "the cursor of session %s lies beyond its end", id)
			}
			was, err := tx.Cursor(inboxName(who.Principal, id))
			if err != nil {
				return err
			}
			if seq > was {
				if err := tx.SetCursor(inboxName(who.Principal, id), seq); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// inbox returns the principal's sessions with news that it has not acknowledged: delivered again until it does.
func (h *Host) inbox(tx *journal.Tx, who sessions.Caller, every bool, max int) ([]sessions.Waited, error) {
	var found []sessions.Waited
	var n int64
	for {
		list, more, err := tx.ListSessions(journal.SessionFilter{Principal: who.Principal, All: true, Newest: true}, n, 200)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			n = s.N
			acked, err := tx.Cursor(inboxName(who.Principal, s.ID))
			if err != nil {
				return nil, err
			}
			if s.LastSeq <= acked {
				continue
			}
			w, ok, err := h.news(tx, s, acked, true, every, max/4)
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
		if !more {
			return found, nil
		}
	}
}
