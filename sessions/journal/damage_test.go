package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

// closedJournal makes a journal with a session of n events, each with its own marker, and closes it.
func closedJournal(t *testing.T, n int) (path, id string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, j)
	update(t, j, func(tx *Tx) error {
		evs := make([]sessions.Event, n)
		for i := range evs {
			evs[i] = sessions.Event{Kind: sessions.EventText, Command: "c", Text: marker(int64(i+1)) + strings.Repeat("x", 400)}
		}
		_, err := tx.AppendEvents(s.ID, evs)
		return err
	})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path, s.ID
}

func marker(seq int64) string { return fmt.Sprintf("<event %d>", seq) }

func load(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func store(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// readAll pages through a session and returns what it was given, by number; it fails when a number comes twice or is in
// no event and no gap.
func readAll(t *testing.T, j *Journal, id string, limit int) (events map[int64]sessions.Event, gaps []sessions.Gap) {
	t.Helper()
	events = map[int64]sessions.Event{}
	seen := map[int64]bool{}
	see := func(seq int64) {
		if seen[seq] {
			t.Errorf("event %d came twice", seq)
		}
		seen[seq] = true
	}
	last := int64(0)
	for after, more := int64(0), true; more; {
		var p Page
		view(t, j, func(tx *Tx) (err error) { p, err = tx.ReadEvents(id, after, limit, nil, 0); return err })
		if p.Gap != nil {
			gaps = append(gaps, *p.Gap)
			for seq := p.Gap.From; seq <= p.Gap.To; seq++ {
				see(seq)
			}
		}
		for _, e := range p.Events {
			see(e.Seq)
			events[e.Seq] = e
		}
		if p.More && p.Last <= after {
			t.Fatalf("the cursor stays at %d although there is more", after)
		}
		after, more, last = p.Last, p.More, p.Last
	}
	for seq := int64(1); seq <= last; seq++ {
		if !seen[seq] {
			t.Errorf("event %d was passed over in silence", seq)
		}
	}
	return events, gaps
}

// JO-02: 20 bytes of one event are zeroed in the middle of the file.
func TestDamagedPageHidesNothingElse(t *testing.T) {
	path, id := closedJournal(t, 100)
	b := load(t, path)
	at := bytes.Index(b, []byte(marker(50)))
	if at < 0 {
		t.Fatal("event 50 is not in the file")
	}
	copy(b[at:], make([]byte, 20))
	store(t, path, b)

	j := openAt(t, path, Options{})
	events, gaps := readAll(t, j, id, 30)
	if len(gaps) != 1 || gaps[0].From > 50 || gaps[0].To < 50 || gaps[0].To-gaps[0].From > 20 || gaps[0].Reason != damagedOnDisk {
		t.Errorf("gaps %+v, want one around event 50", gaps)
	}
	for seq, e := range events {
		if !strings.HasPrefix(e.Text, marker(seq)) {
			t.Errorf("event %d reads %.20q", seq, e.Text)
		}
	}
	if len(events) < 80 || events[1].Seq == 0 || events[100].Seq == 0 {
		t.Errorf("%d of 100 events can be read", len(events))
	}
	refused(t, j.Health(), sessions.CodeStorageFailed, path, "damaged", "baton journal check")
	problems, err := j.check(t.Context(), false)
	if err != nil || len(problems) == 0 {
		t.Errorf("check: %v, %v", problems, err)
	}

	// Who needs what is lost is refused; everybody else goes on.
	err = j.Update(t.Context(), func(tx *Tx) error {
		_, _, err := tx.LastFinalText(id, "c")
		return err
	})
	refused(t, err, sessions.CodeStorageFailed, path)
	if err := addEvents(j, id, 1); err != nil {
		t.Errorf("append to the same session: %v", err)
	}
	other := newSession(t, j)
	if err := addEvents(j, other.ID, 3); err != nil {
		t.Errorf("another session: %v", err)
	}
	if err := j.Reopen(t.Context()); err == nil {
		t.Error("a damaged file was verified")
	}
	refused(t, addEvents(j, other.ID, 1), sessions.CodeStorageFailed)
	if now := load(t, path)[at : at+20]; !bytes.Equal(now, make([]byte, 20)) {
		t.Errorf("the damaged place was overwritten with %q", now)
	}
}

// leaves are the numbers of the pages in which a table or an index keeps its rows.
func leaves(t *testing.T, path string, name string) (list []int) {
	t.Helper()
	db, err := sqlite3.Open("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{db: db, kept: map[string]*prepared{}}
	root, err := c.number("SELECT rootpage FROM sqlite_schema WHERE name = " + sqlite3.Quote(name))
	if err := errors.Join(err, c.close()); err != nil || root == 0 {
		t.Fatal(name, err)
	}
	b := load(t, path)
	var walk func(page int)
	walk = func(page int) {
		p := b[(page-1)*pageSize : page*pageSize]
		if p[0] == 10 || p[0] == 13 {
			list = append(list, page)
			return
		}
		for i := range int(binary.BigEndian.Uint16(p[3:])) {
			walk(int(binary.BigEndian.Uint32(p[binary.BigEndian.Uint16(p[12+2*i:]):])))
		}
		walk(int(binary.BigEndian.Uint32(p[8:])))
	}
	walk(int(root))
	return list
}

// One page of a table or an index is damaged. Everything is read that lies elsewhere, or that others tell as well, and a
// check names what is lost.
func TestDamagedPageOfEachTable(t *testing.T) {
	const count, told = 300, 20
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, count)
	update(t, j, func(tx *Tx) error {
		for i := range ids {
			s, g := Session{ID: sessions.NewID(), Principal: "local", Runner: "codex", Cwd: "/w"}, Generation{ID: sessions.NewID()}
			g.Session, s.Generation, ids[i] = s.ID, g.ID, s.ID
			err := errors.Join(tx.InsertSession(&s), tx.InsertGeneration(&g))
			for _, e := range toRunning() {
				_, moved := tx.MoveSession(s.ID, e)
				err = errors.Join(err, moved)
			}
			for n := range 3 {
				c := Command{Command: sessions.Command{CommandID: fmt.Sprint("c", n), Session: s.ID, Generation: g.ID}, Principal: "local", Text: strings.Repeat("t", 300)}
				_, input := tx.AppendInput(g.ID, InputCancel, c.CommandID, nil)
				err = errors.Join(err, tx.InsertCommand(&c), input,
					tx.InsertRequest(&Request{Request: sessions.Request{RequestID: sessions.NewID(), Session: s.ID, Generation: g.ID, Handle: fmt.Sprint(n), Title: strings.Repeat("t", 300)}}))
			}
			if _, appended := tx.AppendEvents(s.ID, warnings(told)); err != nil || appended != nil {
				return errors.Join(err, appended)
			}
		}
		return nil
	})
	if problems, err := j.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	type left struct{ lists, views, events, live, exports bool }
	all := left{true, true, true, true, true}
	for name, c := range map[string]struct {
		lost  left   // what damage takes from some sessions
		names string // what a check says of those
	}{
		"heads":                          {names: "head"},
		"sqlite_autoindex_sessions_1":    {},
		"sessions_inbox":                 {},
		"generations":                    {lost: left{views: true, live: true, exports: true}, names: "generation"},
		"generations_live":               {},
		"sqlite_autoindex_generations_1": {},
		"commands":                       {lost: left{views: true, exports: true}, names: "command"},
		"requests":                       {lost: left{views: true, exports: true}, names: "request"},
		"requests_session":               {lost: left{exports: true}},
		"inputs":                         {lost: left{exports: true}},
		"events":                         {lost: left{events: true}, names: "event"},
		"sessions":                       {lost: left{true, true, true, false, false}, names: "session"},
		"progress":                       {lost: left{live: true, exports: true}, names: "progress"},
	} {
		t.Run(name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "journal.db")
			b := load(t, path)
			page := leaves(t, path, name)[0]
			for i := range 20 {
				b[(page-1)*pageSize+2000+i] ^= 0x5a
			}
			store(t, copied, b)
			j := openAt(t, copied, Options{})
			whole := all
			damage := map[string]bool{}
			look := func(is *bool, id string, fn func(tx *Tx) error) {
				if err := j.View(t.Context(), fn); err != nil {
					if *is, damage[id] = false, true; sessions.CodeOf(err) != sessions.CodeStorageFailed {
						t.Error(err)
					}
				}
			}
			look(&whole.lists, "", func(tx *Tx) error {
				list, _, err := tx.ListSessions(SessionFilter{Principal: "local"}, 0, 2*count)
				if err == nil && (len(list) != count || list[count-1].LastSeq != told || list[0].LastSeq != told) {
					t.Errorf("%d sessions are listed, the first %+v", len(list), list[0])
				}
				return err
			})
			look(&whole.live, "", func(tx *Tx) error {
				live, damage, err := tx.LiveGenerations()
				if len(live) < count/3 && name != "progress" { // which is one page
					t.Errorf("%d live generations are found: %v", len(live), damage)
				}
				if whole.live = len(live) == count; !whole.live && len(damage) == 0 {
					t.Error("those that are missing are missing in silence")
				}
				return err
			})
			readable := 0
			for _, id := range ids {
				look(&whole.views, id, func(tx *Tx) error {
					s, err := tx.GetSession("", id)
					if err != nil {
						return err
					}
					if _, err = tx.ViewOf(s); err == nil {
						return nil
					}
					if v, ok := tx.Impaired(s, err); !ok || v.SessionID != id || v.Recovery == "" {
						t.Errorf("of %s, met by %v, %+v is shown", id, err, v)
					}
					if again, err := tx.GetSession("", id); err != nil || again.ID != id {
						t.Errorf("after damage nothing is read in the same view: %v", err)
					}
					return err
				})
				var p Page
				look(&whole.events, id, func(tx *Tx) (err error) { p, err = tx.ReadEvents(id, 0, 100, nil, 0); return err })
				if readable += len(p.Events); len(p.Events) < told {
					whole.events = false
				}
				var out bytes.Buffer
				if err := j.Export(t.Context(), id, &out); err != nil {
					if c.names != "session" {
						t.Errorf("export: %v", err)
					}
				} else if lines := out.String(); strings.Contains(lines, `{"damaged"`) {
					whole.exports = false
					if !strings.Contains(lines, `{"end":{"damaged":`) || strings.Count(lines, `{"event"`) != told {
						t.Errorf("beside damage the export has %d events of %d", strings.Count(lines, `{"event"`), told)
					}
				}
			}
			if got := (left{!whole.lists, !whole.views, !whole.events, !whole.live, !whole.exports}); got != c.lost {
				t.Errorf("damage takes %+v, want %+v", got, c.lost)
			}
			if readable < count*told*3/4 {
				t.Errorf("%d of %d events can be read", readable, count*told)
			}
			problems, err := j.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			named := map[string]bool{}
			for _, p := range problems {
				if p.What == c.names && strings.Contains(p.Detail, "its page is damaged") && p.Session != "" {
					named[p.Session] = true
				}
			}
			if c.names != "" && len(named) == 0 || len(problems) == 0 {
				t.Errorf("the check names nobody: %v", problems)
			}
			delete(damage, "")
			for id := range damage {
				if len(named) < checkLimit && !named[id] {
					t.Errorf("the check does not name %s, which cannot be read whole", id)
				}
			}
		})
	}
}

