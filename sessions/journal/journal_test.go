package journal

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// open opens a journal in a new directory; when the test ends it is checked and closed.
func open(t testing.TB, o Options) *Journal {
	t.Helper()
	return checked(t, openAt(t, filepath.Join(t.TempDir(), "state", "journal.db"), o))
}

// checked has a journal checked when the test ends.
func checked(t testing.TB, j *Journal) *Journal {
	t.Cleanup(func() {
		problems, err := j.check(context.Background(), false)
		if err != nil {
			t.Error(err)
		}
		for _, p := range problems {
			t.Error(p)
		}
	})
	return j
}

func openAt(t testing.TB, path string, o Options) *Journal {
	t.Helper()
	j, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func update(t testing.TB, j *Journal, fn func(*Tx) error) {
	t.Helper()
	if err := j.Update(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func view(t testing.TB, j *Journal, fn func(*Tx) error) {
	t.Helper()
	if err := j.View(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func newSession(t testing.TB, j *Journal) Session {
	t.Helper()
	s := Session{ID: sessions.NewID(), Principal: "local", Runner: "codex", Cwd: "/w"}
	update(t, j, func(tx *Tx) error { return tx.InsertSession(&s) })
	return s
}

func TestUpdateIsSeenAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, j)
	var got Session
	view(t, j, func(tx *Tx) (err error) { got, err = tx.GetSession("local", s.ID); return err })
	if !reflect.DeepEqual(got, s) {
		t.Errorf("read back\n%+v, wrote\n%+v", got, s)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Update(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("update after close: %v", err)
	}
	j = openAt(t, path, Options{})
	view(t, j, func(tx *Tx) (err error) { got, err = tx.GetSession("local", s.ID); return err })
	if !reflect.DeepEqual(got, s) {
		t.Errorf("read back after reopening\n%+v, wrote\n%+v", got, s)
	}
}

func TestEventsAndView(t *testing.T) {
	var changed [][]string
	j := open(t, Options{Committed: func(ids []string) { changed = append(changed, ids) }})
	s := newSession(t, j)
	update(t, j, func(tx *Tx) error {
		for _, e := range []sessions.SessionEvent{sessions.SessionStart, sessions.SessionOpened, sessions.SessionBusy} {
			if _, err := tx.MoveSession(s.ID, e); err != nil {
				return err
			}
		}
		g := Generation{ID: sessions.NewID(), Session: s.ID, Argv: []string{"codex", "app-server"}}
		if err := tx.InsertGeneration(&g); err != nil {
			return err
		}
		c := Command{Command: sessions.Command{CommandID: "c1", Session: s.ID, State: sessions.CommandSubmitted}, Text: "hi"}
		if err := tx.InsertCommand(&c); err != nil {
			return err
		}
		if n, err := tx.AppendInput(g.ID, InputPrompt, "c1", sessions.Prompt{CommandID: "c1", Text: "hi"}); err != nil || n != 1 {
			t.Errorf("input %d, %v", n, err)
		}
		q := Request{Request: sessions.Request{RequestID: sessions.NewID(), Session: s.ID, Generation: g.ID, Command: "c1", Handle: "h1",
			Kind: sessions.RequestApproval, Title: "run ls"}}
		if err := tx.InsertRequest(&q); err != nil {
			return err
		}
		first, err := tx.AppendEvents(s.ID, []sessions.Event{
			{Kind: sessions.EventTurnStarted, Command: "c1"},
			{Kind: sessions.EventText, Command: "c1", Item: "i", Text: "he"},
			{Kind: sessions.EventText, Command: "c1", Item: "i", Text: "llo"},
		})
		if first != 1 {
			t.Errorf("first event is %d", first)
		}
		return err
	})
	view(t, j, func(tx *Tx) error {
		v, err := tx.SessionView(s.ID)
		if err != nil {
			return err
		}
		if !v.NeedsInput || v.Running == nil || v.Running.CommandID != "c1" || len(v.Requests) != 1 || v.Recovery == "" {
			t.Errorf("view %+v", v)
		}
		p, err := tx.ReadEvents(s.ID, 1, 10, []sessions.EventKind{sessions.EventText}, 0)
		if err != nil || len(p.Events) != 2 || p.Last != 3 || p.More {
			t.Errorf("page %+v, %v", p, err)
		}
		text, found, err := tx.LastFinalText(s.ID, "c1")
		if text != "hello" || !found {
			t.Errorf("text %q %v", text, found)
		}
		return err
	})
	if want := [][]string{{s.ID}, {s.ID}}; !reflect.DeepEqual(changed, want) {
		t.Errorf("committed %v, want %v", changed, want)
	}
}
