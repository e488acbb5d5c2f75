package journal

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
)

// scanLimit bounds the events that one read looks at, so that a filter which matches nothing costs no more than a page.
const scanLimit = 5000

// Reasons of a gap.
const (
	cutByRetention = "cut by retention"
	damagedOnDisk  = "damaged on disk"
)

// Page is what one read of a session's events gave.
type Page = PageOf[sessions.Event]

// PageOf is a page of events in the form in which they were read.
type PageOf[E any] struct {
	Events []E
	Last   int64         // where the next read goes on: after the last event delivered, or passed over by the filter
	More   bool          // whether there may be more after Last
	Gap    *sessions.Gap // events before Events that cannot be read any more
}

// NodeEvent is an event with its number over all sessions of the node.
type NodeEvent struct {
	ID int64
	sessions.Event
}

const eventInsert = "session, seq, generation, kind, command, at, body"

const eventColumns = "seq, generation, kind, command, at, body"

// scanEvent reads an event of a session.
func scanEvent(tx *Tx, session string, r *row) (sessions.Event, int) {
	seq, generation, kind, command, at := r.int(), tx.generationOf(r), r.text(), r.text(), r.time()
	body := r.s.ColumnRawText(r.next())
	var e sessions.Event
	if err := own.Unmarshal(body, &e); err != nil && r.err == nil {
		r.err = unreadable(session, seq, err)
	}
	e.Session, e.Seq, e.Generation, e.Kind, e.Command, e.At = session, seq, generation, sessions.EventKind(kind), command, at
	return e, len(body)
}

// AppendEvents adds events to a session: it stamps Session, Seq and, where it is zero, At, in evs itself too, and
// returns the first number (0 for no events).
func (tx *Tx) AppendEvents(session string, evs []sessions.Event) (int64, error) {
	if len(evs) == 0 {
		return 0, nil
	}
	bodies := make([]json.RawMessage, len(evs)) // before anything changes: what cannot be encoded leaves no hole
	for i := range evs {
		body, err := eventBody(evs[i])
		if err != nil {
			return 0, err
		}
		bodies[i] = body
	}
	if err := tx.mayWrite(); err != nil {
		return 0, err
	}
	s, err := tx.knownSession(session)
	if err != nil {
		return 0, err
	}
	if s == nil || s.State == sessions.SessionDeleted {
		return 0, notFound("session", session)
	}
	tx.Touch(session)
	first := s.LastSeq + 1
	if err := tx.addEvents(s, evs, bodies); err != nil {
		tx.forgetSession(session)
		return 0, err
	}
	return first, nil
}

// addEvents adds events to a session that the writer remembers.
func (tx *Tx) addEvents(s *Session, evs []sessions.Event, bodies []json.RawMessage) error {
	if !s.unread {
		if _, err := tx.exec("UPDATE sessions SET unread = 1 WHERE n = ?", s.N); err != nil {
			return err
		}
		s.unread = true
	}
	id, err := tx.lastEvent()
	if err != nil {
		return err
	}
	for i := range evs {
		e := &evs[i]
		if e.At.IsZero() {
			e.At = tx.now
		}
		g, err := tx.reference(e.Generation)
		if err != nil {
			return err
		}
		id++
		s.LastSeq++
		e.Session, e.Seq = s.ID, s.LastSeq
		if tx.j.known.highest == id-1 {
			err = tx.addEvent(eventRow{id: id, session: s.N, seq: e.Seq, generation: g, kind: e.Kind, command: e.Command, at: nanos(e.At), body: bodies[i]})
		} else { // the newest were removed, and their numbers do not come again
			_, err = tx.exec("INSERT INTO events (id, "+eventInsert+") VALUES (?,?,?,?,?,?,?,?)", id, s.N, e.Seq, g, e.Kind, e.Command, e.At, bodies[i])
		}
		if err != nil {
			return err
		}
		tx.j.known.lastEvent, tx.j.known.highest = id, id
	}
	s.UpdatedAt = tx.now
	return tx.putHead(s)
}

// lastEvent is the node-wide number that an event was given last.
func (tx *Tx) lastEvent() (int64, error) {
	if n := tx.j.known.lastEvent; n > 0 {
		return n, nil
	}
	n, err := tx.number(lastEvent)
	if err == nil {
		tx.j.known.highest, err = tx.number("SELECT max(id) FROM events")
	}
	if err == nil {
		tx.j.known.lastEvent = n
	}
	return n, err
}

// lastEvent finds it in the tables. Where a purge took the newest events away, meta has it.
const lastEvent = `SELECT max(coalesce((SELECT max(id) FROM events), 0),
	coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'last_event'), 0))`