// What a session's own row of progress says can be told by its events, and is written anew with the next change.
func TestMissingHeadIsMadeAnew(t *testing.T) {
	path, id := closedJournal(t, 60)
	db, err := sqlite3.Open("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Exec("DELETE FROM heads; DELETE FROM events WHERE seq <= 40; UPDATE sessions SET first_seq = 41, purged = 40"), db.Close()); err != nil {
		t.Fatal(err)
	}
	j := checked(t, openAt(t, path, Options{}))
	events, gaps := readAll(t, j, id, 7)
	if len(events) != 20 || len(gaps) != 1 || gaps[0].Reason != cutByRetention {
		t.Errorf("%d events, gaps %v", len(events), gaps)
	}
	if err := addEvents(j, id, 1); err != nil {
		t.Fatal(err)
	}
	update(t, j, func(tx *Tx) error { _, err := tx.KeepEvents(id, 0); return err })
	if _, err := j.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	view(t, j, func(tx *Tx) error {
		last, err := tx.number("SELECT " + lastSeqByEvents + " FROM sessions")
		if last != 61 {
			t.Errorf("of a session whose events were all cut the last one is told as %d, it was 61", last)
		}
		return err
	})
}

// The events of a generation whose row cannot be read are there without its name.
func TestDamagedGenerationLosesNoEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, g := live(t, j, toRunning()...)
	update(t, j, func(tx *Tx) error {
		if _, err := tx.UpdateGeneration(g.ID, func(g *Generation) { g.Executable = marker(0) }); err != nil {
			return err
		}
		_, err := tx.AppendEvents(s.ID, []sessions.Event{{Kind: sessions.EventWarning, Text: marker(1)}, {Kind: sessions.EventWarning, Text: marker(2), Generation: g.ID},
			{Kind: sessions.EventWarning, Text: marker(3), Generation: g.ID}})
		return err
	})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	b := load(t, path)
	copy(b[bytes.Index(b, []byte(marker(0))):], make([]byte, len(marker(0))))
	store(t, path, b)
	j = openAt(t, path, Options{})
	for _, limit := range []int{1, 2, 10} {
		events, gaps := readAll(t, j, s.ID, limit)
		if len(events) != 3 || len(gaps) > 0 || events[3].Text != marker(3) || events[3].Generation != "" {
			t.Errorf("limit %d: events %+v, gaps %+v", limit, events, gaps)
		}
	}
	refused(t, j.Health(), sessions.CodeStorageFailed, path, "damaged")
}

