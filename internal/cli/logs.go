package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/internal/transcript"
	"github.com/batonmcp/baton/sessions"
)

// ReadPage is a page of events.
type ReadPage struct {
	sessions.ReadArgs
	Whole bool // as one object, with its cursor
}

// Read prints a page of a session's events, or all of them where no limit is set.
func (f *Front) Read(ctx context.Context, a ReadPage) error {
	p := transcript.NewPrinter(f.talk, f.aside, transcript.Options{Reasoning: true, Times: true})
	for {
		res, err := f.api.Read(ctx, f.who, a.ReadArgs)
		if err != nil {
			return err
		}
		if a.Whole {
			return f.object(res)
		}
		if res.Gap != nil {
			res.Events = append([]sessions.Event{{Session: a.SessionID, Kind: sessions.EventGap, Gap: res.Gap}}, res.Events...)
		}
		for i := range res.Events {
			if f.format == JSON {
				if err := f.object(res.Events[i]); err != nil {
					return err
				}
				continue
			}
			p.Event(&res.Events[i])
		}
		if err := f.talk.Err(); err != nil {
			return err
		}
		if a.Limit > 0 {
			more := "no more for now"
			if res.HasMore {
				more = "more follow"
			}
			f.aside.Line(term.Dim, more+"; cursor "+res.Cursor)
		}
		if a.Limit > 0 || !res.HasMore {
			f.talk.Fresh()
			return nil
		}
		a.After = res.Cursor
	}
}

// Logs says what of a session's events is printed.
type Logs struct {
	ID     string
	Follow bool
	Raw    bool
	Pager  bool
	Tail   int       // the last so many things that are told; below 0: all
	Since  time.Time // what happened then or later
	transcript.Options
}

// Logs prints what happened in a session, and goes on with what happens where that is wanted, until the session ends or
// the context does.
func (f *Front) Logs(ctx context.Context, l Logs) error {
	s, err := f.look(ctx, l.ID)
	if err != nil {
		return err
	}
	end, err := sessions.DecodeCursor(l.ID, s.Cursor)
	if err != nil {
		return err
	}
	r := f.reader(l.ID)
	counts := told
	if l.Raw {
		counts = func(*sessions.Event) bool { return true }
	}
	if !l.Since.IsZero() {
		err = r.since(ctx, end, l.Since)
	}
	if err == nil && l.Tail >= 0 {
		since := r.after
		if err = r.tail(ctx, end, l.Tail, counts); err == nil {
			r.after = later(l.ID, since, r.after)
		}
	}
	if err != nil {
		return err
	}
	if l.Pager && !l.Follow && !l.Raw && term.IsTerminal(f.out) {
		return term.Page(ctx, f.out, func(w io.Writer) error {
			screen := term.ColorScreen(w, f.talk.Colors(), f.talk.Width())
			return f.log(ctx, r, l, end, transcript.NewPrinter(screen, screen, l.Options), screen)
		})
	}
	return f.log(ctx, r, l, end, transcript.NewPrinter(f.talk, f.talk, l.Options), f.talk)
}

// log prints from the cursor of a reader. Without following, it ends where the session's events ended when it began.
func (f *Front) log(ctx context.Context, r *reader, l Logs, end int64, p *transcript.Printer, to *term.Screen) error {
	look := true // whether the session goes on has to be looked at
	see := func(e *sessions.Event) (bool, error) {
		look = look || e.Kind == sessions.EventSessionClosed || e.Kind == sessions.EventSessionFailed
		if !l.Follow && e.Seq > end {
			return false, nil
		}
		if l.Raw {
			return true, f.object(*e)
		}
		p.Event(e)
		return true, to.Err()
	}
	defer to.Fresh()
	for over := false; ; {
		if err := r.caughtUp(ctx, see); err != nil {
			return following(ctx, l, err)
		}
		if !l.Follow || over {
			return to.Err()
		}
		var s *sessions.Session
		var err error
		if look {
			s, err = f.look(ctx, l.ID)
			if err == nil {
				over = !s.State.Live() && s.State != sessions.SessionReserved
			}
			if look = false; over { // what it said last may have come in between
				continue
			}
		}
		if err == nil {
			_, err = r.stir(ctx, slice)
		}
		if err != nil {
			return following(ctx, l, err)
		}
	}
}

// following is the end of what follows: who interrupts it has nothing else in mind.
func following(ctx context.Context, l Logs, err error) error {
	if l.Follow && ctx.Err() != nil {
		return nil
	}
	return err
}

// later is the cursor of two that lies further on.
func later(id, a, b string) string {
	x, _ := sessions.DecodeCursor(id, a) // both were made here
	y, _ := sessions.DecodeCursor(id, b)
	if x > y {
		return a
	}
	return b
}

// Transcript prints a session as Markdown.
func (f *Front) Transcript(ctx context.Context, id string, o transcript.Options, pager bool) error {
	s, err := f.look(ctx, id)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		m := transcript.NewMarkdown(w, s, o)
		if err := f.reader(id).caughtUp(ctx, func(e *sessions.Event) (bool, error) {
			m.Event(e)
			return true, m.Err()
		}); err != nil {
			return err
		}
		return m.End()
	}
	if !term.IsTerminal(f.out) {
		return write(f.out)
	}
	clean := func(w io.Writer) error { return write(cleaner{w}) }
	if pager {
		return term.Page(ctx, f.out, clean)
	}
	return clean(f.out)
}

// cleaner writes whole texts so that a terminal shows them and does nothing else.
type cleaner struct{ w io.Writer }

func (c cleaner) Write(p []byte) (int, error) {
	if _, err := io.WriteString(c.w, term.Clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ParseSince reads a moment: a time ago, as in 10m, or a date in RFC 3339.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, Usage("%s", fmt.Sprintf("--since %q is neither a time ago, as in 10m, nor a date, as in 2026-01-31T12:00:00Z", text))
}
