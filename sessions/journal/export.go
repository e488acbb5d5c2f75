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
// it is: session, generation, input, command, request, event, gap, damaged, and at last end with the number of events, and of
// what could not be read. A result without its end was cut short.
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
	damaged     int
}

// Unreadable is what an export could not read for damage: one thing, or all the rest of its kind.
type Unreadable struct {
	What   string `json:"what"`
	Number int64  `json:"number,omitempty"`
	Detail string `json:"detail"`
}

func unreadableRow(err error) bool {
	return damaged(err) || sessions.CodeOf(err) == sessions.CodeStorageFailed
}

// around goes on after damage, and tells of it; what else keeps it from reading ends the export.
func (x *exporter) around(what string, number int64, err error) error {
	if !unreadableRow(err) {
		return err
	}
	x.damaged++
	return x.line("damaged", Unreadable{what, number, err.Error()})
}

func (x *exporter) line(what string, v any) error { return x.enc.Encode(map[string]any{what: v}) }

// rows writes all that is not an event.
func (x *exporter) rows(ctx context.Context) error {
	var s Session
	var generations []Generation
	err := x.j.View(ctx, func(tx *Tx) (err error) {
		s, err = tx.GetSession("", x.session)
		return err
	})
	if err != nil {
		return err
	}
	x.from, x.until = s.FirstSeq-1, s.LastSeq
	if err := x.line("session", s); err != nil {
		return err
	}
	if err := x.j.View(ctx, func(tx *Tx) (err error) {
		generations, err = tx.ListGenerations(x.session)
		return err
	}); err != nil {
		if err := x.around("generation", 0, err); err != nil {
			return err
		}
	}
	for _, g := range generations {
		if err := x.line("generation", g); err != nil {
			return err
		}
		if err := x.inputs(ctx, g.ID); err != nil {
			if err := x.around("input", 0, err); err != nil {
				return err
			}
		}
	}
	err = pages(ctx, x, "command", func(tx *Tx, after int64, limit int) ([]Command, error) {
		return tx.ListCommands(x.session, after, limit)
	},
		func(c Command) int64 { return c.Position },
		func(tx *Tx, after int64) (int64, error) {
			return tx.number("SELECT coalesce(min(position), 0) FROM ("+positions+") WHERE position > ?", s.N, s.N, after)
		})
	if err != nil {
		return err
	}
	return pages(ctx, x, "request", func(tx *Tx, after int64, limit int) ([]Request, error) {
		return tx.ListRequests(x.session, after, limit)
	},
		func(q Request) int64 { return q.N },
		func(tx *Tx, after int64) (int64, error) {
			return tx.number("SELECT coalesce(min(n), 0) FROM requests WHERE session = ? AND n > ?", x.session, after)
		})
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

// pages writes the rows that read gives, page by page; behind damage one by one, by the numbers that next finds in an index.
func pages[T any](ctx context.Context, x *exporter, what string, read func(tx *Tx, after int64, limit int) ([]T, error), number func(T) int64,
	next func(tx *Tx, after int64) (int64, error)) error {
	limit := rowPage
	for after := int64(0); ; {
		var list []T
		here := int64(0)
		err := x.j.View(ctx, func(tx *Tx) (err error) {
			if limit == 1 {
				if here, err = next(tx, after); err != nil || here == 0 {
					return err
				}
				after = here - 1
			}
			list, err = read(tx, after, limit)
			return err
		})
		switch {
		case err != nil && limit > 1 && unreadableRow(err):
			limit = 1
			continue
		case err != nil:
			if err := x.around(what, here, err); err != nil || here == 0 {
				return err
			}
			after = here
			continue
		}
		for _, v := range list {
			if err := x.line(what, v); err != nil {
				return err
			}
			after = number(v)
		}
		switch {
		case len(list) == 0 && here > 0: // the index has it, the table has not
			after = here
		case len(list) < limit:
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
	end := map[string]int{"events": n}
	if x.damaged > 0 {
		end["damaged"] = x.damaged
	}
	return x.line("end", end)
}