// An update that meets damage must not take the others of its group with it once the damage is known.
func TestDamageConcernsItsOwnUpdateAlone(t *testing.T) {
	path, id := closedJournal(t, 100)
	b := load(t, path)
	copy(b[bytes.Index(b, []byte(marker(50))):], make([]byte, 20))
	store(t, path, b)
	j := openAt(t, path, Options{})
	_, _ = readAll(t, j, id, 30)
	release := hold(t, j)
	bad, good := make(chan error, 8), make(chan error, 8)
	for range 8 {
		go func() {
			bad <- j.Update(context.Background(), func(tx *Tx) error {
				_, _, err := tx.LastFinalText(id, "c")
				return err
			})
		}()
		go func() { good <- addEvents(j, id, 1) }()
	}
	release()
	for range 8 {
		refused(t, <-bad, sessions.CodeStorageFailed)
		if err := <-good; err != nil {
			t.Errorf("an update beside it: %v", err)
		}
	}
}

// A clock that was set back between two hosts is no contradiction of a journal.
func TestCheckAfterAClockWasSetBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	clock := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return clock }
	j, err := Open(t.Context(), path, Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, j)
	g := Generation{ID: sessions.NewID(), Session: s.ID}
	update(t, j, func(tx *Tx) error { return tx.InsertGeneration(&g) })
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(-time.Hour)
	j = openAt(t, path, Options{Now: now})
	update(t, j, func(tx *Tx) error {
		_, err := tx.EndGeneration(g.ID, "confirmed", "boot")
		return err
	})
	if found, err := j.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// JO-02, second variant: the rows contradict each other although every page is whole.
