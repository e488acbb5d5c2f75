package journal

import (
	"slices"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Request is the row of an approval or question.
type Request struct {
	sessions.Request
	N          int64     `json:"n,omitempty"` // order over all requests; given by InsertRequest
	AnsweredAt time.Time `json:"answered_at,omitzero"`
	SettledAt  time.Time `json:"settled_at,omitzero"`
}

const requestColumns = `n, id, session, generation, command, handle, kind, state, body, answer, answered_by, reason, asked, answered, settled`

func scanRequest(r *row) Request {
	q := Request{N: r.int()}
	id, session, generation, command, handle, kind, state := r.text(), r.text(), r.text(), r.text(), r.text(), r.text(), r.text()
	r.json(&q.Request)
	q.RequestID, q.Session, q.Generation, q.Command, q.Handle = id, session, generation, command, handle
	q.Kind, q.State = sessions.RequestKind(kind), sessions.RequestState(state)
	r.json(&q.Answer)
	q.AnsweredBy, q.Reason, q.AskedAt, q.AnsweredAt, q.SettledAt = r.text(), r.text(), r.time(), r.time(), r.time()
	return q
}

// body is the request without what other columns hold.
func (q *Request) body() sessions.Request {
	b := q.Request
	b.RequestID, b.Session, b.Generation, b.Command, b.Handle = "", "", "", "", ""
	b.Kind, b.State, b.Answer, b.AnsweredBy, b.Reason, b.AskedAt = "", "", nil, "", "", time.Time{}
	return b
}

// InsertRequest adds a request, pending when it names no state, and fills N and AskedAt. A handle that its generation
// used before is CodeKeyConflict.
func (tx *Tx) InsertRequest(q *Request) error {
	if q.State == "" {
		q.State = sessions.RequestPending
	}
	if q.AskedAt.IsZero() {
		q.AskedAt = tx.now
	}
	if _, taken, err := tx.FindHandle(q.Generation, q.Handle); err != nil {
		return err
	} else if taken {
		return sessions.Errorf(sessions.CodeKeyConflict, "handle %q was used before in generation %s", q.Handle, q.Generation).
			Do("the agent asked twice under one id; answer the first request")
	}
	j, err := encodeAll(q.body(), q.Answer)
	if err != nil {
		return err
	}
	_, err = tx.exec(`INSERT INTO requests (id, session, generation, command, handle, kind, state, body, answer, answered_by, reason,
		asked, answered, settled) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		q.RequestID, q.Session, q.Generation, q.Command, q.Handle, q.Kind, q.State, j[0], j[1], q.AnsweredBy, q.Reason, q.AskedAt,
		q.AnsweredAt, q.SettledAt)
	if err != nil {
		return err
	}
	q.N = tx.c.db.LastInsertRowID()
	tx.noteRequest(*q)
	tx.Touch(q.Session)
	return nil
}

// FindRequest returns a request and whether there is one.
func (tx *Tx) FindRequest(id string) (Request, bool, error) {
	return tx.request("WHERE id = ?", id)
}

// FindHandle returns the request that an adapter calls by this handle, and whether there is one.
func (tx *Tx) FindHandle(generation, handle string) (Request, bool, error) {
	return tx.request("WHERE generation = ? AND handle = ?", generation, handle)
}

// GetRequest returns a request of a session; CodeNotFound when the session has none of that id.
func (tx *Tx) GetRequest(session, id string) (Request, error) {
	q, found, err := tx.FindRequest(id)
	if err == nil && (!found || q.Session != session) {
		return Request{}, notFound("request", id)
	}
	return q, err
}

// MoveRequest moves a request by the machine and returns its new state; it stamps AnsweredAt and SettledAt, and writes
// what change (which may be nil) alters along. An answer that comes too late is CodeAlreadyAnswered, CodeWithdrawn,
// CodeStaleGeneration or CodeOutcomeUnknown; any other transition that the machine does not have is a
// *sessions.ImpossibleError. Nothing changed then.
func (tx *Tx) MoveRequest(id string, event sessions.RequestEvent, change func(*Request)) (sessions.RequestState, error) {
	q, found, err := tx.FindRequest(id)
	if err != nil {
		return "", err
	}
	if !found {
		return "", notFound("request", id)
	}
	next, err := sessions.NextRequest(q.State, event)
	if err != nil {
		if event == sessions.RequestAnswer {
			return q.State, tooLate(&q)
		}
		return q.State, tx.impossible(q.Session, err)
	}
	was := q
	if next == sessions.RequestAnswering {
		q.AnsweredAt = tx.now
	} else {
		q.SettledAt = tx.now
	}
	if change != nil {
		change(&q)
	}
	q.N, q.RequestID, q.Session, q.Generation, q.Handle = was.N, was.RequestID, was.Session, was.Generation, was.Handle
	q.Kind, q.State, q.AskedAt = was.Kind, next, was.AskedAt
	j, err := encodeAll(q.body(), q.Answer)
	if err != nil {
		return was.State, err
	}
	tx.Touch(q.Session)
	_, err = tx.exec(`UPDATE requests SET command=?, state=?, body=?, answer=?, answered_by=?, reason=?, answered=?, settled=? WHERE n = ?`,
		q.Command, q.State, j[0], j[1], q.AnsweredBy, q.Reason, q.AnsweredAt, q.SettledAt, q.N)
	if err != nil {
		return was.State, err
	}
	tx.noteRequest(q)
	return next, nil
}

// tooLate is the refusal of an answer to a request that does not wait for one.
func tooLate(q *Request) error {
	switch q.State {
	case sessions.RequestAnswering, sessions.RequestAnswered:
		return sessions.Errorf(sessions.CodeAlreadyAnswered, "request %s was answered by %s at %s", q.RequestID, q.AnsweredBy,
			q.AnsweredAt.Format(time.RFC3339)).Do("nothing is left to do; the first answer stands").With("answer", q.Answer)
	case sessions.RequestWithdrawn:
		return sessions.Errorf(sessions.CodeWithdrawn, "request %s is no longer waited for: %s", q.RequestID, q.Reason).
			Do("look at the session's events for what the agent did instead")
	case sessions.RequestUnknown:
		return sessions.Errorf(sessions.CodeOutcomeUnknown, "request %s was answered, but the agent was lost before it was proven to know", q.RequestID).
			Do("resume the session; the agent asks again if it still needs to know")
	}
	why := ""
	if q.Answer != nil {
		why = "; the answer of " + q.AnsweredBy + " was never given to the agent"
	}
	return sessions.Errorf(sessions.CodeStaleGeneration, "request %s belongs to generation %s, which ended%s", q.RequestID, q.Generation, why).
		Do("resume the session; the agent asks again if it still needs to know")
}

// PendingRequests returns what waits for an answer or for its delivery (pending and answering), oldest first.
func (tx *Tx) PendingRequests(session string) ([]Request, error) {
	if tx.writable {
		list, err := tx.knownAsked(session)
		return slices.Clone(list), err
	}
	return tx.requests(waitingRequests, session)
}

const waitingRequests = "WHERE session = ? AND state IN ('pending', 'answering') ORDER BY n"

// ListRequests returns up to limit requests of a session in their order, after the one with N after.
func (tx *Tx) ListRequests(session string, after int64, limit int) ([]Request, error) {
	return tx.requests("WHERE session = ? AND n > ? ORDER BY n LIMIT ?", session, after, limit)
}

func (tx *Tx) request(where string, args ...any) (q Request, found bool, err error) {
	found, err = tx.one(func(r *row) { q = scanRequest(r) }, "SELECT "+requestColumns+" FROM requests "+where, args...)
	return q, found, err
}

func (tx *Tx) requests(where string, args ...any) ([]Request, error) {
	var list []Request
	err := tx.query(func(r *row) error {
		list = append(list, scanRequest(r))
		return nil
	}, "SELECT "+requestColumns+" FROM requests "+where, args...)
	return list, err
}
