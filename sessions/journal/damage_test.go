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