func TestCheckFindsContradictions(t *testing.T) {
	path, id := closedJournal(t, 100)
	whole := load(t, path)
	for name, c := range map[string]struct{ sql, want string }{
		"event missing":               {"DELETE FROM events WHERE seq = 50", "counts its events wrong"},
		"event too many":              {"UPDATE heads SET last_seq = 99", "counts its events wrong"},
		"event of nobody":             {"UPDATE events SET session = 'x' WHERE seq = 7", "belongs to no session"},
		"event kind":                  {"UPDATE events SET kind = 'x' WHERE seq = 7", "unknown kind x"},
		"event body":                  {"UPDATE events SET body = '{' WHERE seq = 7", "event 7: cannot be read as what it is"},
		"event of JSON":               {"UPDATE events SET body = '{\"text\":1}' WHERE seq = 7", "event 7: cannot be read as what it is"},
		"event of the past":           {"UPDATE events SET generation = 99 WHERE seq = 7", "generation that does not exist: 99"},
		"head missing":                {"DELETE FROM heads", "counts its events wrong"},
		"head of nobody":              {"INSERT INTO heads VALUES (99, 0, 0)", "belongs to no session"},
		"session state":               {"UPDATE sessions SET state = 'x'", "unknown state x"},
		"session generation":          {"UPDATE sessions SET generation = 'x'", "does not exist"},
		"session JSON":                {"UPDATE sessions SET asked = '{'", "cannot be read as what it is"},
		"session spent":               {"UPDATE sessions SET spent = '[]'", "cannot be read as what it is"},
		"session acked":               {"UPDATE sessions SET acked = 101, unread = 0", "acknowledged more events than it has: last_seq 100, acked 101"},
		"session unread":              {"UPDATE sessions SET unread = 0", "not marked for what was not acknowledged"},
		"session purged":              {"UPDATE sessions SET purged = 1", "keeps events that it says are gone"},
		"event zero":                  {"UPDATE events SET seq = 0 WHERE seq = 1; UPDATE sessions SET first_seq = 2", "keeps events that it says are gone"},
		"session alone":               {"UPDATE sessions SET state = 'idle'", "lives without a live generation: idle"},
		"session of the past":         {insertGeneration("g1", 1, 9) + insertGeneration("g2", 2, 0) + "UPDATE sessions SET generation = 'g1'", "not its newest: g1"},
		"session that is left":        {"UPDATE sessions SET state = 'deleted', wiped = 1, unread = 0", "is deleted, and has rows left"},
		"event of another":            {otherSession + "UPDATE events SET generation = 1 WHERE seq = 7", "event 7: is of another session's generation"},
		"verdict":                     {insertGeneration("g1", 1, 9), "verdict that does not go with its end"},
		"verdict too early":           {insertGeneration("g1", 1, 0) + "UPDATE generations SET verdict = 'confirmed'", "verdict that does not go with its end"},
		"generation missing":          {insertGeneration("g2", 2, 0), "not counted right in its session: 1 of 2"},
		"generation revived":          {insertGeneration("g1", 1, 0) + insertGeneration("g2", 2, 9), "g1: is live before a later one"},
		"runs in an idle session":     {insertGeneration("g1", 1, 0) + insertCommand("a", "submitted", 0) + "UPDATE sessions SET state = 'idle'", "its session is idle"},
		"command of another":          {insertCommand("a", "queued", 0) + "UPDATE commands SET principal = 'x'", "another principal than its session x"},
		"command of another's life":   {otherSession + insertCommand("a", "queued", 0) + "UPDATE commands SET generation = 1", "a: is of another session's generation"},
		"command never submitted":     {insertCommand("a", "completed", 5) + "UPDATE commands SET submitted = 0", "time of submission"},
		"command steers nothing":      {insertCommand("a", "queued", 0) + "UPDATE commands SET steer = 'x'", "steers one that does not exist: x"},
		"command without an intent":   {insertGeneration("g1", 1, 0) + insertCommand("a", "submitted", 0), "submitted without an intent"},
		"command sent twice":          {insertGeneration("g1", 1, 0) + insertCommand("a", "submitted", 0) + insertInput("g1", "prompt", "a", "pending") + "UPDATE inputs SET row = 8, n = 2; " + insertInput("g1", "prompt", "a", "pending"), "a: was given to an agent more than once: 2 prompts"},
		"command sent in two lives":   {insertGeneration("g1", 1, 9) + insertGeneration("g2", 2, 0) + insertCommand("a", "submitted", 0) + insertInput("g1", "prompt", "a", "pending") + "UPDATE inputs SET row = 8; " + insertInput("g2", "prompt", "a", "pending"), "given to an agent more than once"},
		"command that was fenced":     {insertCommand("a", "queued", 0) + "INSERT INTO fences VALUES ('local', 'command', '$S', 'a', 1)", "a: was forbidden before it was there"},
		"session that was fenced":     {"INSERT INTO fences VALUES ('local', 'session', '', '$S', 1)", "forbids a session that is there"},
		"outcome that is not told":    {insertCommand("a", "completed", 5), "a: is not as its last event says: completed, the event says nothing"},
		"outcome that is another":     {insertCommand("a", "completed", 5) + settledEvent(7, "failed"), "completed, the event says failed"},
		"outcome that is told twice":  {insertCommand("a", "completed", 5) + settledEvent(7, "failed") + settledEvent(8, "completed"), "a: was settled more than once: 2 ends"},
		"end of what runs":            {insertCommand("a", "accepted", 0) + settledEvent(7, "completed"), "accepted, the event says completed"},
		"command JSON":                {insertCommand("a", "queued", 0) + "UPDATE commands SET overrides = '{'", "command a: cannot be read as what it is"},
		"request of no life":          {insertRequest("q", "g9", "expired"), "q: is of no generation of its session: g9"},
		"request of no command":       {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "pending") + "UPDATE requests SET command = 'x'", "about a command that does not exist: x"},
		"request without its answer":  {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "answered"), "an answer that does not go with its state: answered"},
		"request with an answer":      {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "pending") + "UPDATE requests SET answered = 1", "an answer that does not go with its state: pending"},
		"request not settled":         {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "withdrawn"), "time of settlement that does not go with its state: withdrawn"},
		"request without an intent":   {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "answering") + "UPDATE requests SET answered = 1", "q: was answered without an intent: answering"},
		"request answered twice":      {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "answering") + insertInput("g1", "answer", "q", "written") + "UPDATE inputs SET row = 8, n = 2; " + insertInput("g1", "answer", "q", "pending"), "q: was answered more than once: 2 answers"},
		"request JSON":                {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "pending") + "UPDATE requests SET body = '{'", "request q: cannot be read as what it is"},
		"input JSON":                  {insertGeneration("g1", 1, 0) + insertInput("g1", "close", "", "pending") + "UPDATE inputs SET payload = '{'", "no JSON"},
		"receipt of nothing":          {"INSERT INTO operations VALUES ('local','k','send','$S','m','done','',0,1,1)", "receipt of a command that does not exist"},
		"operation without a meaning": {"INSERT INTO operations VALUES ('local','k','close','$S','','done','',0,1,1)", "no meaning to be known again by"},
		"two running": {"DROP INDEX commands_running; " + insertCommand("a", "submitted", 0) + insertCommand("b", "accepted", 0) +
			"UPDATE sessions SET state = 'running'", "runs beside another"},
		"runs in a closed session":                             {insertCommand("a", "submitted", 0) + "UPDATE sessions SET state = 'closed'", "its session is closed"},
		"runs in a failed session, whose generation has ended": {insertCommand("a", "submitted", 0) + "UPDATE sessions SET state = 'failed'", "its session is failed"},
		"command state":                                        {insertCommand("a", "x", 1), "unknown state x"},
		"command of no generation":                             {insertCommand("a", "queued", 0) + "UPDATE commands SET generation = 99", "generation that does not exist: 99"},
		"progress missing":                                     {insertGeneration("g1", 1, 0) + "DELETE FROM progress", "holes"},
		"progress of nobody":                                   {"INSERT INTO progress VALUES (99, 0, 0, 0)", "belongs to no generation"},
		"unsettled":                                            {insertCommand("a", "completed", 0), "time of settlement"},
		"settled too early":                                    {insertCommand("a", "queued", 5), "time of settlement"},
		"two live":                                             {"DROP INDEX generations_live; " + insertGeneration("g1", 1, 0) + insertGeneration("g2", 2, 0), "live beside another"},
		"live in a closed session":                             {insertGeneration("g1", 1, 0) + "UPDATE sessions SET state = 'closed'", "its session is closed"},
		"request of the past":                                  {insertGeneration("g1", 1, 9) + insertRequest("q", "g1", "pending"), "generation is not live"},
		"request state":                                        {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "x"), "unknown state x"},
		"input missing":                                        {insertGeneration("g1", 1, 0) + "UPDATE progress SET last_input = 1", "holes"},
		"input of nothing":                                     {insertGeneration("g1", 1, 0) + insertInput("g1", "prompt", "none", "pending"), "does not exist: prompt none"},
		"input of no generation":                               {insertInput("none", "close", "", "pending"), "belongs to no generation"},
		"input state":                                          {insertGeneration("g1", 1, 0) + insertInput("g1", "close", "", "x"), "unknown state x"},
		"input that is not found":                              {insertGeneration("g1", 1, 0) + insertInput("g1", "close", "", "pending") + "UPDATE progress SET last_row = 6", "g1 1: is not found"},
		"input before it that is not found":                    {insertGeneration("g1", 1, 0) + insertInput("g1", "close", "", "pending") + "UPDATE inputs SET n = 2", "g1 1: is not found"},
		"operation of nothing":                                 {"INSERT INTO operations VALUES ('p','k','send','none','m','done','',0,1,1)", "does not exist: send"},
		"operation result":                                     {"INSERT INTO operations VALUES ('p','k','list','','m','done','{',0,1,1)", "no JSON"},
		"consumer":                                             {"INSERT INTO consumers VALUES ('inbox', 1000, 1)", "beyond the last event"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			store(t, path, whole)
			db, err := sqlite3.Open("file:" + path)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Exec(strings.ReplaceAll(c.sql, "$S", id)); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			j := openAt(t, path, Options{})
			problems, err := j.check(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(fmt.Sprint(problems), c.want) {
				t.Errorf("found %v, want %q", problems, c.want)
			}
		})
	}
}

