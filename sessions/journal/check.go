package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// Problem is something in the journal that its own rules forbid.
type Problem struct {
	Session string `json:"session,omitempty"`
	What    string `json:"what"` // the table, or "file"
	ID      string `json:"id,omitempty"`
	Detail  string `json:"detail"`
}

func (p Problem) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s", p.What, p.ID, p.Detail))
}

// checkLimit bounds the problems of one rule, so that a ruined file does not make an endless report.
const checkLimit = 100

// Check reads the whole journal and returns what contradicts its invariants. Damage is a problem too, and what can be
// read beside it is checked nevertheless; an error means that the check itself could not be made.
func (j *Journal) Check(ctx context.Context) ([]Problem, error) { return j.check(ctx, true) }

// check leaves out what only holds where a host wrote the rows, when conduct is false.
func (j *Journal) check(ctx context.Context, conduct bool) ([]Problem, error) {
	var found []Problem
	for _, rule := range rules() {
		if rule.conduct && !conduct {
			continue
		}
		n := 0
		err := j.View(ctx, func(tx *Tx) error { // one each: what is read for long holds the log back
			err := tx.query(func(r *row) error {
				p := Problem{What: rule.what, Session: r.text(), ID: r.text(), Detail: rule.detail}
				if extra := r.text(); extra != "" {
					p.Detail = strings.TrimSpace(rule.detail + " " + extra)
				}
				if n++; n > checkLimit {
					return errEnough
				}
				found = append(found, p)
				return nil
			}, rule.sql, rule.args...)
			if err != nil && tx.mend(err) {
				found = append(found, Problem{What: rule.what, Detail: rule.unchecked(err)})
				return nil
			}
			return err
		})
		if err != nil {
			return found, err
		}
	}
	unreadable, err := j.checkRows(ctx)
	return append(found, unreadable...), err
}

type rule struct {
	what, detail, sql string // the query gives session, id and more detail of each offender
	args              []any
	conduct           bool // it is the host that keeps it
}

// unchecked says what is not known because of damage.
func (r *rule) unchecked(err error) string {
	if r.detail == "" {
		return fmt.Sprintf("cannot be read whole: %v", err)
	}
	return fmt.Sprintf("cannot all be read, so that it is not known whether one %s", strings.TrimSuffix(r.detail, ":"))
}

