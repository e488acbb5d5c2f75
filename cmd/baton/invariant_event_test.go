package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/sessions"
)

// TestI11_CursorsNeverLie: pages of any size, read while events come, with any filter and across a killed host, give
// every event once and in order; a cursor that is none of the session's is refused.
func TestI11_CursorsNeverLie(t *testing.T) {
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	other := w.create(f, "cursorlike", nil)
	const n = 150
	call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "c", "text": fmt.Sprintf("[slow 5][say %d]", n)})
	var all []sessions.Event
	after, killed := "", false
	for done := false; !done; {
		page := call[sessions.ReadResult](f, "session_read", args{"session_id": s.SessionID, "after": after, "limit": 3})
		again := call[sessions.ReadResult](f, "session_read", args{"session_id": s.SessionID, "after": after, "limit": len(page.Events) + 1})
		for i, e := range page.Events {
			if again.Events[i].Seq != e.Seq || again.Events[i].Text != e.Text {
				t.Fatalf("read again event %d is another one", e.Seq)
			}
			done = done || e.Kind == sessions.EventCommandSettled && e.Command == "c"
		}
		all = append(all, page.Events...)
		if len(all) > 20 && !killed {
			killed = true
			w.killHost()
		}
		if len(page.Events) == 0 {
			if page.Cursor != after {
				t.Fatal("a cursor moved over no event")
			}
			call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "until": "event", "after": args{s.SessionID: page.Cursor}, "wait_seconds": 50})
		}
		after = page.Cursor
	}
	for i, e := range all {
		if e.Seq != int64(i+1) || e.Session != s.SessionID {
			t.Fatalf("event %d is %+v", i+1, e)
		}
	}
	if got := words(all, "c"); got != directive.Words(n) {
		t.Errorf("the text has %d bytes, ending %.40q", len(got), got[max(0, len(got)-40):])
	}
	whole := f.events(s.SessionID)
	for _, kinds := range [][]sessions.EventKind{{sessions.EventText}, {sessions.EventCommandSettled, sessions.EventTurnStarted}, {sessions.EventGap}} {
		var want, got []int64
		for _, e := range whole {
			if slices.Contains(kinds, e.Kind) {
				want = append(want, e.Seq)
			}
		}
		for after := ""; ; {
			page := call[sessions.ReadResult](f, "session_read", args{"session_id": s.SessionID, "after": after, "limit": 7, "kinds": kinds})
			for _, e := range page.Events {
				got = append(got, e.Seq)
			}
			if after = page.Cursor; !page.HasMore {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("filtered by %v: %v, want %v", kinds, got, want)
		}
	}
	end := f.look(s.SessionID).Cursor
	for _, bad := range []string{sessions.EncodeCursor(s.SessionID, 1<<40), sessions.EncodeCursor(s.SessionID, int64(len(whole)+1)),
		f.look(other.SessionID).Cursor, "abc", "-1", end + "x"} {
		refused(f, sessions.CodeCursorInvalid, "session_read", args{"session_id": s.SessionID, "after": bad})
		refused(f, sessions.CodeCursorInvalid, "session_wait", args{"session_ids": []string{s.SessionID}, "after": args{s.SessionID: bad}})
	}
	if page := call[sessions.ReadResult](f, "session_read", args{"session_id": s.SessionID, "after": end}); len(page.Events) != 0 || page.HasMore || page.Cursor != end {
		t.Errorf("after the end: %+v", page)
	}
}
