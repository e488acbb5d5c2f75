package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
)

// Tx is the journal as one Update or View sees it. It is valid inside its function only, on that goroutine.
type Tx struct {
	j        *Journal
	c        *conn
	writable bool
	now      time.Time
	alone    bool     // each update of the transaction is in the tables before the next one begins
	wrote    bool     // a statement that changes rows has run
	names    names    // what the last numbers stood for
	touched  []string // sessions whose rows or events changed, each once
	lost     error    // why rows of the batch, whosever they are, were not written
	fault    error    // the first fault of the storage; the transaction fails with it whatever fn returns
}

// errEnough stops a query early.
var errEnough = errors.New("enough")

var errView = sessions.Errorf(sessions.CodeInternal, "a view of the journal cannot change it")

// Now is the time of this transaction; everything in it happens then.
func (tx *Tx) Now() time.Time { return tx.now }

// Touch reports a session as changed to Options.Committed although no row of it was written.
func (tx *Tx) Touch(session string) {
	if tx.writable && session != "" && !slices.Contains(tx.touched, session) {
		tx.touched = append(tx.touched, session)
	}
}

// exec runs a statement that changes rows and returns how many.
func (tx *Tx) exec(sql string, args ...any) (int64, error) {
	if !tx.writable {
		return 0, errView
	}
	tx.wrote = true
	if err := tx.query(nil, sql, args...); err != nil {
		return 0, err
	}
	return tx.c.db.Changes(), nil
}

// query runs a statement and gives each row to each, until it returns an error. errEnough ends it without one.
func (tx *Tx) query(each func(*row) error, sql string, args ...any) error {
	if err := tx.usable(); err != nil {
		return err
	}
	if tx.writable && !tx.j.batch.empty() && tx.c.of(sql).batched {
		if err := tx.writeBatch(); err != nil {
			return err
		}
	}
	s, err := tx.c.take(sql)
	if err != nil {
		return tx.failed(err)
	}
	for i, a := range args {
		if err == nil {
			err = bind(s, i+1, a)
		}
	}
	var stop error
	if err == nil {
		for s.Step() {
			if each == nil {
				continue
			}
			r := row{s: s}
			if stop = each(&r); stop == nil {
				stop = r.err
			}
			if stop != nil {
				break
			}
		}
		err = s.Err()
	}
	if e := tx.c.give(sql, s); err == nil && stop == nil {
		err = e
	}
	if err != nil {
		return tx.failed(err)
	}
	if errors.Is(stop, errEnough) {
		return nil
	}
	return stop
}

// one reads the first row of a query, and tells whether there was one.
func (tx *Tx) one(scan func(*row), sql string, args ...any) (bool, error) {
	found := false
	err := tx.query(func(r *row) error {
		found = true
		scan(r)
		if r.err != nil {
			return r.err
		}
		return errEnough
	}, sql, args...)
	return found && err == nil, err
}

func (tx *Tx) number(sql string, args ...any) (n int64, err error) {
	_, err = tx.one(func(r *row) { n = r.int() }, sql, args...)
	return n, err
}

func (tx *Tx) failed(err error) error {
	if fault(err) || errors.Is(err, sqlite3.INTERRUPT) {
		tx.fault = err
	}
	return refuse(tx.j.path, "query", err)
}

// bind gives a parameter its value: strings and string kinds, integers, booleans, times (nanoseconds), raw JSON, and
// nothing else.
func bind(s *sqlite3.Stmt, i int, a any) error {
	switch v := a.(type) {
	case string:
		return s.BindText(i, v)
	case json.RawMessage:
		return s.BindText(i, string(v))
	case int64:
		return s.BindInt64(i, v)
	case int:
		return s.BindInt(i, v)
	case bool:
		return s.BindBool(i, v)
	case time.Time:
		return s.BindInt64(i, nanos(v))
	case reference:
		if v.number != 0 {
			return s.BindInt64(i, v.number)
		}
		return s.BindText(i, v.id)
	case sessions.EventKind:
		return s.BindText(i, string(v))
	case sessions.SessionState:
		return s.BindText(i, string(v))
	case sessions.CommandState:
		return s.BindText(i, string(v))
	case InputState:
		return s.BindText(i, string(v))
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.String {
		return s.BindText(i, v.String())
	}
	return fmt.Errorf("parameter %d has type %T", i, a)
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// encode makes the JSON of a column; nil pointers, empty slices and empty maps become nothing.
func encode(v any) (json.RawMessage, error) {
	if o, ok := v.(Overrides); ok && o == (Overrides{}) {
		return json.RawMessage("{}"), nil
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Invalid:
		return nil, nil
	case reflect.Pointer:
		if r.IsNil() {
			return nil, nil
		}
	case reflect.Slice, reflect.Map:
		if r.Len() == 0 {
			return nil, nil
		}
		if raw, ok := v.(json.RawMessage); ok {
			return raw, nil
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // what agents write is full of < and &
	if err := enc.Encode(v); err != nil {
		return nil, sessions.Errorf(sessions.CodeInternal, "journal: encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// encodeAll encodes several columns; the first error wins.
func encodeAll(vs ...any) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(vs))
	for i, v := range vs {
		b, err := encode(v)
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}

// row reads the columns of one row in order.
type row struct {
	s   *sqlite3.Stmt
	i   int
	err error
}

func (r *row) next() int { r.i++; return r.i - 1 }

func (r *row) text() string { return r.s.ColumnText(r.next()) }

func (r *row) int() int64 { return r.s.ColumnInt64(r.next()) }

func (r *row) bool() bool { return r.s.ColumnBool(r.next()) }

func (r *row) time() time.Time {
	if n := r.int(); n != 0 {
		return time.Unix(0, n).UTC()
	}
	return time.Time{}
}

func (r *row) raw() json.RawMessage {
	if b := r.s.ColumnRawText(r.next()); len(b) > 0 {
		return json.RawMessage(append([]byte(nil), b...))
	}
	return nil
}

// json decodes a column into v; an empty one leaves v alone.
func (r *row) json(v any) {
	b := r.s.ColumnRawText(r.next())
	if len(b) == 0 || r.err != nil {
		return
	}
	if err := own.Unmarshal(b, v); err != nil {
		r.err = sessions.Errorf(sessions.CodeStorageFailed, "journal: column %s: %w", r.s.ColumnName(r.i-1), err).
			Do("run `baton journal check` to see what is affected")
	}
}

// impossible reports a refused transition, and is the error for it.
func (tx *Tx) impossible(session string, err error) error {
	var e *sessions.ImpossibleError
	if errors.As(err, &e) && tx.j.o.Impossible != nil {
		tx.j.o.Impossible(session, e)
	}
	return err
}

func notFound(what, id string) error {
	return sessions.Errorf(sessions.CodeNotFound, "no %s %.80q", what, id).Do("check the id")
}