// ReadEvents reads the events of a session after a number, up to limit of them and maxBytes of their stored size (at
// least one, whatever its size; 0: no bound), only the kinds named when any are. A number beyond the last event is
// CodeCursorInvalid. What retention cut or damage made unreadable is the page's Gap; a page never goes over a gap
// silently, and Last never passes an event that the filter lets through and that was not delivered.
func (tx *Tx) ReadEvents(session string, after int64, limit int, kinds []sessions.EventKind, maxBytes int) (Page, error) {
	return readEvents(tx, session, after, limit, kinds, maxBytes, func(r *row) (sessions.Event, int) { return scanEvent(tx, session, r) })
}

// ReadStored is ReadEvents for who hands most of them on.
func (tx *Tx) ReadStored(session string, after int64, limit int, kinds []sessions.EventKind, maxBytes int) (PageOf[Stored], error) {
	return readEvents(tx, session, after, limit, kinds, maxBytes, (&storedScanner{tx: tx, session: session}).scan)
}

func readEvents[E any](tx *Tx, session string, after int64, limit int, kinds []sessions.EventKind, maxBytes int, scan func(*row) (E, int)) (PageOf[E], error) {
	var n, first, last int64
	var found bool
	var err error
	for _, from := range sessionSources {
		found, err = tx.one(func(r *row) { n, first, last = r.int(), r.int(), r.int() },
			"SELECT n, first_seq, "+from.lastSeq+" FROM sessions "+from.by+" WHERE id = ? AND state <> 'deleted'", session)
		if err == nil || !tx.mend(err) {
			break
		}
	}
	switch {
	case err != nil:
		return PageOf[E]{}, err
	case !found:
		return PageOf[E]{}, notFound("session", session)
	case after > last || after < 0:
		return PageOf[E]{}, sessions.Errorf(sessions.CodeCursorInvalid, "cursor stands at event %d, session %s has %d", after, session, last).
			Do("read from a cursor that a call returned, or leave it out to read from the beginning")
	}
	p := PageOf[E]{Last: after}
	if after+1 < first {
		p.Gap = &sessions.Gap{From: after + 1, To: first - 1, Reason: cutByRetention}
		p.Last = first - 1
	}
	pass := func(k sessions.EventKind) bool { return len(kinds) == 0 || slices.Contains(kinds, k) }
	size, scanned, seen, ended := 0, 0, p.Last, true
	missing := func(next int64) bool { // a hole in the numbers that retention did not make
		if next == seen+1 {
			return false
		}
		if len(p.Events) == 0 && p.Gap == nil {
			p.Gap = &sessions.Gap{From: seen + 1, To: next - 1, Reason: damagedOnDisk}
			p.Last = next - 1
			return false
		}
		ended = false // the next page begins with it
		return true
	}
	err = tx.query(func(r *row) error {
		// A row is only decoded once it is known to be in the page: kind first, so that a long body stays on the disk.
		seq, kind := r.s.ColumnInt64(0), sessions.EventKind(r.s.ColumnText(2))
		if missing(seq) {
			return errEnough
		}
		seen = seq
		if scanned++; !pass(kind) {
			if scanned > scanLimit {
				ended = false
				return errEnough
			}
			if len(p.Events) < limit {
				p.Last = seq
			}
			return nil
		}
		if len(p.Events) >= limit {
			ended = false
			return errEnough
		}
		e, n := scan(r)
		if r.err != nil {
			return r.err
		}
		if size += n; maxBytes > 0 && size > maxBytes && len(p.Events) > 0 {
			ended = false
			return errEnough
		}
		p.Events, p.Last = append(p.Events, e), seq
		return nil
	}, "SELECT "+eventColumns+" FROM events WHERE session = ? AND seq > ? ORDER BY seq", n, p.Last)
	switch {
	case err != nil && tx.mend(err):
		return readAround(tx, n, p, last, pass, scan)
	case err != nil:
		return PageOf[E]{}, err
	case ended && !missing(last+1):
		p.Last = last
	default:
		p.More = true
	}
	return p, nil
}

// mend makes a view usable again after a page could not be read: SQLite gave its snapshot up. In an update there is
// nothing to mend.
func (tx *Tx) mend(err error) bool {
	if tx.writable || (tx.fault != nil && !damaged(tx.fault)) || (tx.fault == nil && sessions.CodeOf(err) != sessions.CodeStorageFailed) {
		return false
	}
	tx.j.noteDamage(err)
	tx.fault = nil
	if tx.c.db.GetAutocommit() {
		if err := tx.c.run("BEGIN"); err != nil {
			tx.fault = err
			return false
		}
	}
	return true
}

