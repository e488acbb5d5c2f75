package journal

// Unread is a session with events that its principal has not acknowledged.
type Unread struct {
	Session
	Acked int64 // the last event that it has
}

// inboxSessions names the partial index, or the planner takes that of all of the principal's sessions.
const inboxSessions = "INDEXED BY sessions_inbox WHERE principal = ? AND unread = 1"

// Inbox returns up to limit of a principal's sessions with events that it has not acknowledged, newest first: those
// created before the one with N before (0: from the newest).
func (tx *Tx) Inbox(principal string, before int64, limit int) ([]Unread, error) {
	where, args := inboxSessions, []any{principal}
	if before > 0 {
		where, args = where+" AND n < ?", append(args, before)
	}
	var list []Unread
	var err error
	for _, columns := range []string{sessionColumns, sessionsByEvents} {
		list = nil
		err = tx.query(func(r *row) error {
			list = append(list, Unread{Session: scanSession(r), Acked: r.int()})
			return nil
		}, "SELECT "+columns+", acked FROM sessions "+where+" ORDER BY n DESC LIMIT ?", append(args, limit)...)
		if err == nil || !tx.mend(err) {
			break
		}
	}
	return list, err
}

// Acknowledge notes that a session's principal has seen its events up to seq. It never goes back, nor beyond the last
// event.
func (tx *Tx) Acknowledge(session string, seq int64) error {
	tx.forgetSession(session)
	_, err := tx.exec(`UPDATE sessions SET acked = min(?, h.last_seq), unread = (h.last_seq > ?) FROM heads h
		WHERE id = ? AND h.session = n AND acked < ?`, seq, seq, session, seq)
	return err
}