// otherSession inserts a session with a generation, whose number is 1.
const otherSession = `INSERT INTO sessions (id, principal, runner, cwd, title, state, generation, native_id, had_turn, asked, settings, evidence, capability,
		lease, lease_term, workspace_id, node_id, origin, containment, error, usage, first_seq, created)
		SELECT 'other', principal, runner, cwd, title, 'reserved', '', '', 0, asked, settings, evidence, capability, '', 0, '', 'local', 'baton', containment, '', '', 1, 1 FROM sessions;
	INSERT INTO heads VALUES (last_insert_rowid(), 0, 0);
	INSERT INTO generations VALUES (1,'g0','other',1,'','','','','','','','','','','','','',1,0,'','');
	INSERT INTO progress VALUES (1, 0, 0, 0);`

// settledEvent makes one of the events the end of command a.
func settledEvent(seq int, state string) string {
	return fmt.Sprintf(`UPDATE events SET kind = 'command.settled', command = 'a', body = '{"kind":"","settled":{"state":"%s"}}' WHERE seq = %d;`, state, seq)
}

func insertCommand(id, state string, settled int) string {
	return fmt.Sprintf(`INSERT INTO commands (session, id, principal, generation, state, outcome, reason, turn, text, images, overrides,
		when_busy, deadline, steer, cancel_asked, acked, usage, created, submitted, settled)
		VALUES ((SELECT n FROM sessions WHERE id = '$S'),'%s','p','','%s','','','','','','','',0,'',0,0,'',1,1,%d);`, id, state, settled)
}