// readAround goes on where a page met damage. A page that has events already ends before it; else the damage becomes
// its gap and the readable event behind it follows.
func readAround[E any](tx *Tx, session int64, p PageOf[E], last int64, pass func(sessions.EventKind) bool, scan func(*row) (E, int)) (PageOf[E], error) {
	if p.More = true; len(p.Events) > 0 || p.Gap != nil {
		return p, nil
	}
	for tries := 0; p.Last < last && tries < scanLimit; tries++ {
		seq := p.Last + 1
		var e E
		var kind sessions.EventKind
		found, err := tx.one(func(r *row) { kind = sessions.EventKind(r.s.ColumnText(2)); e, _ = scan(r) }, "SELECT "+eventColumns+" FROM events WHERE session = ? AND seq = ?", session, seq)
		switch {
		case err != nil && !tx.mend(err):
			return PageOf[E]{}, err
		case err == nil && found && p.Gap != nil:
			if pass(kind) {
				p.Events = []E{e}
				p.Last = seq
			}
			p.More = p.Last < last
			return p, nil
		case err == nil && found: // the damage lies further on
			if p.Last = seq; pass(kind) {
				p.Events = []E{e}
				return p, nil
			}
		default:
			if p.Gap == nil {
				p.Gap = &sessions.Gap{From: seq, Reason: damagedOnDisk}
			}
			p.Gap.To, p.Last = seq, seq
		}
	}
	p.More = p.Last < last
	return p, nil
}

// ReadNode reads events of all sessions in the order in which they were journalled, after a number of that order.
// Principal "" means everybody's. Numbers have holes where sessions were deleted or updates undone.
func (tx *Tx) ReadNode(principal string, after int64, limit, maxBytes int) ([]NodeEvent, error) {
	var list []NodeEvent
	size := 0
	err := tx.query(func(r *row) error {
		id := r.int()
		e, n := scanEvent(tx, r.text(), r)
		if size += n; maxBytes > 0 && size > maxBytes && len(list) > 0 {
			return errEnough
		}
		list = append(list, NodeEvent{id, e})
		return nil
	}, `SELECT e.id, s.id, e.seq, e.generation, e.kind, e.command, e.at, e.body FROM events e CROSS JOIN sessions s ON s.n = e.session
		WHERE e.id > ? AND s.state <> 'deleted' AND (? = '' OR s.principal = ?) ORDER BY e.id LIMIT ?`, after, principal, principal, limit)
	return list, err
}

// LatestEvent returns the number of a session's newest event after a number that pass lets through. It reads backwards and
// no bodies, so that the end of a long turn is found at once.
func (tx *Tx) LatestEvent(session string, after int64, pass func(kind sessions.EventKind, command string) bool) (seq int64, found bool, err error) {
	n, err := tx.sessionN(session)
	if err != nil {
		return 0, false, err
	}
	err = tx.query(func(r *row) error {
		n, kind, command := r.int(), sessions.EventKind(r.text()), r.text()
		if !pass(kind, command) {
			return nil
		}
		seq, found = n, true
		return errEnough
	}, `SELECT seq, kind, command FROM events WHERE session = ? AND seq > ? AND seq >= (SELECT first_seq FROM sessions WHERE n = ?)
		ORDER BY seq DESC`, n, after, n)
	return seq, found, err
}

// LastFinalText returns the final message of a command: the last text that its agent marked as whole, else what there
// is of the last one. Texts of sub-agents and of items that were given up are no message. found is false when there is
// none.
func (tx *Tx) LastFinalText(session, command string) (text string, found bool, err error) {
	n, err := tx.sessionN(session)
	if err != nil {
		return "", false, err
	}
	var deltas []string // of the last item, newest first
	item, given := "", map[string]bool{}
	err = tx.query(func(r *row) error {
		e, _ := scanEvent(tx, session, r)
		switch {
		case r.err != nil:
			return r.err
		case e.Abandoned:
			given[e.Item] = true
		case e.Agent != "" || given[e.Item]:
		case e.Final:
			text, found = e.Text, true
			return errEnough
		case len(deltas) == 0 || e.Item == item:
			item = e.Item
			deltas = append(deltas, e.Text)
		}
		return nil
	}, "SELECT "+eventColumns+" FROM events WHERE session = ? AND command = ? AND kind = 'text' ORDER BY seq DESC", n, command)
	if err != nil || found || len(deltas) == 0 {
		return text, found, err
	}
	slices.Reverse(deltas)
	return strings.Join(deltas, ""), true, nil
}