// rules gives every rule as a query for its offenders.
func rules() []rule {
	return []rule{
		{what: "file", sql: "SELECT '', '', integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'"},

		{what: "session", detail: "has the unknown state",
			sql: "SELECT id, id, state FROM sessions WHERE state NOT IN (SELECT value FROM json_each(?))", args: list(sessions.SessionStates())},
		{what: "session", detail: "names a generation that does not exist:",
			sql: "SELECT id, id, generation FROM sessions s WHERE generation <> '' AND NOT EXISTS (SELECT 1 FROM generations g WHERE g.id = s.generation AND g.session = s.id)"},
		{what: "session", detail: "counts its events wrong:",
			sql: `SELECT id, id, printf('last_seq %d, events from %d: %d, up to %d', last_seq, first_seq, n, top) FROM (
				SELECT s.id, s.first_seq, coalesce(h.last_seq, -1) last_seq,
					(SELECT count(*) FROM events e WHERE e.session = s.n AND e.seq >= s.first_seq) n,
					(SELECT coalesce(max(seq), 0) FROM events e WHERE e.session = s.n) top
				FROM sessions s LEFT JOIN heads h ON h.session = s.n WHERE s.state <> 'deleted')
				WHERE n <> last_seq - first_seq + 1 OR (last_seq >= first_seq AND top <> last_seq) OR top > last_seq`},
		{what: "session", detail: "is not marked for what was not acknowledged:",
			sql: `SELECT id, id, printf('last_seq %d, acked %d, unread %d', last_seq, acked, unread) FROM sessions JOIN heads ON session = n
				WHERE unread <> (last_seq > acked AND state <> 'deleted')`},
		{what: "session", detail: "has acknowledged more events than it has:",
			sql: "SELECT id, id, printf('last_seq %d, acked %d', last_seq, acked) FROM sessions JOIN heads ON session = n WHERE acked > last_seq"},
		{what: "session", detail: "keeps events that it says are gone:",
			sql: `SELECT id, id, printf('first_seq %d, purged %d', first_seq, purged) FROM sessions s
				WHERE purged >= first_seq OR EXISTS (SELECT 1 FROM events e WHERE e.session = s.n AND (e.seq < 1 OR e.seq <= s.purged))`},
		{what: "session", detail: "lives without a live generation:", conduct: true,
			sql: `SELECT id, id, state FROM sessions s WHERE state IN ('starting', 'idle', 'running', 'closing')
				AND NOT EXISTS (SELECT 1 FROM generations g WHERE g.id = s.generation AND g.session = s.id AND g.ended = 0)`},
		{what: "session", detail: "names a generation that is not its newest:",
			sql: `SELECT id, id, generation FROM sessions s WHERE generation <> '' AND EXISTS (SELECT 1 FROM generations g, generations later
				WHERE g.id = s.generation AND later.session = s.id AND later.n > g.n)`},
		{what: "session", detail: "is deleted, and has rows left:",
			sql: `SELECT id, id, printf('wiped %d', wiped) FROM sessions s WHERE wiped <> 0 AND (state <> 'deleted'
				OR EXISTS (SELECT 1 FROM generations g WHERE g.session = s.id) OR EXISTS (SELECT 1 FROM requests q WHERE q.session = s.id)
				OR EXISTS (SELECT 1 FROM events e WHERE e.session = s.n))`},
		{what: "head", detail: "belongs to no session",
			sql: "SELECT '', session, '' FROM heads WHERE session NOT IN (SELECT n FROM sessions)"},

		{what: "event", detail: "belongs to no session",
			sql: "SELECT session, min(seq), '' FROM events GROUP BY session HAVING session NOT IN (SELECT n FROM sessions)"},
		{what: "event", detail: "has the unknown kind",
			sql: "SELECT (SELECT id FROM sessions WHERE n = session), seq, kind FROM events WHERE kind NOT IN (SELECT value FROM json_each(?))", args: list(sessions.EventKinds())},
		{what: "event", detail: "names a generation that does not exist:",
			sql: `SELECT (SELECT id FROM sessions WHERE n = session), seq, generation FROM events
				WHERE typeof(generation) <> 'text' AND generation NOT IN (SELECT number FROM generations)`},

		{what: "event", detail: "is of another session's generation",
			sql: `SELECT (SELECT id FROM sessions WHERE n = e.session), seq, '' FROM events e JOIN generations g ON g.number = e.generation
				WHERE typeof(e.generation) = 'integer' AND g.session <> (SELECT id FROM sessions WHERE n = e.session)`},

		{what: "generation", detail: "belongs to no session",
			sql: "SELECT session, id, '' FROM generations WHERE session NOT IN (SELECT id FROM sessions)"},
		{what: "generation", detail: "is live beside another one",
			sql: "SELECT session, max(id), '' FROM generations WHERE +ended = 0 GROUP BY session HAVING count(*) > 1"},
		{what: "generation", detail: "is live, but its session is",
			sql: "SELECT g.session, g.id, s.state FROM generations g JOIN sessions s ON s.id = g.session WHERE g.ended = 0 AND s.state IN ('closed', 'deleted')"},

		{what: "generation", detail: "has a verdict that does not go with its end:", conduct: true,
			sql: `SELECT session, id, printf('ended %d, verdict %s', ended, verdict) FROM generations
				WHERE ended = 0 AND verdict <> '' OR ended <> 0 AND (verdict NOT IN ('confirmed', 'unconfirmed'))`},
		{what: "generation", detail: "is not counted right in its session:",
			sql: "SELECT session, max(id), printf('%d of %d', count(*), max(n)) FROM generations GROUP BY session HAVING count(*) <> max(n) OR min(n) < 1"},
		{what: "generation", detail: "is live before a later one",
			sql: "SELECT g.session, g.id, '' FROM generations g WHERE g.ended = 0 AND EXISTS (SELECT 1 FROM generations l WHERE l.session = g.session AND l.n > g.n)"},

		{what: "command", detail: "belongs to no session",
			sql: "SELECT session, id, '' FROM commands WHERE session NOT IN (SELECT n FROM sessions)"},
		{what: "command", detail: "names a generation that does not exist:",
			sql: `SELECT (SELECT id FROM sessions WHERE n = session), id, generation FROM commands
				WHERE typeof(generation) <> 'text' AND generation NOT IN (SELECT number FROM generations)`},
		{what: "command", detail: "has the unknown state",
			sql: "SELECT (SELECT s.id FROM sessions s WHERE s.n = session), id, state FROM commands WHERE state NOT IN (SELECT value FROM json_each(?))", args: list(sessions.CommandStates())},
		{what: "command", detail: "runs beside another one",
			sql: "SELECT (SELECT s.id FROM sessions s WHERE s.n = session), max(id), '' FROM commands WHERE +steer = '' AND +state IN ('submitted', 'accepted') GROUP BY session HAVING count(*) > 1"},
		{what: "command", detail: "runs, but its session is",
			sql: `SELECT s.id, c.id, s.state FROM commands c JOIN sessions s ON s.n = c.session
				WHERE c.state IN ('submitted', 'accepted') AND (s.state IN ('reserved', 'closed', 'deleted')
				OR c.steer = '' AND s.state IN ('starting', 'idle') OR s.state = 'failed' AND NOT EXISTS (SELECT 1 FROM generations g WHERE g.session = s.id AND g.ended = 0))`}, // else its end is on its way
		{what: "command", detail: "has a time of settlement that does not go with its state",
			sql: "SELECT (SELECT s.id FROM sessions s WHERE s.n = session), id, state FROM commands WHERE (settled > 0) <> (state NOT IN ('queued', 'submitted', 'accepted'))"},

		{what: "command", detail: "is of another principal than its session", conduct: true,
			sql: "SELECT s.id, c.id, c.principal FROM commands c JOIN sessions s ON s.n = c.session WHERE c.principal <> s.principal"},
		{what: "command", detail: "is of another session's generation",
			sql: `SELECT s.id, c.id, '' FROM commands c JOIN sessions s ON s.n = c.session JOIN generations g ON g.number = c.generation
				WHERE typeof(c.generation) = 'integer' AND g.session <> s.id`},
		{what: "command", detail: "has a time of submission that does not go with its state", conduct: true,
			sql: "SELECT (SELECT s.id FROM sessions s WHERE s.n = session), id, state FROM commands WHERE (submitted > 0) <> (state NOT IN ('queued', 'cancelled'))"},
		{what: "command", detail: "steers one that does not exist:", conduct: true,
			sql: `SELECT (SELECT s.id FROM sessions s WHERE s.n = session), id, steer FROM commands c
				WHERE steer <> '' AND NOT EXISTS (SELECT 1 FROM commands t WHERE t.id = c.steer AND t.session = c.session)`},
		{what: "command", detail: "was submitted without an intent", conduct: true,
			sql: `SELECT (SELECT s.id FROM sessions s WHERE s.n = session), id, state FROM commands
				WHERE submitted > 0 AND (generation, id) NOT IN (SELECT generation, ref FROM inputs WHERE kind = 'prompt')`},
		{what: "command", detail: "was given to an agent more than once:", conduct: true,
			sql: `SELECT g.session, i.ref, printf('%d prompts', count(*)) FROM inputs i JOIN generations g ON g.number = i.generation
				WHERE i.kind = 'prompt' GROUP BY g.session, i.ref HAVING count(*) > 1`},
		{what: "command", detail: "was forbidden before it was there", conduct: true,
			sql: "SELECT f.scope, f.id, '' FROM fences f JOIN sessions s ON s.id = f.scope JOIN commands c ON c.id = f.id AND c.session = s.n WHERE f.kind = 'command'"},
		{what: "command", detail: "is not as its last event says:", conduct: true,
			sql: `SELECT s.id, c.id, printf('%s, the event says %s', c.state, coalesce(e.state, 'nothing')) FROM commands c JOIN sessions s ON s.n = c.session
				LEFT JOIN (` + settledEvents + `) e ON e.session = c.session AND e.command = c.id
				WHERE s.state <> 'deleted' AND e.state IS NOT c.state AND (e.state IS NOT NULL OR c.settled > 0 AND s.first_seq = 1)`},
		{what: "command", detail: "was settled more than once:",
			sql: `SELECT (SELECT id FROM sessions WHERE n = session), command, printf('%d ends', ends) FROM (` + settledEvents + `) WHERE ends > 1`},

		{what: "request", detail: "belongs to no session",
			sql: "SELECT session, id, '' FROM requests WHERE session NOT IN (SELECT id FROM sessions)"},
		{what: "request", detail: "has the unknown state",
			sql: "SELECT session, id, state FROM requests WHERE state NOT IN (SELECT value FROM json_each(?))", args: list(sessions.RequestStates())},
		{what: "request", detail: "waits, but its generation is not live:",
			sql: `SELECT session, id, generation FROM requests q WHERE state IN ('pending', 'answering')
				AND NOT EXISTS (SELECT 1 FROM generations g WHERE g.id = q.generation AND g.session = q.session AND g.ended = 0)`},

		{what: "request", detail: "is of no generation of its session:",
			sql: `SELECT session, id, generation FROM requests q WHERE NOT EXISTS (SELECT 1 FROM generations g WHERE g.id = q.generation AND g.session = q.session)`},
		{what: "request", detail: "is about a command that does not exist:", conduct: true,
			sql: `SELECT q.session, q.id, q.command FROM requests q JOIN sessions s ON s.id = q.session
				WHERE q.command <> '' AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = q.command AND c.session = s.n)`},
		{what: "request", detail: "has an answer that does not go with its state:", conduct: true,
			sql: `SELECT session, id, state FROM requests WHERE state = 'pending' AND (answer <> '' OR answered > 0)
				OR state IN ('answering', 'answered', 'unknown') AND (answer = '' OR answered = 0 OR answered_by = '')`},
		{what: "request", detail: "has a time of settlement that does not go with its state:",
			sql: "SELECT session, id, state FROM requests WHERE (settled > 0) <> (state NOT IN ('pending', 'answering'))"},
		{what: "request", detail: "was answered without an intent:", conduct: true,
			sql: `SELECT session, id, state FROM requests q WHERE answered > 0 AND NOT EXISTS (SELECT 1 FROM generations g
				WHERE g.id = q.generation AND (g.number, q.id) IN (SELECT generation, ref FROM inputs WHERE kind = 'answer'))`},
		{what: "request", detail: "was answered more than once:", conduct: true,
			sql: `SELECT g.session, i.ref, printf('%d answers', count(*)) FROM inputs i JOIN generations g ON g.number = i.generation
				WHERE i.kind = 'answer' GROUP BY i.ref HAVING count(*) > 1`},

		{what: "input", detail: "belongs to no generation",
			sql: "SELECT '', generation || ' ' || n, '' FROM inputs WHERE generation NOT IN (SELECT number FROM generations)"},
		{what: "progress", detail: "belongs to no generation",
			sql: "SELECT '', generation, '' FROM progress WHERE generation NOT IN (SELECT number FROM generations)"},
		{what: "input", detail: "has the unknown state",
			sql: "SELECT '', (SELECT id FROM generations WHERE number = generation) || ' ' || n, state FROM inputs WHERE state NOT IN (SELECT value FROM json_each(?))", args: list(inputOrder)},
		{what: "input", detail: "has holes in its numbers:",
			sql: `SELECT g.session, g.id, printf('last %d, %d there', coalesce(p.last_input, -1), coalesce(i.count, 0)) FROM generations g
				LEFT JOIN (SELECT generation, count(*) count, max(n) top FROM inputs GROUP BY generation) i ON i.generation = g.number
				LEFT JOIN progress p ON p.generation = g.number
				JOIN sessions s ON s.id = g.session AND s.state <> 'deleted'
				WHERE coalesce(i.count, 0) <> coalesce(p.last_input, -1) OR coalesce(i.top, 0) <> coalesce(p.last_input, -1)`},
		{what: "input", detail: "is not found from the newest one of its generation:",
			sql: `SELECT g.session, g.id || ' ' || (o.n - 1), printf('row %d', o.row) FROM (
				SELECT generation, last_input + 1 n, last_row row FROM progress UNION ALL SELECT generation, n, before FROM inputs) o
				JOIN generations g ON g.number = o.generation JOIN sessions s ON s.id = g.session AND s.state <> 'deleted'
				WHERE CASE WHEN o.n = 1 THEN o.row <> 0 ELSE NOT EXISTS (
					SELECT 1 FROM inputs i WHERE i.row = o.row AND i.generation = o.generation AND i.n = o.n - 1) END`},
		{what: "input", detail: "is about something that does not exist:",
			sql: `SELECT g.session, g.id || ' ' || i.n, i.kind || ' ' || i.ref FROM inputs i JOIN generations g ON g.number = i.generation
				JOIN sessions s ON s.id = g.session AND s.state <> 'deleted'
				WHERE (i.kind IN ('prompt', 'cancel') AND NOT (i.kind = 'cancel' AND i.ref = g.session)
					AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.session = s.n AND c.id = i.ref))
				OR (i.kind = 'answer' AND NOT EXISTS (SELECT 1 FROM requests q WHERE q.id = i.ref AND q.session = g.session))`},

		{what: "operation", detail: "is about something that does not exist:",
			sql: `SELECT o.scope, o.principal || ' ' || o.key, o.verb FROM operations o WHERE o.scope <> ''
				AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = o.scope AND s.principal = o.principal)
				AND NOT EXISTS (SELECT 1 FROM fences f WHERE f.principal = o.principal AND (f.id = o.scope OR f.scope = o.scope))`},
		{what: "operation", detail: "is the receipt of a command that does not exist", conduct: true,
			sql: `SELECT o.scope, o.principal || ' ' || o.key, '' FROM operations o JOIN sessions s ON s.id = o.scope
				WHERE o.verb = 'send' AND s.state <> 'deleted' AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = o.key AND c.session = s.n)`},
		{what: "operation", detail: "has no meaning to be known again by", conduct: true,
			sql: "SELECT scope, principal || ' ' || key, verb FROM operations WHERE meaning = '' OR verb = '' OR principal = '' OR key = ''"},
		{what: "fence", detail: "forbids a session that is there", conduct: true,
			sql: "SELECT s.id, s.id, '' FROM fences f JOIN sessions s ON s.id = f.id AND s.principal = f.principal WHERE f.kind = 'session'"},
		{what: "operation", detail: "has a result that is no JSON",
			sql: "SELECT scope, principal || ' ' || key, '' FROM operations WHERE result <> '' AND NOT json_valid(result)"},

		{what: "consumer", detail: "stands beyond the last event",
			sql: `SELECT '', name, cursor FROM consumers WHERE instr(name, '/') = 0
				AND cursor > (` + lastEvent + `)`},
	}
}

// settledEvents are the ends of commands as events tell them: the last one, and how many of them were for good.
const settledEvents = `SELECT session, command, max(seq), json_extract(body, '$.settled.state') state,
	sum(json_extract(body, '$.settled.state') <> 'unknown') ends
	FROM events WHERE kind = 'command.settled' AND json_valid(body) GROUP BY session, command`

// list makes the argument of json_each.
func list[T ~string](values []T) []any {
	b, _ := json.Marshal(values) // strings always encode
	return []any{string(b)}
}
