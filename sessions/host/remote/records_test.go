package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// fakeRecords gives what a test says.
type fakeRecords struct {
	problems []journal.Problem
	err      error
	export   func(ctx context.Context, who sessions.Caller, session string, w io.Writer) error
}

func (f *fakeRecords) CheckJournal(context.Context) ([]journal.Problem, error) {
	return f.problems, f.err
}

func (f *fakeRecords) ExportSession(ctx context.Context, who sessions.Caller, session string, w io.Writer) error {
	return f.export(ctx, who, session, w)
}

func (f *fakeRecords) ListAll(_ context.Context, a sessions.ListArgs) (sessions.ListResult, error) {
	return sessions.ListResult{Sessions: []sessions.Session{{SessionID: "s", Principal: "other", Runner: a.Runner}}, Cursor: "c"}, f.err
}

func records(t *testing.T, r Records) *Client {
	t.Helper()
	path := socket(t)
	run(t, path, Handler(&fake{}, HandlerOptions{Records: r}))
	return New(Options{Socket: path})
}

func TestCheckJournal(t *testing.T) {
	ctx := context.Background()
	want := []journal.Problem{{Session: "s", What: "event", ID: "3", Detail: "is <no> JSON"}, {What: "file", Detail: "x"}}
	if got, err := records(t, &fakeRecords{problems: want}).CheckJournal(ctx); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := records(t, &fakeRecords{}).CheckJournal(ctx); err != nil || len(got) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	refusal := sessions.Errorf(sessions.CodeStorageFailed, "it burns").Do("put it out")
	if _, err := records(t, &fakeRecords{err: refusal}).CheckJournal(ctx); sessions.CodeOf(err) != sessions.CodeStorageFailed {
		t.Errorf("got %v", err)
	}
	if _, err := records(t, nil).CheckJournal(ctx); sessions.CodeOf(err) != sessions.CodeUnsupported {
		t.Errorf("a host without records: %v", err)
	}
	if _, err := New(Options{Socket: socket(t)}).CheckJournal(ctx); !errors.Is(err, ErrNoHost) {
		t.Errorf("without a host: %v", err)
	}
}

func TestExportIsCarriedWhole(t *testing.T) {
	const line = "{\"event\":{\"text\":\"<&> \u2028\"}}\n"
	c := records(t, &fakeRecords{export: func(_ context.Context, who sessions.Caller, session string, w io.Writer) error {
		if who.Principal != "me" || session != "s" {
			return fmt.Errorf("given %+v, %q", who, session)
		}
		for range 3 {
			if _, err := io.WriteString(w, line); err != nil {
				return err
			}
		}
		return nil
	}})
	var out bytes.Buffer
	if err := c.ExportSession(context.Background(), sessions.Caller{Principal: "me"}, "s", &out); err != nil || out.String() != strings.Repeat(line, 3) {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

// An error before the first line is an answer like any other, one after it comes behind what was written, and an end
// without either is told as such.
func TestExportThatFails(t *testing.T) {
	refusal := sessions.Errorf(sessions.CodeStorageFailed, "page 7 \"burns\"").Do("put it out\nat once")
	for _, c := range []struct {
		name  string
		lines int
		end   func() error
		code  sessions.Code
		says  string
	}{
		{"at once", 0, func() error { return refusal }, sessions.CodeStorageFailed, refusal.Error()},
		{"after lines", 2000, func() error { return refusal }, sessions.CodeStorageFailed, refusal.Error()},
		{"with a panic", 2000, func() error { panic("oh no") }, sessions.CodeInternal, "oh no"},
		{"with the host", 2000, func() error { return fmt.Errorf("no more: %w", ErrHostEnds) }, sessions.CodeIncomplete, "ended before the export did"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const line = "{\"event\":{}}\n"
			var r fakeRecords
			r.export = func(_ context.Context, _ sessions.Caller, _ string, w io.Writer) error {
				for range c.lines {
					if _, err := io.WriteString(w, line); err != nil {
						return err
					}
				}
				return c.end()
			}
			var out bytes.Buffer
			err := records(t, &r).ExportSession(context.Background(), sessions.Caller{}, "s", &out)
			if sessions.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
			if !strings.HasPrefix(strings.Repeat(line, c.lines), out.String()) || (c.lines > 0 && out.Len() == 0) {
				t.Errorf("%d bytes were written", out.Len())
			}
		})
	}
}

// What is exported passes through; neither end keeps it.
func TestExportNeedsNoMemory(t *testing.T) {
	const size, lines = 64 << 10, 2000
	line := append(bytes.Repeat([]byte{'x'}, size-1), '\n')
	c := records(t, &fakeRecords{export: func(_ context.Context, _ sessions.Caller, _ string, w io.Writer) error {
		for range lines {
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		return nil
	}})
	out := &watcher{}
	if err := c.ExportSession(context.Background(), sessions.Caller{}, "s", out); err != nil {
		t.Fatal(err)
	}
	if out.n != size*lines || out.peak > 16<<20 {
		t.Errorf("%d MiB came, with up to %d MiB held in memory", out.n>>20, out.peak>>20)
	}
}

// watcher counts what is written and looks at the memory that is held; what a collection would free is not.
type watcher struct {
	n, looked int
	peak      uint64
}

func (w *watcher) Write(p []byte) (int, error) {
	if w.n += len(p); w.n-w.looked > 8<<20 {
		w.looked = w.n
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.peak = max(w.peak, m.HeapAlloc)
	}
	return len(p), nil
}

// A reader that goes away ends the export.
func TestExportEndsWithItsReader(t *testing.T) {
	ended := make(chan error, 1)
	c := records(t, &fakeRecords{export: func(_ context.Context, _ sessions.Caller, _ string, w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				ended <- err
				return err
			}
		}
	}})
	closed := errors.New("the reader has enough")
	if err := c.ExportSession(context.Background(), sessions.Caller{}, "s", &limited{left: 1 << 20, err: closed}); !errors.Is(err, closed) {
		t.Errorf("got %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("it ended without an error")
	}
}

type limited struct {
	left int
	err  error
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, l.err
	}
	return len(p), nil
}

func TestListAll(t *testing.T) {
	got, err := records(t, &fakeRecords{}).ListAll(t.Context(), sessions.ListArgs{Runner: "r"})
	if err != nil || len(got.Sessions) != 1 || got.Sessions[0].Principal != "other" || got.Sessions[0].Runner != "r" || got.Cursor != "c" {
		t.Errorf("%+v, %v", got, err)
	}
}
