package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// legiblePage is how many rows are read at a time; between two pages no reader is held.
const legiblePage = 500

// legible is a table of which each row must be readable, by itself and as what it is.
type legible struct {
	what, table string
	number      string // the column by which its rows are numbered
	columns     string
	scan        func(tx *Tx, r *row) Problem // whose Session may be a number, and whose ID is the row's
	// lost gives session and more detail of the rows between two numbers that cannot be read, from an index that holds it or
	// from another table; "": nothing does.
	lost string
}

func legibles() []legible {
	// Names are looked up later: what they need may be damaged as well.
	unnamed := func(columns string) string { return strings.Replace(columns, "generation", "''", 1) }
	return []legible{
		{what: "session", table: "sessions", number: "n", columns: sessionRow + "0, created, 0, unread",
			scan: func(_ *Tx, r *row) Problem { s := scanSession(r); return Problem{Session: s.ID, ID: s.ID} },
			lost: "SELECT id, id FROM sessions INDEXED BY sqlite_autoindex_sessions_1 WHERE n BETWEEN ? AND ?"},
		{what: "head", table: "heads", number: "session", columns: "last_seq, updated",
			scan: func(*Tx, *row) Problem { return Problem{} },
			lost: "SELECT id, '' FROM sessions WHERE n BETWEEN ? AND ?"},
		{what: "generation", table: "generations", number: "number", columns: withoutProgress,
			scan: func(_ *Tx, r *row) Problem { g := scanGeneration(r); return Problem{Session: g.Session, ID: g.ID} },
			lost: "SELECT session, n FROM generations INDEXED BY sqlite_autoindex_generations_2 WHERE number BETWEEN ? AND ?"},
		{what: "progress", table: "progress", number: "generation", columns: "last_frame, last_input, last_row",
			scan: func(*Tx, *row) Problem { return Problem{} },
			lost: "SELECT session, id FROM generations WHERE number BETWEEN ? AND ?"},
		{what: "command", table: "commands", number: "position", columns: "session, " + unnamed(commandColumns),
			scan: func(tx *Tx, r *row) Problem {
				n := r.text()
				return Problem{Session: n, ID: scanCommand(tx, "", r).CommandID}
			},
			lost: "SELECT session, id FROM commands INDEXED BY sqlite_autoindex_commands_1 WHERE position BETWEEN ? AND ?"},
		{what: "request", table: "requests", number: "n", columns: requestColumns,
			scan: func(_ *Tx, r *row) Problem { q := scanRequest(r); return Problem{Session: q.Session, ID: q.RequestID} },
			lost: "SELECT session, n FROM requests INDEXED BY requests_session WHERE n BETWEEN ? AND ?"},
		{what: "input", table: "inputs", number: "row", columns: "generation, " + inputColumns,
			scan: func(_ *Tx, r *row) Problem {
				generation, in := r.int(), scanInput("", r)
				if len(in.Payload) > 0 && !json.Valid(in.Payload) {
					r.err = errors.New("its payload is no JSON")
				}
				return Problem{ID: fmt.Sprintf("%d of generation %d", in.N, generation)}
			}},
		{what: "event", table: "events", number: "id", columns: "session, " + unnamed(eventColumns),
			scan: func(tx *Tx, r *row) Problem {
				n := r.text()
				e, _ := scanEvent(tx, "", r)
				return Problem{Session: n, ID: fmt.Sprint(e.Seq)}
			},
			lost: "SELECT session, min(seq) || ' to ' || max(seq) FROM events INDEXED BY events_session WHERE id BETWEEN ? AND ? GROUP BY session"},
	}
}

// checkRows reads every row of the tables whose rows are numbered, and tells which cannot be read, and of which sessions.
func (j *Journal) checkRows(ctx context.Context) ([]Problem, error) {
	var all []Problem
	for _, t := range legibles() {
		w := legibleWalk{t: t}
		for more := true; more; {
			err := j.View(ctx, func(tx *Tx) (err error) {
				more, err = w.page(tx)
				return err
			})
			if err != nil {
				return all, err
			}
		}
		if err := j.View(ctx, w.name); err != nil {
			return all, err
		}
		all = append(all, w.found...)
	}
	return all, nil
}

