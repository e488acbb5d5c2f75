package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// filled is the commands that fill sends; more than one batch of a purge.
const filled = purgeBatch + 100

// fill gives a session some of everything, with a word that can be looked for, and ends it.
func fill(t *testing.T, j *Journal, word string) Session {
	t.Helper()
	s, g := live(t, j, toRunning()...)
	update(t, j, func(tx *Tx) error {
		_, err := tx.UpdateSession(s.ID, func(s *Session) { s.Title, s.Cwd, s.Generation = word, "/"+word, g.ID })
		return err
	})
	for i := range filled {
		update(t, j, func(tx *Tx) error {
			id := fmt.Sprint("c", i)
			c := Command{Command: sessions.Command{Session: s.ID, CommandID: id, State: sessions.CommandSubmitted}, Text: word}
			if err := tx.InsertCommand(&c); err != nil {
				return err
			}
			if _, err := tx.AppendInput(g.ID, InputPrompt, id, sessions.Prompt{Text: word}); err != nil {
				return err
			}
			q := Request{Request: sessions.Request{RequestID: sessions.NewID(), Session: s.ID, Generation: g.ID, Handle: id, Title: word}}
			if err := tx.InsertRequest(&q); err != nil {
				return err
			}
			if _, err := tx.MoveRequest(q.RequestID, sessions.RequestWithdraw, nil); err != nil {
				return err
			}
			if _, err := tx.MoveCommand(s.ID, id, sessions.CommandComplete, nil); err != nil {
				return err
			}
			evs := []sessions.Event{{Kind: sessions.EventText, Command: id, Text: word + strings.Repeat("x", 300)}, {Kind: sessions.EventTurnCompleted, Command: id}}
			_, err := tx.AppendEvents(s.ID, evs)
			return err
		})
	}
	update(t, j, func(tx *Tx) error {
		if _, err := tx.EndGeneration(g.ID, "confirmed", "pid_namespace"); err != nil {
			return err
		}
		_, err := tx.MoveSession(s.ID, sessions.SessionFail)
		return err
	})
	view(t, j, func(tx *Tx) (err error) { s, err = tx.GetSession("", s.ID); return err })
	return s
}

func TestDeletedSessionIsGone(t *testing.T) {
	d := newFakeDisk(t, 1)
	j := openFake(t, d)
	s, kept := fill(t, j, "secretword"), fill(t, j, "keptword")
	err := j.Update(t.Context(), func(tx *Tx) error { return tx.DeleteSession(newID(t, tx)) })
	if err == nil {
		t.Error("a session that was never started was deleted")
	}
	if !onDisk(d, "secretword") {
		t.Fatal("the word is not on the disk to begin with")
	}
	before, err := j.Size()
	if err != nil {
		t.Fatal(err)
	}
	update(t, j, func(tx *Tx) error { return tx.DeleteSession(s.ID) })
	for _, purged := range []bool{false, true} {
		if purged {
			if n, err := j.Purge(t.Context()); err != nil || n < filled*5 {
				t.Fatalf("purged %d rows, %v", n, err)
			}
		}
		view(t, j, func(tx *Tx) error {
			_, err := tx.GetSession("", s.ID)
			refused(t, err, sessions.CodeNotFound)
			_, err = tx.SessionView(s.ID)
			refused(t, err, sessions.CodeNotFound)
			_, err = tx.ReadEvents(s.ID, 0, 10, nil, 0)
			refused(t, err, sessions.CodeNotFound)
			if list, _, err := tx.ListSessions(SessionFilter{All: true}, 0, 10); err != nil || len(list) != 1 || list[0].ID != kept.ID {
				t.Errorf("listed %d, %v", len(list), err)
			}
			if list, err := tx.ReadNode("", 0, 10000, 0); err != nil || list[0].Session != kept.ID {
				t.Errorf("the node's events begin with %v, %v", list[:1], err)
			}
			return nil
		})
		err := j.Update(t.Context(), func(tx *Tx) error { return tx.InsertSession(&Session{ID: s.ID}) })
		refused(t, err, sessions.CodeKeyConflict, s.ID)
		_, err = appendOne(t, j, s.ID)
		refused(t, err, sessions.CodeNotFound)
	}
	if onDisk(d, "secretword") {
		t.Error("what was deleted can still be read from the disk")
	}
	if !onDisk(d, "keptword") {
		t.Error("another session lost its texts")
	}
	if after, err := j.Size(); err != nil || after > before*3/4 {
		t.Errorf("%d bytes before, %d after, %v", before, after, err)
	}
	if n, err := j.Purge(t.Context()); n != 0 || err != nil {
		t.Errorf("a second purge removed %d rows, %v", n, err)
	}
	events, gaps := readAll(t, j, kept.ID, 400)
	if len(events) != 2*filled || len(gaps) != 0 {
		t.Errorf("%d events, %v", len(events), gaps)
	}
}

