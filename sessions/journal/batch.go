package journal

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

// batch is what the updates of one transaction add to tables, or move in them, and what is written together: a row in a
// statement of its own costs twice. It is written before a statement that may look for it, and before the commit.
type batch struct {
	commands []commandRow
	events   []eventRow
	inputs   []inputRow
	heads    []headRow
	progress []progressRow
	head     map[int64]int // where a session is in heads
	of       map[int64]int // where a generation is in progress
}

// batchRows is how many rows one statement writes at most.
const batchRows = 16

// batched are the tables that a batch is written to. A statement that names one of them needs the batch to be in it.
var batched = []string{"commands", "events", "inputs", "heads", "progress"}

// commandRow is a command of which nothing has become yet.
type commandRow struct {
	session       int64
	generation    reference
	overrides     json.RawMessage
	position      int64
	id, principal string
	state         sessions.CommandState
	text, busy    string
	deadline      int
	created       int64
	submitted     int64
}

type eventRow struct {
	id, session, seq int64
	generation       reference
	kind             sessions.EventKind
	command          string
	at               int64
	body             json.RawMessage
}

type inputRow struct {
	row, generation, n, before int64
	kind, ref                  string
	payload                    json.RawMessage
	at                         int64
}

type headRow struct{ session, lastSeq, updated int64 }

type progressRow struct{ generation, lastFrame, lastInput, lastRow int64 }

// reference names a generation in another row: by its number, or as it was named when there is none of that id.
type reference struct {
	number int64
	id     string
}

// inserts are the statements that write one row, two, and so on. One that fails leaves the rows before it to its update,
// which is undone as a whole: else SQLite would keep a copy of each page for every statement that adds more than one row.
func inserts(into, row string) (sql [batchRows]string) {
	for i := range sql {
		sql[i] = "INSERT OR " + into + " VALUES " + strings.Repeat(row+",", i) + row
	}
	return sql
}

var (
	insertCommands = inserts("FAIL INTO commands ("+commandInsert+")", "(?,?,?,?,?,'','','',?,'',?,?,?,'',0,0,'',?,?,0)")
	insertEvents   = inserts("FAIL INTO events ("+eventInsert+")", "(?,?,?,?,?,?,?)")
	insertInputs   = inserts("FAIL INTO inputs (generation, n, before, kind, ref, payload, state, detail, created, updated)", "(?,?,?,?,?,?,'pending','',?,?)")
	insertHeads    = inserts("REPLACE INTO heads (session, last_seq, updated)", "(?,?,?)")
	insertProgress = inserts("REPLACE INTO progress (generation, last_frame, last_input, last_row)", "(?,?,?,?)")
)

func (b *batch) empty() bool {
	return len(b.commands)+len(b.events)+len(b.inputs)+len(b.heads)+len(b.progress) == 0
}

func (b *batch) clear() {
	clear(b.commands) // their texts
	clear(b.events)
	clear(b.inputs)
	b.commands, b.events, b.inputs, b.heads, b.progress = b.commands[:0], b.events[:0], b.inputs[:0], b.heads[:0], b.progress[:0]
	clear(b.head)
	clear(b.of)
}

// write brings everything into the tables.
func (b *batch) write(c *conn) error {
	err := writeRows(c, &insertCommands, b.commands, (*commandRow).bind)
	if err == nil {
		err = writeRows(c, &insertEvents, b.events, (*eventRow).bind)
	}
	if err == nil {
		err = writeRows(c, &insertInputs, b.inputs, (*inputRow).bind)
	}
	if err == nil {
		err = writeRows(c, &insertHeads, b.heads, (*headRow).bind)
	}
	if err == nil {
		err = writeRows(c, &insertProgress, b.progress, (*progressRow).bind)
	}
	b.clear() // also after an error: what it leaves is undone as a whole
	return err
}

// numbered is a row that knows the number which its table will give to it; 0: it need not.
type numbered interface{ rowid() int64 }

