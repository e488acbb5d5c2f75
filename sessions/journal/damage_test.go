package journal

import (
	"bytes"
	"context"
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
	problems, err := j.Check(t.Context())
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

// JO-02, second variant: the rows contradict each other although every page is whole.
func TestCheckFindsContradictions(t *testing.T) {
	path, id := closedJournal(t, 100)
	whole := load(t, path)
	for name, c := range map[string]struct{ sql, want string }{
		"event missing":      {"DELETE FROM events WHERE seq = 50", "counts its events wrong"},
		"event too many":     {"UPDATE heads SET last_seq = 99", "counts its events wrong"},
		"event of nobody":    {"UPDATE events SET session = 'x' WHERE seq = 7", "belongs to no session"},
		"event kind":         {"UPDATE events SET kind = 'x' WHERE seq = 7", "unknown kind x"},
		"event body":         {"UPDATE events SET body = '{' WHERE seq = 7", "no JSON"},
		"event of the past":  {"UPDATE events SET generation = 99 WHERE seq = 7", "generation that does not exist: 99"},
		"head missing":       {"DELETE FROM heads", "counts its events wrong"},
		"head of nobody":     {"INSERT INTO heads VALUES (99, 0, 0)", "belongs to no session"},
		"session state":      {"UPDATE sessions SET state = 'x'", "unknown state x"},
		"session generation": {"UPDATE sessions SET generation = 'x'", "does not exist"},
		"session JSON":       {"UPDATE sessions SET asked = '{'", "JSON"},
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
			problems, err := j.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(fmt.Sprint(problems), c.want) {
				t.Errorf("found %v, want %q", problems, c.want)
			}
		})
	}
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
			if problems, err := j.Check(t.Context()); err != nil || len(problems) > 0 {
				t.Errorf("check: %v, %v", problems, err)
			}
		})
	}
}
