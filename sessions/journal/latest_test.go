package journal

import (
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// The end of a turn is found behind however many events, and retention is kept to.
func TestLatestEvent(t *testing.T) {
	j := open(t, Options{})
	s := newSession(t, j)
	update(t, j, func(tx *Tx) error {
		evs := []sessions.Event{{Kind: sessions.EventCommandSettled, Command: "a"}, {Kind: sessions.EventTurnCompleted}}
		for range scanLimit + 10 {
			evs = append(evs, sessions.Event{Kind: sessions.EventText, Command: "b"})
		}
		_, err := tx.AppendEvents(s.ID, append(evs, sessions.Event{Kind: sessions.EventCommandSettled, Command: "b"}, sessions.Event{Kind: sessions.EventText}))
		return err
	})
	settled := func(of string) func(sessions.EventKind, string) bool {
		return func(k sessions.EventKind, c string) bool {
			return k == sessions.EventCommandSettled && (of == "" || c == of)
		}
	}
	last := int64(scanLimit + 14)
	look := func(after int64, pass func(sessions.EventKind, string) bool) (seq int64) {
		t.Helper()
		view(t, j, func(tx *Tx) error {
			n, found, err := tx.LatestEvent(s.ID, after, pass)
			if found != (n > 0) {
				t.Errorf("event %d, found %v", n, found)
			}
			seq = n
			return err
		})
		return seq
	}
	for _, c := range []struct {
		after int64
		of    string
		want  int64
	}{{0, "", last - 1}, {0, "a", 1}, {1, "a", 0}, {last - 2, "", last - 1}, {last - 1, "", 0}, {last, "", 0}} {
		if got := look(c.after, settled(c.of)); got != c.want {
			t.Errorf("after %d, of %q: %d, want %d", c.after, c.of, got, c.want)
		}
	}
	update(t, j, func(tx *Tx) error { _, err := tx.KeepEvents(s.ID, 5); return err })
	if got := look(0, settled("a")); got != 0 {
		t.Errorf("an event that retention cut was found: %d", got)
	}
}