// writeRows writes rows with the statements of their table. SQLite gives them the numbers that follow the highest one:
// with numbers in the statement it would keep a copy of each page.
func writeRows[R numbered](c *conn, sql *[batchRows]string, rows []R, bind func(*R, *binder)) error {
	for len(rows) > 0 {
		n := min(len(rows), batchRows)
		s, err := c.take(sql[n-1])
		if err != nil {
			return err
		}
		to := binder{s: s}
		for i := range rows[:n] {
			bind(&rows[i], &to)
		}
		if err = to.err; err == nil {
			s.Step()
			err = s.Err()
		}
		if e := c.give(sql[n-1], s); err == nil {
			err = e
		}
		if want := rows[n-1].rowid(); err == nil && want != 0 && want != c.db.LastInsertRowID() {
			err = fmt.Errorf("row %d was to be %d", c.db.LastInsertRowID(), want)
		}
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (c commandRow) rowid() int64 { return c.position }
func (e eventRow) rowid() int64   { return e.id }
func (in inputRow) rowid() int64  { return in.row }
func (headRow) rowid() int64      { return 0 }
func (progressRow) rowid() int64  { return 0 }

// binder sets the parameters of a statement in their order.
type binder struct {
	s   *sqlite3.Stmt
	i   int
	err error
}

func (b *binder) int(v int64) {
	if b.i++; b.err == nil {
		b.err = b.s.BindInt64(b.i, v)
	}
}

func (b *binder) text(v string) {
	if b.i++; b.err == nil {
		b.err = b.s.BindText(b.i, v)
	}
}

func (b *binder) reference(r reference) {
	if r.number != 0 {
		b.int(r.number)
	} else {
		b.text(r.id)
	}
}

func (b *binder) raw(v []byte) {
	if b.i++; b.err == nil {
		b.err = b.s.BindText(b.i, string(v)) // no copy: the compiler sees that it does not stay
	}
}

// writeBatch is batch.write for an update.
func (tx *Tx) writeBatch() error {
	return tx.refused(tx.j.batch.write(tx.c))
}

// refused takes the outcome of a write of the batch.
func (tx *Tx) refused(err error) error {
	if err == nil {
		return nil
	}
	err = tx.failed(err)
	if tx.lost == nil {
		tx.lost = err
	}
	return err
}

// mayWrite refuses to add to the batch of a view, or of a transaction that is over.
func (tx *Tx) mayWrite() error {
	if !tx.writable {
		return errView
	}
	return tx.usable()
}

func (tx *Tx) addCommand(c commandRow) error {
	return add(tx, &tx.j.batch.commands, c, &insertCommands, (*commandRow).bind)
}

func (tx *Tx) addEvent(e eventRow) error {
	return add(tx, &tx.j.batch.events, e, &insertEvents, (*eventRow).bind)
}

func (tx *Tx) addInput(in inputRow) error {
	return add(tx, &tx.j.batch.inputs, in, &insertInputs, (*inputRow).bind)
}

// add adds a row, and writes those of its table when they fill a statement.
func add[R numbered](tx *Tx, rows *[]R, row R, sql *[batchRows]string, bind func(*R, *binder)) error {
	tx.wrote = true
	if *rows = append(*rows, row); len(*rows) < batchRows {
		return nil
	}
	err := writeRows(tx.c, sql, *rows, bind)
	clear(*rows) // their texts
	*rows = (*rows)[:0]
	return tx.refused(err)
}

// putHead takes what moves with every change of a session.
func (tx *Tx) putHead(s *Session) error {
	if err := tx.mayWrite(); err != nil {
		return err
	}
	tx.wrote = true
	put(&tx.j.batch.heads, &tx.j.batch.head, s.N, headRow{s.N, s.LastSeq, nanos(s.UpdatedAt)})
	return nil
}

// putProgress takes what moves with every frame and every input of a generation.
func (tx *Tx) putProgress(g *Generation) error {
	if err := tx.mayWrite(); err != nil {
		return err
	}
	tx.wrote = true
	put(&tx.j.batch.progress, &tx.j.batch.of, g.number, progressRow{g.number, g.LastFrame, g.LastInput, g.lastRow})
	return nil
}

// put adds a row, or writes over the one of that number.
func put[R any](rows *[]R, at *map[int64]int, number int64, row R) {
	if i, there := (*at)[number]; there {
		(*rows)[i] = row
		return
	}
	if *at == nil {
		*at = map[int64]int{}
	}
	(*at)[number] = len(*rows)
	*rows = append(*rows, row)
}

func (c *commandRow) bind(b *binder) {
	b.int(c.session)
	b.text(c.id)
	b.text(c.principal)
	b.reference(c.generation)
	b.text(string(c.state))
	b.text(c.text)
	b.raw(c.overrides)
	b.text(c.busy)
	b.int(int64(c.deadline))
	b.int(c.created)
	b.int(c.submitted)
}

func (e *eventRow) bind(b *binder) {
	b.int(e.session)
	b.int(e.seq)
	b.reference(e.generation)
	b.text(string(e.kind))
	b.text(e.command)
	b.int(e.at)
	b.raw(e.body)
}

func (in *inputRow) bind(b *binder) {
	b.int(in.generation)
	b.int(in.n)
	b.int(in.before)
	b.text(in.kind)
	b.text(in.ref)
	b.raw(in.payload)
	b.int(in.at)
	b.int(in.at)
}

func (h *headRow) bind(b *binder) {
	b.int(h.session)
	b.int(h.lastSeq)
	b.int(h.updated)
}

func (p *progressRow) bind(b *binder) {
	b.int(p.generation)
	b.int(p.lastFrame)
	b.int(p.lastInput)
	b.int(p.lastRow)
}
