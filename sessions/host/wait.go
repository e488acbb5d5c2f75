package host

import (
	"cmp"
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// Wait returns when any of the sessions has settled or asks, newer than the cursor where one is given.
func (h *Host) Wait(ctx context.Context, who sessions.Caller, a sessions.WaitArgs) (sessions.WaitResult, error) {
	if err := named(who); err != nil {
		return sessions.WaitResult{}, err
	}
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
		return h.lookAt(tx, who, a.SessionIDs, after, every)
	}
	if len(a.SessionIDs) == 0 {
		if err := h.acknowledge(ctx, who, after); err != nil {
			return sessions.WaitResult{}, err
		}
		look = func(tx *journal.Tx) ([]sessions.Waited, error) { return inbox(tx, who, after, every) }
	}
	res, err := h.waitFor(ctx, who, a.SessionIDs, every, wait, look)
	share(res.Sessions, max)
	return res, err
}

func (h *Host) waitFor(ctx context.Context, who sessions.Caller, ids []string, every bool, d time.Duration, look func(*journal.Tx) ([]sessions.Waited, error)) (sessions.WaitResult, error) {
	w := h.hub.add(ids, every)
	defer w.remove()
	timer := time.NewTimer(d)
	defer timer.Stop()
	late := false
	for {
		var found []sessions.Waited
		err := h.look(ctx, func(tx *journal.Tx) (err error) {
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
			return sessions.WaitResult{}, left(ctx, context.Cause(ctx))
		case <-h.life.Done():
			return sessions.WaitResult{}, errHostEnds
		}
	}
}

// timedOut shows the sessions as they are.
func (h *Host) timedOut(ctx context.Context, who sessions.Caller, ids []string) (sessions.WaitResult, error) {
	res := sessions.WaitResult{Sessions: []sessions.Waited{}, TimedOut: true, Next: "Nothing settled and nobody asks: call session_wait again with the same arguments."}
	err := h.look(ctx, func(tx *journal.Tx) error {
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
func (h *Host) lookAt(tx *journal.Tx, who sessions.Caller, ids []string, after map[string]int64, every bool) ([]sessions.Waited, error) {
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
		w, ok, err := news(tx, s, seq, cursor, every)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, w)
		}
	}
	return found, nil
}

// news tells whether a session has settled or asks; with a cursor, only by events that are newer. It looks at what is
// cheap first: a wait may name fifty sessions, and looks at all of them whenever one stirs.
func news(tx *journal.Tx, s journal.Session, after int64, cursor, every bool) (w sessions.Waited, ok bool, err error) {
	if (every || cursor) && s.LastSeq <= after {
		return w, false, nil
	}
	if !every {
		if ok, err := settledOrAsks(tx, s); err != nil || !ok {
			return w, false, err
		}
		if cursor {
			if _, newer, err := tx.LatestEvent(s.ID, after, worthAWait); err != nil || !newer {
				return w, false, err
			}
		}
	}
	v, err := viewOf(tx, s)
	if err != nil {
		return w, false, err
	}
	w = sessions.Waited{Session: v, Cursor: v.Cursor}
	w.Text, err = newText(tx, &v, after)
	return w, true, err
}

// settledOrAsks tells whether a session goes on by itself no more: it is idle, or over, or waits for its user.
func settledOrAsks(tx *journal.Tx, s journal.Session) (bool, error) {
	if !s.State.Live() || s.State == sessions.SessionIdle {
		return true, nil
	}
	return asking(tx, s.ID)
}

// asking tells whether a request of a session waits for its user.
func asking(tx *journal.Tx, session string) (bool, error) {
	open, err := tx.PendingRequests(session)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(open, func(q journal.Request) bool { return q.State == sessions.RequestPending }), nil
}

// worthAWait tells whether an event can end a wait: what is notable, and the end of a turn that no command began.
func worthAWait(k sessions.EventKind, command string) bool {
	return notable(k) || k == sessions.EventTurnCompleted && command == ""
}

// newText is the final message of the command that settled last, when that is newer than the cursor.
func newText(tx *journal.Tx, v *sessions.Session, after int64) (string, error) {
	last := v.Last
	if last == nil {
		return "", nil
	}
	_, newer, err := tx.LatestEvent(v.SessionID, after, func(k sessions.EventKind, command string) bool {
		return k == sessions.EventCommandSettled && command == last.CommandID
	})
	if err != nil || !newer {
		return "", err
	}
	return finalText(tx, v.SessionID, last.CommandID)
}

// finalText is the final message of a command. What steered a turn has that turn's.
func finalText(tx *journal.Tx, session, command string) (string, error) {
	cmd, err := tx.GetCommand(session, command)
	if err != nil {
		return "", err
	}
	if cmd.Steer != "" {
		command = cmd.Steer
	}
	text, _, err := tx.LastFinalText(session, command)
	return text, err
}

// share cuts the texts of a result to one budget. What a short one leaves is the longer ones'.
func share(found []sessions.Waited, max int) {
	order := make([]*sessions.Waited, len(found))
	for i := range found {
		order[i] = &found[i]
	}
	slices.SortStableFunc(order, func(a, b *sessions.Waited) int {
		return cmp.Compare(utf8.RuneCountInString(a.Text), utf8.RuneCountInString(b.Text))
	})
	for i, w := range order {
		part := max / (len(order) - i)
		max -= min(utf8.RuneCountInString(w.Text), part)
		w.Text = clip(w.Text, part)
	}
}
