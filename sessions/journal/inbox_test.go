package journal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

func inboxOf(t *testing.T, j *Journal, principal string, before int64, limit int) (ids []string, list []Unread) {
	t.Helper()
	view(t, j, func(tx *Tx) (err error) {
		list, err = tx.Inbox(principal, before, limit)
		return err
	})
	for _, u := range list {
		ids = append(ids, u.ID)
	}
	return ids, list
}

func TestInbox(t *testing.T) {
	j := open(t, Options{})
	var all []Session
	for range 5 {
		s := newSession(t, j)
		if err := addEvents(j, s.ID, 3); err != nil {
			t.Fatal(err)
		}
		all = append([]Session{s}, all...) // newest first
	}
	newSession(t, j) // without events
	other := Session{ID: sessions.NewID(), Principal: "somebody", Runner: "codex", Cwd: "/w"}
	update(t, j, func(tx *Tx) error { return tx.InsertSession(&other) })
	if err := addEvents(j, other.ID, 1); err != nil {
		t.Fatal(err)
	}
	want := func(list ...Session) (ids []string) {
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		return ids
	}
	ack := func(id string, seq int64) { update(t, j, func(tx *Tx) error { return tx.Acknowledge(id, seq) }) }
	for _, c := range []struct {
		name string
		do   func()
		want []string
	}{
		{"all of it", func() {}, want(all...)},
		{"acknowledged whole", func() { ack(all[1].ID, 3) }, want(all[0], all[2], all[3], all[4])},
		{"acknowledged in part", func() { ack(all[2].ID, 2) }, want(all[0], all[2], all[3], all[4])},
		{"taken back", func() { ack(all[1].ID, 1) }, want(all[0], all[2], all[3], all[4])},
		{"beyond the end", func() { ack(all[3].ID, 99) }, want(all[0], all[2], all[4])},
		{"more events", func() {
			for _, s := range []Session{all[1], all[3]} {
				if err := addEvents(j, s.ID, 1); err != nil {
					t.Fatal(err)
				}
			}
		}, want(all...)},
		{"deleted", func() {
			update(t, j, func(tx *Tx) error {
				for _, e := range []sessions.SessionEvent{sessions.SessionStart, sessions.SessionOpened, sessions.SessionClose, sessions.SessionStop} {
					if _, err := tx.MoveSession(all[4].ID, e); err != nil {
						return err
					}
				}
				return tx.DeleteSession(all[4].ID)
			})
		}, want(all[:4]...)},
	} {
		c.do()
		if got, _ := inboxOf(t, j, "local", 0, 10); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	first, list := inboxOf(t, j, "local", 0, 3)
	second, _ := inboxOf(t, j, "local", list[2].N, 3)
	if got := append(first, second...); !slices.Equal(got, want(all[:4]...)) {
		t.Errorf("in two pages: %v", got)
	}
	if list[0].Acked != 0 || list[1].Acked != 3 || list[2].Acked != 2 {
		t.Errorf("acknowledged up to %d, %d, %d", list[0].Acked, list[1].Acked, list[2].Acked)
	}
	if got, _ := inboxOf(t, j, "somebody", 0, 10); !slices.Equal(got, []string{other.ID}) {
		t.Errorf("somebody's: %v", got)
	}
}

// The inbox is found by its own index: nothing that was acknowledged is looked at.
func TestInboxUsesItsIndex(t *testing.T) {
	j := open(t, Options{})
	for _, condition := range []string{"", " AND n < 7"} {
		plan := ""
		view(t, j, func(tx *Tx) error {
			return tx.query(func(r *row) error {
				r.next()
				r.next()
				r.next()
				plan += r.text() + "\n"
				return nil
			}, "EXPLAIN QUERY PLAN SELECT "+sessionColumns+", acked FROM sessions "+inboxSessions+condition+" ORDER BY n DESC LIMIT ?", "local", 5)
		})
		if want := fmt.Sprintf("SEARCH sessions USING INDEX sessions_inbox (principal=?%s)\n", map[string]string{"": "", " AND n < 7": " AND n<?"}[condition]); !strings.HasPrefix(plan, want) ||
			strings.Count(plan, "SEARCH sessions") != 1 || strings.Contains(plan, "SCAN") {
			t.Errorf("the plan is %q, want %q and rows of heads by their number", plan, want)
		}
	}
}

// What was acknowledged in a journal of the first schema stays acknowledged.
func TestInboxMigration(t *testing.T) {
	steps, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	path := olderJournal(t, steps[:1])
	spoilSQL(t, path, oldSession("seen", "closed", 3)+oldSession("new", "closed", 3)+`
		INSERT INTO consumers VALUES ('inbox/local/seen', 3, 1), ('inbox/somebody/new', 3, 1), ('host/epoch', 5, 1);`)
	j := checked(t, openAt(t, path, Options{}))
	if got, _ := inboxOf(t, j, "local", 0, 10); !slices.Equal(got, []string{"new"}) {
		t.Errorf("not acknowledged: %v, want new", got)
	}
	view(t, j, func(tx *Tx) error {
		epoch, err := tx.Cursor("host/epoch")
		if epoch != 5 {
			t.Errorf("another counter is %d", epoch)
		}
		return err
	})
}
