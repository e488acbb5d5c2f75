package journal

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/batonmcp/baton/sessions"
)

// EV-02: the last 100 of 500 events are kept.
func TestI11_CursorsNeverLie(t *testing.T) {
	j := open(t, Options{})
	s := newSession(t, j)
	if err := addEvents(j, s.ID, 500); err != nil {
		t.Fatal(err)
	}
	update(t, j, func(tx *Tx) error {
		cut, err := tx.KeepEvents(s.ID, 100)
		if cut != 400 {
			t.Errorf("%d events were cut", cut)
		}
		return err
	})
	for _, purged := range []bool{false, true} {
		if purged {
			if _, err := j.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		view(t, j, func(tx *Tx) error {
			p, err := tx.ReadEvents(s.ID, 10, 3, nil, 0)
			if err != nil || !reflect.DeepEqual(p.Gap, &sessions.Gap{From: 11, To: 400, Reason: cutByRetention}) ||
				len(p.Events) != 3 || p.Events[0].Seq != 401 || p.Last != 403 || !p.More {
				t.Errorf("too old: %+v, %v", p, err)
			}
			p, err = tx.ReadEvents(s.ID, 500, 3, nil, 0)
			if err != nil || p.Gap != nil || len(p.Events) != 0 || p.Last != 500 || p.More {
				t.Errorf("at the end: %+v, %v", p, err)
			}
			_, err = tx.ReadEvents(s.ID, 9999, 3, nil, 0)
			refused(t, err, sessions.CodeCursorInvalid, "9999", "500")
			_, err = tx.ReadEvents(s.ID, -1, 3, nil, 0)
			refused(t, err, sessions.CodeCursorInvalid)
			return nil
		})
	}
	// A reader that stops after the first page and goes on while another session appends.
	other := newSession(t, j)
	want := int64(401)
	for after, more := int64(400), true; more; {
		view(t, j, func(tx *Tx) error {
			p, err := tx.ReadEvents(s.ID, after, 3, nil, 0)
			for _, e := range p.Events {
				if e.Seq != want {
					t.Fatalf("event %d came, %d was next", e.Seq, want)
				}
				want++
			}
			if p.Last != want-1 {
				t.Errorf("the cursor is %d after event %d", p.Last, want-1)
			}
			after, more = p.Last, p.More
			return err
		})
		if err := addEvents(j, other.ID, 1); err != nil {
			t.Fatal(err)
		}
	}
	if want != 501 {
		t.Errorf("the reading ended at %d", want)
	}
}

func TestReadIsBounded(t *testing.T) {
	j := open(t, Options{})
	s := newSession(t, j)
	update(t, j, func(tx *Tx) error {
		evs := warnings(20)
		for i := range evs {
			evs[i].Text = string(make([]byte, 100))
		}
		evs[3].Text = string(make([]byte, 10000))
		_, err := tx.AppendEvents(s.ID, evs)
		return err
	})
	view(t, j, func(tx *Tx) error {
		var got []int
		for after, more := int64(0), true; more; {
			p, err := tx.ReadEvents(s.ID, after, 100, nil, 3000)
			if err != nil {
				return err
			}
			got = append(got, len(p.Events))
			after, more = p.Last, p.More
		}
		// 616 bytes each (a NUL is 6 in JSON); one that is longer than a page still comes, alone.
		if want := []int{3, 1, 4, 4, 4, 4}; !slices.Equal(got, want) {
			t.Errorf("pages of %v events, want %v", got, want)
		}
		return nil
	})
}

// A filter that finds nothing looks at a bounded number of events at a time, and gets to the end nevertheless.
func TestReadWithAFilterThatFindsLittle(t *testing.T) {
	j := open(t, Options{})
	s := newSession(t, j)
	if err := addEvents(j, s.ID, 2*scanLimit+10); err != nil {
		t.Fatal(err)
	}
	update(t, j, func(tx *Tx) error {
		_, err := tx.AppendEvents(s.ID, []sessions.Event{{Kind: sessions.EventError}})
		return err
	})
	pages, found := 0, 0
	for after, more := int64(0), true; more; pages++ {
		view(t, j, func(tx *Tx) error {
			p, err := tx.ReadEvents(s.ID, after, 10, []sessions.EventKind{sessions.EventError}, 0)
			found += len(p.Events)
			after, more = p.Last, p.More
			return err
		})
	}
	if pages != 3 || found != 1 {
		t.Errorf("%d events in %d pages", found, pages)
	}
}

// Whatever is appended, cut, filtered and paged: every event that passes the filter comes once and in order, or is in a
// gap; and the cursor never passes one that was not given.
func TestReadModel(t *testing.T) {
	j := openFake(t, newFakeDisk(t, 1))
	kinds := []sessions.EventKind{sessions.EventText, sessions.EventWarning, sessions.EventUsage}
	rapid.Check(t, func(t *rapid.T) {
		id := sessions.NewID()
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(j.Update(context.Background(), func(tx *Tx) error { return tx.InsertSession(&Session{ID: id}) }))
		var model []sessions.EventKind // of event i+1
		first, cursor, more := int64(1), int64(0), true
		filter := rapid.SliceOfDistinct(rapid.SampledFrom(kinds), rapid.ID[sessions.EventKind]).Draw(t, "filter")
		passes := func(k sessions.EventKind) bool { return len(filter) == 0 || slices.Contains(filter, k) }
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				batch := rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 5).Draw(t, "kinds")
				evs := make([]sessions.Event, len(batch))
				for i, k := range batch {
					evs[i].Kind = k
				}
				var at int64
				must(j.Update(context.Background(), func(tx *Tx) (err error) { at, err = tx.AppendEvents(id, evs); return err }))
				if at != int64(len(model))+1 {
					t.Fatalf("first number %d after %d events", at, len(model))
				}
				model, more = append(model, batch...), true
			},
			"cut": func(t *rapid.T) {
				keep := rapid.Int64Range(0, 8).Draw(t, "keep")
				must(j.Update(context.Background(), func(tx *Tx) error { _, err := tx.KeepEvents(id, keep); return err }))
				first, more = max(first, int64(len(model))-keep+1), true
				if rapid.Bool().Draw(t, "purge") {
					_, err := j.Purge(context.Background())
					must(err)
				}
			},
			"read": func(t *rapid.T) {
				var p Page
				limit := rapid.IntRange(1, 6).Draw(t, "limit")
				must(j.View(context.Background(), func(tx *Tx) (err error) { p, err = tx.ReadEvents(id, cursor, limit, filter, 0); return err }))
				if gone := cursor+1 < first; gone != (p.Gap != nil) || (gone && (p.Gap.From != cursor+1 || p.Gap.To != first-1)) {
					t.Fatalf("after %d with events from %d: gap %+v", cursor, first, p.Gap)
				}
				var want []int64
				for seq := max(cursor+1, first); seq <= int64(len(model)); seq++ {
					if passes(model[seq-1]) {
						want = append(want, seq)
					}
				}
				full := len(want) > limit
				if full {
					want = want[:limit]
				}
				var got []int64
				for _, e := range p.Events {
					got = append(got, e.Seq)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("after %d: events %v, want %v", cursor, got, want)
				}
				if p.More != full || (full && p.Last != want[len(want)-1]) || (!full && p.Last != int64(len(model))) {
					t.Fatalf("after %d: cursor %d, more %v, with %d of %d events", cursor, p.Last, p.More, len(got), len(model))
				}
				cursor, more = p.Last, p.More
			},
			"": func(t *rapid.T) {
				if !more && cursor != int64(len(model)) {
					t.Fatalf("nothing more at %d of %d", cursor, len(model))
				}
			},
		})
	})
}

