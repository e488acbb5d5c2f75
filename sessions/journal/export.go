package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"io"

	"github.com/batonmcp/baton/sessions"
)

// What an export reads at a time; between two pages it holds no reader. A row may carry a prompt of 1 MiB.
const (
	rowPage   = 16
	eventPage = 500
)

// Export writes everything that is kept of a session as lines of JSON, each an object with one member that names what
// it is: session, generation, input, command, request, event, gap, and at last end with the number of events. A result
// without its end was cut short.
func (j *Journal) Export(ctx context.Context, session string, w io.Writer) error {
	out := bufio.NewWriter(w)
	x := exporter{j: j, session: session, enc: json.NewEncoder(out)}
	x.enc.SetEscapeHTML(false)
	if err := x.rows(ctx); err != nil {
		return err
	}
	if err := x.events(ctx); err != nil {
		return err
	}
	return out.Flush()
}

type exporter struct {
	j           *Journal
	session     string
	enc         *json.Encoder
	from, until int64 // the events kept when the export began: those after from, up to until
}

func (x *exporter) line(what string, v any) error { return x.enc.Encode(map[string]any{what: v}) }

// rows writes all that is not an event.
func (x *exporter) rows(ctx context.Context) error {
	var s Session
	var generations []Generation
	err := x.j.View(ctx, func(tx *Tx) (err error) {
		if s, err = tx.GetSession("", x.session); err != nil {
			return err
		}
		generations, err = tx.ListGenerations(x.session)
		return err
	})
	if err != nil {
		return err
	}
	x.from, x.until = s.FirstSeq-1, s.LastSeq
	if err := x.line("session", s); err != nil {
		return err
	}
	for _, g := range generations {
		if err := x.line("generation", g); err != nil {
			return err
		}
		if err := x.inputs(ctx, g.ID); err != nil {
			return err
		}
	}
	err = pages(ctx, x, "command", func(tx *Tx, after int64) ([]Command, error) { return tx.ListCommands(x.session, after, rowPage) },
		func(c Command) int64 { return c.Position })
	if err != nil {
		return err
	}
	return pages(ctx, x, "request", func(tx *Tx, after int64) ([]Request, error) { return tx.ListRequests(x.session, after, rowPage) },
		func(q Request) int64 { return q.N })
}

// inputs writes those of a generation. They are looked up once: they are found from the newest one on.
func (x *exporter) inputs(ctx context.Context, generation string) error {
	var rows []int64
	err := x.j.View(ctx, func(tx *Tx) (err error) {
		rows, err = tx.inputRows(generation, 0)
		return err
	})
	for len(rows) > 0 && err == nil {
		n := min(len(rows), rowPage)
		var list []Input
		err = x.j.View(ctx, func(tx *Tx) (err error) {
			g, err := tx.reference(generation)
			if err == nil { // rows of a session that is deleted meanwhile may be another's by now
				list, err = tx.inputs(generation, rows[:n], " AND generation = ?", g)
			}
			return err
		})
		for _, in := range list {
			if err == nil {
				err = x.line("input", in)
			}
		}
		rows = rows[n:]
	}
	return err
}

// pages writes the rows that read gives, page by page.
func pages[T any](ctx context.Context, x *exporter, what string, read func(*Tx, int64) ([]T, error), number func(T) int64) error {
	for after := int64(0); ; {
		var list []T
		err := x.j.View(ctx, func(tx *Tx) (err error) {
			list, err = read(tx, after)
			return err
		})
		if err != nil {
			return err
		}
		for _, v := range list {
			if err := x.line(what, v); err != nil {
				return err
			}
			after = number(v)
		}
		if len(list) < rowPage {
			return nil
		}
	}
}

func (x *exporter) events(ctx context.Context) error {
	if x.from > 0 {
		if err := x.line("gap", sessions.Gap{From: 1, To: x.from, Reason: cutByRetention}); err != nil {
			return err
		}
	}
	n := 0
	for after := x.from; after < x.until; {
		var p Page
		err := x.j.View(ctx, func(tx *Tx) (err error) {
			p, err = tx.ReadEvents(x.session, after, eventPage, nil, sessions.MaxReadBytes)
			return err
		})
		if err != nil {
			return err
		}
		if p.Gap != nil {
			if err := x.line("gap", p.Gap); err != nil {
				return err
			}
		}
		for _, e := range p.Events {
			if e.Seq > x.until {
				break
			}
			if err := x.line("event", e); err != nil {
				return err
			}
			n++
		}
		after = p.Last
	}
	return x.line("end", map[string]int{"events": n})
}
