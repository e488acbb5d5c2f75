package cli

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/internal/transcript"
	"github.com/batonmcp/baton/sessions"
)

// listPage is how many sessions one call asks for.
const listPage = 200

// list gives the sessions that a filter takes, newest first, page by page. A limit bounds them.
func (f *Front) list(ctx context.Context, a sessions.ListArgs) iter.Seq2[*sessions.Session, error] {
	return pages(a, func(a sessions.ListArgs) (sessions.ListResult, error) { return f.api.List(ctx, f.who, a) })
}

// everyone is an API that tells of the sessions of every principal.
type everyone interface {
	ListAll(ctx context.Context, a sessions.ListArgs) (sessions.ListResult, error)
}

// ListAll prints the sessions of every principal, newest first.
func (f *Front) ListAll(ctx context.Context, a sessions.ListArgs) error {
	api, ok := f.api.(everyone)
	if !ok {
		return sessions.Errorf(sessions.CodeUnsupported, "this host does not tell of every principal's sessions").Do("use one version of baton for the host and its callers")
	}
	f.principals = true
	return f.listed(a, pages(a, func(a sessions.ListArgs) (sessions.ListResult, error) { return api.ListAll(ctx, a) }))
}

func pages(a sessions.ListArgs, page func(sessions.ListArgs) (sessions.ListResult, error)) iter.Seq2[*sessions.Session, error] {
	return func(yield func(*sessions.Session, error) bool) {
		for left := a.Limit; ; {
			a.Limit = listPage
			if left > 0 {
				a.Limit = min(left, listPage)
			}
			res, err := page(a)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range res.Sessions {
				if !yield(&res.Sessions[i], nil) {
					return
				}
			}
			if left > 0 {
				if left -= len(res.Sessions); left <= 0 {
					return
				}
			}
			if a.After = res.Cursor; a.After == "" {
				return
			}
		}
	}
}

// List prints sessions, newest first.
func (f *Front) List(ctx context.Context, a sessions.ListArgs) error {
	return f.listed(a, f.list(ctx, a))
}

func (f *Front) listed(a sessions.ListArgs, found iter.Seq2[*sessions.Session, error]) error {
	if a.Limit < 0 {
		return Usage("--limit is %d; use a number above 0", a.Limit)
	}
	var all []*sessions.Session
	for s, err := range found {
		if err != nil {
			return err
		}
		switch f.format {
		case JSON:
			err = f.object(*s)
		case ID:
			f.talk.Line(term.Plain, s.SessionID)
			err = f.talk.Err()
		default:
			all = append(all, s)
		}
		if err != nil {
			return err
		}
	}
	if len(all) == 0 {
		if f.format == Human || f.format == Wide {
			f.aside.Line(term.Dim, "no sessions")
		}
		return nil
	}
	f.table(all)
	return f.talk.Err()
}

// column is one column of a table of things. The last one gives way where a terminal is narrow.
type column[T any] struct {
	head string
	cell func(*T) string
	wide bool // with every column alone
}

func (f *Front) table(all []*sessions.Session) {
	now := time.Now()
	columns := []column[sessions.Session]{
		{"ID", func(s *sessions.Session) string { return s.SessionID }, false},
		{"STATE", stateOf, false},
		{"AGE", func(s *sessions.Session) string { return transcript.Lasted(now.Sub(s.CreatedAt)) }, false},
		{"RUNNER", func(s *sessions.Session) string { return s.Runner }, false},
		{"TOKENS", tokensOf, false},
		{"MODEL", func(s *sessions.Session) string { return s.Selections.Evidence.Model }, true},
		{"SANDBOX", func(s *sessions.Session) string { return s.Containment.Policy }, true},
		{"UPDATED", func(s *sessions.Session) string { return transcript.Lasted(now.Sub(s.UpdatedAt)) }, true},
		{"ORIGIN", func(s *sessions.Session) string { return s.Origin }, true},
		{"NATIVE", func(s *sessions.Session) string { return s.NativeID }, true},
		{"DIRECTORY", func(s *sessions.Session) string { return f.dirOf(s.Cwd) }, false},
		{"TITLE", func(s *sessions.Session) string { return s.Title }, false},
	}
	if f.principals {
		columns = slices.Insert(columns, 1, column[sessions.Session]{"PRINCIPAL", func(s *sessions.Session) string { return s.Principal }, false})
	}
	drawTable(f, all, columns, func(s *sessions.Session) term.Style {
		switch {
		case asks(s):
			return term.Warn
		case s.State == sessions.SessionFailed:
			return term.Bad
		}
		return term.Plain
	})
}

// drawTable prints things as rows. styled is the style of a row.
func drawTable[T any](f *Front, all []*T, columns []column[T], styled func(*T) term.Style) {
	rows := [][]string{}
	for _, c := range columns {
		if c.wide && f.format != Wide {
			continue
		}
		cells := []string{c.head}
		for _, x := range all {
			cells = append(cells, term.OneLine(c.cell(x), 0))
		}
		rows = append(rows, cells)
	}
	limit := f.talk.Width()
	if f.format == Wide {
		limit = 0
	}
	if limit > 0 && limit < 120 && rows[0][0] == "ID" { // the beginning of a session's id is enough for every command
		shorten(rows[0][1:])
	}
	for y := range len(all) + 1 {
		var line strings.Builder
		for x, cells := range rows {
			line.WriteString(cells[y])
			if x < len(rows)-1 {
				line.WriteString(strings.Repeat(" ", widest(cells)-term.Cells(cells[y])+2))
			}
		}
		style := term.Dim
		if y > 0 {
			style = styled(all[y-1])
		}
		f.talk.Line(style, strings.TrimRight(term.OneCut(line.String(), limit), " "))
	}
}

// shorten cuts ids to the shortest beginnings, of 8 characters at least, that tell them apart.
func shorten(ids []string) {
	for n := 8; n < 36; n++ {
		seen := map[string]bool{}
		for _, id := range ids {
			seen[id[:n]] = true
		}
		if len(seen) == len(ids) {
			for i := range ids {
				ids[i] = ids[i][:n]
			}
			return
		}
	}
}

func widest(cells []string) (n int) {
	for _, c := range cells {
		n = max(n, term.Cells(c))
	}
	return n
}

func stateOf(s *sessions.Session) string {
	text := string(s.State)
	if asks(s) {
		text += ", asks"
	}
	return text
}

func tokensOf(s *sessions.Session) string {
	return strings.TrimSuffix(transcript.Tokens(transcript.Count(s.Usage)), " tokens")
}

// dirOf is a directory as its user writes it.
func (f *Front) dirOf(cwd string) string {
	if home := f.getenv("HOME"); home != "" && home != "/" {
		if rest, ok := strings.CutPrefix(cwd, home); ok && (rest == "" || rest[0] == '/') {
			return "~" + rest
		}
	}
	return cwd
}