func TestNodeOrder(t *testing.T) {
	j := open(t, Options{})
	a, b := newSession(t, j), Session{ID: sessions.NewID(), Principal: "other"}
	update(t, j, func(tx *Tx) error { return tx.InsertSession(&b) })
	for i := range 6 {
		id := []string{a.ID, b.ID}[i%2]
		if err := addEvents(j, id, 1); err != nil {
			t.Fatal(err)
		}
	}
	read := func(principal string, after int64, limit int) (ids []int64, sess []string) {
		view(t, j, func(tx *Tx) error {
			list, err := tx.ReadNode(principal, after, limit, 0)
			for _, e := range list {
				ids, sess = append(ids, e.ID), append(sess, e.Session)
			}
			return err
		})
		return ids, sess
	}
	if ids, sess := read("", 0, 4); !slices.IsSorted(ids) || !slices.Equal(sess, []string{a.ID, b.ID, a.ID, b.ID}) {
		t.Errorf("%v %v", ids, sess)
	}
	ids, sess := read("local", 0, 10)
	if !slices.Equal(sess, []string{a.ID, a.ID, a.ID}) {
		t.Errorf("of one principal: %v", sess)
	}
	last := ids[2]
	// A number is never used twice, although its event is gone.
	update(t, j, func(tx *Tx) error {
		if _, err := tx.MoveSession(b.ID, sessions.SessionFail); err != nil {
			return err
		}
		return tx.DeleteSession(b.ID)
	})
	if _, err := j.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := addEvents(j, a.ID, 1); err != nil {
		t.Fatal(err)
	}
	if ids, sess := read("", last, 10); len(ids) != 1 || ids[0] != last+2 || sess[0] != a.ID {
		t.Errorf("after deletion: %v %v, the last was %d", ids, sess, last+1)
	}
}

