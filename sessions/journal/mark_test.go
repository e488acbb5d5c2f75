package journal

import (
	"testing"

	"github.com/batonmcp/baton/sessions"
)

func TestMark(t *testing.T) {
	j := open(t, Options{})
	first, second, other := newSession(t, j), newSession(t, j), Session{ID: sessions.NewID(), Principal: "somebody", Runner: "codex", Cwd: "/w"}
	mark := func(principal string) (m string) {
		view(t, j, func(tx *Tx) (err error) {
			m, err = tx.Mark(principal)
			return err
		})
		return m
	}
	seen := map[string]string{}
	for _, c := range []struct {
		name    string
		do      func()
		changes bool
	}{
		{"as it is", func() {}, true},
		{"nothing", func() {}, false},
		{"an event", func() {
			if err := addEvents(j, first.ID, 1); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"another's session", func() { update(t, j, func(tx *Tx) error { return tx.InsertSession(&other) }) }, false},
		{"a new session", func() { newSession(t, j) }, true},
		{"a change without an event", func() {
			update(t, j, func(tx *Tx) error {
				_, err := tx.MoveSession(second.ID, sessions.SessionFail)
				return err
			})
		}, true},
		{"a deletion", func() { update(t, j, func(tx *Tx) error { return tx.DeleteSession(second.ID) }) }, true},
	} {
		c.do()
		m := mark(first.Principal)
		if before, known := seen[m]; known == c.changes || m == mark("nobody") {
			t.Errorf("%s: %s as after %q", c.name, m, before)
		}
		seen[m] = c.name
	}
}