// appendOne appends an event to a session.
func appendOne(t *testing.T, j *Journal, id string) (int64, error) {
	var first int64
	err := j.Update(t.Context(), func(tx *Tx) (err error) {
		first, err = tx.AppendEvents(id, warnings(1))
		return err
	})
	return first, err
}

func newID(t *testing.T, tx *Tx) string {
	s := Session{ID: sessions.NewID()}
	if err := tx.InsertSession(&s); err != nil {
		t.Error(err)
	}
	return s.ID
}

func onDisk(d *fakeDisk, word string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, node := range d.names {
		if bytes.Contains(node.now, []byte(word)) {
			return true
		}
	}
	return false
}

func TestKeepEventsOfAll(t *testing.T) {
	j := openFake(t, newFakeDisk(t, 1))
	var ids []string
	for _, n := range []int{0, 3, 10, 1200} {
		s := newSession(t, j)
		if err := addEvents(j, s.ID, n); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	update(t, j, func(tx *Tx) error {
		n, err := tx.KeepEventsOfAll(5)
		if n != 2 {
			t.Errorf("%d sessions lost events", n)
		}
		return err
	})
	n, err := j.Purge(t.Context())
	if n < 1200 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	for i, want := range []int{0, 3, 5, 5} {
		if events, _ := readAll(t, j, ids[i], 4); len(events) != want {
			t.Errorf("session %d has %d events, want %d", i, len(events), want)
		}
	}
	if first, err := appendOne(t, j, ids[3]); first != 1201 || err != nil {
		t.Errorf("the next event is %d, %v", first, err)
	}
}

func TestExport(t *testing.T) {
	j := openFake(t, newFakeDisk(t, 1))
	s := fill(t, j, "word")
	update(t, j, func(tx *Tx) error { _, err := tx.KeepEvents(s.ID, 2*filled-400); return err })
	var out bytes.Buffer
	if err := j.Export(t.Context(), s.ID, &out); err != nil {
		t.Fatal(err)
	}
	counts, seq, last := map[string]int{}, int64(400), ""
	dec := json.NewDecoder(&out)
	for dec.More() {
		var line map[string]json.RawMessage
		if err := dec.Decode(&line); err != nil {
			t.Fatal(err)
		}
		for what, v := range line {
			counts[what]++
			last = what
			switch what {
			case "event":
				var e sessions.Event
				if err := json.Unmarshal(v, &e); err != nil || e.Seq != seq+1 || e.Session != s.ID {
					t.Fatalf("event %s after %d, %v", v, seq, err)
				}
				seq++
			case "gap":
				if string(v) != `{"from":1,"to":400,"reason":"cut by retention"}` {
					t.Errorf("gap %s", v)
				}
			case "end":
				if string(v) != fmt.Sprintf(`{"events":%d}`, 2*filled-400) {
					t.Errorf("end %s", v)
				}
			case "session":
				var row map[string]any
				if err := json.Unmarshal(v, &row); err != nil || row["id"] != s.ID || row["title"] != "word" {
					t.Errorf("session %s", v)
				}
			}
		}
	}
	want := map[string]int{"session": 1, "generation": 1, "input": filled, "command": filled, "request": filled, "event": 2*filled - 400, "gap": 1, "end": 1}
	if fmt.Sprint(counts) != fmt.Sprint(want) || last != "end" {
		t.Errorf("lines %v, the last is %q; want %v", counts, last, want)
	}
	if err := j.Export(t.Context(), "none", &out); sessions.CodeOf(err) != sessions.CodeNotFound {
		t.Errorf("export of nothing: %v", err)
	}
	failing := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(failing)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Export(t.Context(), s.ID, f); err == nil {
		t.Error("an export into a closed file succeeded")
	}
}