func insertGeneration(id string, n, ended int) string {
	return fmt.Sprintf(`INSERT INTO generations VALUES (NULL,'%s','$S',%d,'','','','','','','','','','','','','',1,%d,'','');
		INSERT INTO progress VALUES (last_insert_rowid(), 0, 0, 0);`, id, n, ended)
}

func insertRequest(id, generation, state string) string {
	return fmt.Sprintf(`INSERT INTO requests (id, session, generation, command, handle, kind, state, body, answer, answered_by, reason,
		asked, answered, settled) VALUES ('%s','$S','%s','','h','approval','%s','','','','',1,0,0);`, id, generation, state)
}

func insertInput(generation, kind, ref, state string) string {
	return fmt.Sprintf(`INSERT INTO inputs VALUES (7,coalesce((SELECT number FROM generations WHERE id = '%s'), 99),1,0,'%s','%s','','%s','',1,1);
		UPDATE progress SET last_input = 1, last_row = 7;`, generation, kind, ref, state)
}

// A hole in the numbers is shown as one, whoever made it.
func TestMissingEventIsAGap(t *testing.T) {
	path, id := closedJournal(t, 60)
	db, err := sqlite3.Open("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec("DELETE FROM events WHERE seq IN (1, 20, 21, 60)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	j := openAt(t, path, Options{})
	for _, limit := range []int{1, 7, 1000} {
		events, gaps := readAll(t, j, id, limit)
		if len(events) != 56 || len(gaps) != 3 || gaps[1] != (sessions.Gap{From: 20, To: 21, Reason: damagedOnDisk}) {
			t.Errorf("limit %d: %d events, gaps %+v", limit, len(events), gaps)
		}
	}
}

// JO-01: the log ends in the middle of what was written last.
func TestTornLogLosesAtMostItsTail(t *testing.T) {
	for name, tear := range map[string]func([]byte) []byte{
		"half a frame":    func(b []byte) []byte { return b[:len(b)-2000] },
		"a frame's start": func(b []byte) []byte { return b[:len(b)-4096-10] },
		"zeroed tail":     func(b []byte) []byte { return append(b[:len(b)-300], make([]byte, 300)...) },
		"garbage behind":  func(b []byte) []byte { return append(b, bytes.Repeat([]byte{0xc3}, 5000)...) },
		"header alone":    func(b []byte) []byte { return b[:32] },
		"half a header":   func(b []byte) []byte { return b[:17] },
	} {
		t.Run(name, func(t *testing.T) {
			path, id := closedJournal(t, 10)
			j, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				if err := addEvents(j, id, 1); err != nil {
					t.Fatal(err)
				}
			}
			dir := t.TempDir() // as a crash at this moment would leave it
			copied := filepath.Join(dir, "journal.db")
			store(t, copied, load(t, path))
			store(t, copied+"-wal", tear(bytes.TrimRight(load(t, path+"-wal"), "\x00"))) // without the room behind it
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = openAt(t, copied, Options{})
			last := int64(0)
			view(t, j, func(tx *Tx) error { s, err := tx.GetSession("", id); last = s.LastSeq; return err })
			if least := map[string]int64{"garbage behind": 15, "header alone": 10, "half a header": 10}[name]; last < max(least, 10) ||
				(least == 0 && last != 14) {
				t.Errorf("%d events are left", last)
			}
			if err := addEvents(j, id, 1); err != nil {
				t.Fatal(err)
			}
			if events, gaps := readAll(t, j, id, 4); int64(len(events)) != last+1 || len(gaps) > 0 {
				t.Errorf("%d events, gaps %v", len(events), gaps)
			}
			if problems, err := j.check(t.Context(), false); err != nil || len(problems) > 0 {
				t.Errorf("check: %v, %v", problems, err)
			}
		})
	}
}