func TestLastFinalText(t *testing.T) {
	j := open(t, Options{})
	text := func(item, s string, more ...func(*sessions.Event)) sessions.Event {
		e := sessions.Event{Kind: sessions.EventText, Command: "c", Item: item, Text: s}
		for _, f := range more {
			f(&e)
		}
		return e
	}
	final := func(e *sessions.Event) { e.Final = true }
	given := func(e *sessions.Event) { e.Abandoned = true }
	sub := func(e *sessions.Event) { e.Agent = "sub" }
	other := func(e *sessions.Event) { e.Command = "d" }
	for name, c := range map[string]struct {
		events []sessions.Event
		want   string
		none   bool
	}{
		"nothing":             {none: true},
		"another command":     {events: []sessions.Event{text("1", "x", other)}, none: true},
		"final":               {events: []sessions.Event{text("1", "he"), text("1", "hello", final), text("2", "by"), text("2", "bye", final)}, want: "bye"},
		"final before deltas": {events: []sessions.Event{text("1", "all", final), text("2", "pa"), text("2", "rt")}, want: "all"},
		"deltas":              {events: []sessions.Event{text("1", "a"), text("2", "b"), text("2", "c"), text("2", "d")}, want: "bcd"},
		"deltas interleaved":  {events: []sessions.Event{text("2", "a"), text("1", "x"), text("2", "b")}, want: "ab"},
		"given up":            {events: []sessions.Event{text("1", "a"), text("2", "b"), text("2", "", given)}, want: "a"},
		"all given up":        {events: []sessions.Event{text("2", "b"), text("2", "", given)}, none: true},
		"of a sub-agent":      {events: []sessions.Event{text("1", "mine", final), text("2", "its", final, sub)}, want: "mine"},
		"empty":               {events: []sessions.Event{text("1", "", final)}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, j)
			update(t, j, func(tx *Tx) error { _, err := tx.AppendEvents(s.ID, c.events); return err })
			view(t, j, func(tx *Tx) error {
				got, found, err := tx.LastFinalText(s.ID, "c")
				if got != c.want || found == c.none {
					t.Errorf("got %q, %v", got, found)
				}
				return err
			})
		})
	}
}

// JO-03: start, list and a page of a long session cost no more than those of a short one. The disk counts.
func TestLongSessionCostsAPageAtATime(t *testing.T) {
	cost := func(n int) (start, list, front, back, text int64) {
		d := newFakeDisk(t, 1)
		o := d.options()
		o.checkpoint = 1000
		j, err := Open(t.Context(), cutPath, o)
		if err != nil {
			t.Fatal(err)
		}
		s := newSession(t, j)
		body := string(make([]byte, 160)) // 960 bytes of JSON
		for i := 0; i < n; i += 1000 {
			update(t, j, func(tx *Tx) error {
				evs := make([]sessions.Event, 1000)
				for k := range evs {
					evs[k] = sessions.Event{Kind: sessions.EventText, Command: fmt.Sprint("c", (i+k)/50), Text: body}
				}
				_, err := tx.AppendEvents(s.ID, evs)
				return err
			})
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		measure := func(f func()) int64 {
			before := d.reads
			f()
			return d.reads - before
		}
		start = measure(func() { j = openAt(t, cutPath, o) })
		read := func(after int64) func() {
			return func() {
				view(t, j, func(tx *Tx) error {
					p, err := tx.ReadEvents(s.ID, after, 10, nil, 0)
					if len(p.Events) != 10 {
						t.Errorf("%d events", len(p.Events))
					}
					return err
				})
			}
		}
		list = measure(func() {
			view(t, j, func(tx *Tx) error { _, _, err := tx.ListSessions(SessionFilter{All: true}, 0, 50); return err })
		})
		front, back = measure(read(0)), measure(read(int64(n)-10))
		text = measure(func() {
			view(t, j, func(tx *Tx) error { _, _, err := tx.LastFinalText(s.ID, "c3"); return err })
		})
		return start, list, front, back, text
	}
	n := amount(5_000, 20_000, 200_000)
	start, list, front, back, text := cost(n)
	t.Logf("%d events of 1 kB: bytes read to start %d, list %d, first page %d, last page %d, one text %d", n, start, list, front, back, text)
	for what, c := range map[string]struct{ is, most int64 }{"start": {start, 1 << 20}, "list": {list, 1 << 18}, "first page": {front, 1 << 18},
		"last page": {back, 1 << 18}, "text": {text, 1 << 19}} {
		if c.is > c.most {
			t.Errorf("%s read %d bytes of a journal of %d kB", what, c.is, n)
		}
	}
}