// legibleWalk goes through one table.
type legibleWalk struct {
	t     legible
	after int64 // the last row that was read or passed over
	found []Problem
}

func (w *legibleWalk) add(p Problem) {
	if p.What = w.t.what; len(w.found) < checkLimit {
		w.found = append(w.found, p)
	}
}

// page reads the next rows, and passes over what is damaged.
func (w *legibleWalk) page(tx *Tx) (more bool, err error) {
	n := 0
	err = tx.query(func(r *row) error {
		number := r.int()
		p := w.t.scan(tx, r)
		w.after = number
		n++
		if r.err != nil {
			p.Detail = fmt.Sprintf("cannot be read as what it is: %v", cmp.Or(errors.Unwrap(r.err), r.err))
			w.add(p)
			r.err = nil
		}
		return nil
	}, "SELECT "+w.t.number+", "+w.t.columns+" FROM "+w.t.table+" NOT INDEXED WHERE "+w.t.number+" > ? ORDER BY "+w.t.number+" LIMIT ?", w.after, legiblePage)
	if err != nil && tx.mend(err) {
		return w.pass(tx)
	}
	return n == legiblePage, err
}

// beyond is more than any row's number.
const beyond = 1 << 40

// pass goes over the rows that cannot be read after the last one that could. A page of a table holds the rows of a range of
// numbers, whose end is found by trying.
func (w *legibleWalk) pass(tx *Tx) (more bool, err error) {
	from := w.after + 1
	next, err := w.rowFrom(tx, from)
	if err != nil {
		return false, err
	}
	if next > 0 { // it is found, and what is damaged lies elsewhere
		w.after = next
		return true, w.lose(tx, next, next)
	}
	low, high := from+1, from+1
	for ; next == 0 && high-from < beyond; high = from + 2*(high-from) {
		if next, err = w.rowFrom(tx, high); err != nil {
			return false, err
		}
		if next == 0 {
			low = high + 1
			continue
		}
		break
	}
	if next == 0 {
		return false, w.lose(tx, from, beyond)
	}
	for low < high {
		middle := low + (high-low)/2
		n, err := w.rowFrom(tx, middle)
		if err != nil {
			return false, err
		}
		if n > 0 {
			next, high = n, middle
		} else {
			low = middle + 1
		}
	}
	w.after = next - 1
	return true, w.lose(tx, from, next-1)
}

// rowFrom is the number of the first row from a number on; 0 where that cannot be read, or there is none.
func (w *legibleWalk) rowFrom(tx *Tx, from int64) (n int64, err error) {
	n, err = tx.number("SELECT "+w.t.number+" FROM "+w.t.table+" NOT INDEXED WHERE "+w.t.number+" >= ? ORDER BY "+w.t.number+" LIMIT 1", from)
	if err != nil && tx.mend(err) {
		return 0, nil
	}
	return n, err
}

// lose tells of the rows between two numbers.
func (w *legibleWalk) lose(tx *Tx, from, to int64) error {
	told := len(w.found)
	if w.t.lost != "" {
		err := tx.query(func(r *row) error {
			w.add(Problem{Session: r.text(), ID: r.text(), Detail: "cannot be read: its page is damaged"})
			return nil
		}, w.t.lost, from, to)
		if err != nil && !tx.mend(err) {
			return err
		}
	}
	if len(w.found) == told {
		w.add(Problem{ID: fmt.Sprintf("rows from %d", from), Detail: "cannot be read: their page is damaged, and whose they are is not known"})
	}
	return nil
}

// name gives the sessions of what was found their ids, where they are named by their numbers.
func (w *legibleWalk) name(tx *Tx) error {
	for i := range w.found {
		n, err := strconv.ParseInt(w.found[i].Session, 10, 64)
		if err != nil {
			continue
		}
		id := ""
		if _, err := tx.one(func(r *row) { id = r.text() }, "SELECT id FROM sessions WHERE n = ?", n); err != nil && !tx.mend(err) {
			return err
		}
		w.found[i].Session = id
	}
	return nil
}
