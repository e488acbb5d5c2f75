package journal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

// An update reads what it has left for the end of its transaction, whichever way it asks.
func TestUpdateReadsItsBatch(t *testing.T) {
	j := open(t, Options{})
	s, g := live(t, j, sessions.SessionStart, sessions.SessionOpened)
	at := s.UpdatedAt
	update(t, j, func(tx *Tx) error {
		before, err := tx.Mark("local")
		if err != nil {
			return err
		}
		for n := int64(1); n <= 3; n++ {
			if _, err := tx.AppendEvents(s.ID, []sessions.Event{{Kind: sessions.EventText, Generation: g.ID, Command: "c", Text: fmt.Sprint("t", n), Final: true}}); err != nil {
				return err
			}
			if p, err := tx.ReadEvents(s.ID, n-1, 10, nil, 0); err != nil || len(p.Events) != 1 || p.Events[0].Generation != g.ID || p.Last != n {
				t.Errorf("page %+v, %v", p, err)
			}
			if text, _, err := tx.LastFinalText(s.ID, "c"); err != nil || text != fmt.Sprint("t", n) {
				t.Errorf("text %q, %v", text, err)
			}
			if got, err := tx.AppendInput(g.ID, InputCancel, s.ID, nil); err != nil || got != n {
				t.Errorf("input %d, %v", got, err)
			}
			if err := tx.MarkInput(g.ID, n, InputWritten, "d"); err != nil {
				t.Error(err)
			}
			if in, found, err := tx.FindInput(g.ID, n); err != nil || !found || in.State != InputWritten || in.Generation != g.ID {
				t.Errorf("input %+v, %v", in, err)
			}
			if fresh, err := tx.SetFrame(g.ID, 10*n); err != nil || !fresh {
				t.Errorf("frame: %v, %v", fresh, err)
			}
			if list, err := tx.ListGenerations(s.ID); err != nil || len(list) != 1 || list[0].LastFrame != 10*n || list[0].LastInput != n {
				t.Errorf("generations %+v, %v", list, err)
			}
			if list, _, err := tx.ListSessions(SessionFilter{}, 0, 10); err != nil || len(list) != 1 || list[0].LastSeq != n || !list[0].UpdatedAt.After(at) {
				t.Errorf("sessions %+v, %v", list, err)
			}
			if list, err := tx.Inbox("local", 0, 10); err != nil || len(list) != 1 || list[0].LastSeq != n {
				t.Errorf("inbox %+v, %v", list, err)
			}
			after, err := tx.Mark("local")
			if err != nil || after == before {
				t.Errorf("mark %q after %q, %v", after, before, err)
			}
			before = after
			if err := tx.Acknowledge(s.ID, n); err != nil {
				t.Error(err)
			}
			if list, err := tx.Inbox("local", 0, 10); err != nil || len(list) != 0 {
				t.Errorf("inbox after all was acknowledged: %+v, %v", list, err)
			}
		}
		return nil
	})
}

// A row that is refused when the rows of a group are written is its own update's failure and nobody else's.
func TestRefusedRowIsItsUpdatesOwn(t *testing.T) {
	j := open(t, Options{})
	s, _ := live(t, j, sessions.SessionStart, sessions.SessionOpened)
	twice := func(tx *Tx) error {
		if _, err := tx.AppendEvents(s.ID, []sessions.Event{{Kind: sessions.EventWarning}}); err != nil {
			return err
		}
		for range batchRows {
			if tx.addEvent(eventRow{session: s.N, seq: 1, kind: sessions.EventWarning, body: []byte("{}")}) != nil {
				break // and keeps it to itself
			}
		}
		return nil
	}
	if err := addEvents(j, s.ID, 1); err != nil {
		t.Fatal(err)
	}
	release := hold(t, j)
	results := make(chan error, 4)
	for _, fn := range []func(*Tx) error{twice, nil, twice, nil} {
		go func() {
			if fn == nil {
				results <- addEvents(j, s.ID, 20)
				return
			}
			results <- j.Update(t.Context(), fn)
		}()
	}
	release()
	failed := 0
	for range 4 {
		if err := <-results; errors.Is(err, sqlite3.CONSTRAINT) {
			failed++
		} else if err != nil {
			t.Error(err)
		}
	}
	if failed != 2 {
		t.Errorf("%d of 4 updates failed, want the 2 with a number that is taken", failed)
	}
	if events, gaps := readAll(t, j, s.ID, 100); len(events) != 41 || len(gaps) > 0 {
		t.Errorf("%d events, gaps %v", len(events), gaps)
	}
}
