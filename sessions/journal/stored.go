package journal

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
)

// Stored is an event as the journal keeps it: what its columns say, and the JSON of the rest, which is known to be readable
// and is decoded by whoever needs it. Most events are only handed on.
type Stored struct {
	Session, Generation, Command string
	Seq                          int64
	Kind                         sessions.EventKind
	At                           time.Time
	// Characters is what the event's texts take of a budget: the characters of its text and of its tool's output, and the
	// bytes of its tool's detail and of its raw message.
	Characters int

	body []byte // begins with noKind
}

// noKind is how the body of an event begins: its kind has a column, and is the one member that is never left out.
const noKind = `{"kind":""`

// NewStored is the form in which an event would be kept.
func NewStored(e sessions.Event) (Stored, error) {
	body, err := eventBody(e)
	return Stored{Session: e.Session, Generation: e.Generation, Command: e.Command, Seq: e.Seq, Kind: e.Kind, At: e.At,
		Characters: characters(&e), body: body}, err
}

// Event decodes the event.
func (s *Stored) Event() (sessions.Event, error) {
	var e sessions.Event
	if err := own.Unmarshal(s.body, &e); err != nil {
		return e, unreadable(s.Session, s.Seq, err)
	}
	e.Session, e.Seq, e.Generation, e.Kind, e.Command, e.At = s.Session, s.Seq, s.Generation, s.Kind, s.Command, s.At
	return e, nil
}

func unreadable(session string, seq int64, err error) error {
	return sessions.Errorf(sessions.CodeStorageFailed, "journal: event %d of session %s: %w", seq, session, err).
		Do("run `baton journal check` to see what is affected")
}

// Size is about how many bytes AppendJSON adds, rather more than less.
func (s *Stored) Size() int {
	return 160 + len(s.Session) + len(s.Generation) + len(s.Command) + len(s.Kind) + len(s.body)
}

// AppendJSON adds the event's JSON, as encoding it would write it but for the order of members.
func (s *Stored) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	for _, f := range [...]struct{ name, value string }{{`"session":`, s.Session}, {`"generation":`, s.Generation}, {`"command":`, s.Command}} {
		if f.value != "" {
			b, _ = jsontext.AppendQuote(append(b, f.name...), f.value) // it fails for what is no UTF-8, and mends that
			b = append(b, ',')
		}
	}
	if s.Seq != 0 {
		b = append(strconv.AppendInt(append(b, `"seq":`...), s.Seq, 10), ',')
	}
	if !s.At.IsZero() {
		b = append(s.At.AppendFormat(append(b, `"at":"`...), time.RFC3339Nano), `",`...)
	}
	b, _ = jsontext.AppendQuote(append(b, `"kind":`...), s.Kind)
	return append(b, s.body[len(noKind):]...)
}

// characters is Stored.Characters of an event that is decoded.
func characters(e *sessions.Event) int {
	n := utf8.RuneCountInString(e.Text) + len(e.Raw)
	if e.Tool != nil {
		n += utf8.RuneCountInString(e.Tool.Output) + len(e.Tool.Detail)
	}
	return n
}

// storedScanner reads rows as Stored. Rows of one page say much the same in their columns.
type storedScanner struct {
	tx                     *Tx
	session, kind, command string
	measure                measure
}

// same reads a column that often says what the last one said.
func same(r *row, last *string) string {
	if b := r.s.ColumnRawText(r.next()); string(b) != *last {
		*last = string(b)
	}
	return *last
}

func (c *storedScanner) scan(r *row) (Stored, int) {
	s := Stored{Session: c.session, Seq: r.int(), Generation: c.tx.generationOf(r), Kind: sessions.EventKind(same(r, &c.kind)),
		Command: same(r, &c.command), At: r.time()}
	kept := r.s.ColumnRawText(r.next())
	s.body = append([]byte(nil), kept...)
	var simple bool
	if s.Characters, simple = c.measure.of(s.body); simple {
		return s, len(kept)
	}
	// What is not simple is held against the type, as what is damaged must be noticed here. Columns come first.
	var e sessions.Event
	if err := own.Unmarshal(s.body, &e); err != nil {
		if r.err == nil {
			r.err = unreadable(s.Session, s.Seq, err)
		}
		return s, len(kept)
	}
	s.Characters = characters(&e)
	if e.Kind != "" || e.Session != "" || e.Generation != "" || e.Command != "" || e.Seq != 0 || !e.At.IsZero() || !bytes.HasPrefix(s.body, []byte(noKind)) {
		body, err := eventBody(e)
		if err != nil && r.err == nil {
			r.err = err
		}
		s.body = body
	}
	return s, len(kept)
}
