package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/internal/transcript"
	"github.com/batonmcp/baton/sessions"
)

const fakeID = "0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a11"

// fake is a host with one session: its events, and how it is.
type fake struct {
	sessions.API
	events  []sessions.Event
	session sessions.Session
	page    int // events of a page at most
	reads   int
	waits   chan struct{} // a wait blocks until it is closed; nil: it returns at once
	grow    func()        // before each read
	lost    int64         // events up to this one can no longer be read
}

func newFake(n int) *fake {
	f := &fake{page: 500, session: sessions.Session{SessionID: fakeID, State: sessions.SessionIdle}}
	for range n {
		f.add(sessions.Event{Kind: sessions.EventText, Text: "x", Item: fmt.Sprint(len(f.events)), Final: len(f.events)%10 == 9})
	}
	return f
}

// add appends an event, a second after the one before.
func (f *fake) add(e sessions.Event) {
	e.Seq = int64(len(f.events) + 1)
	e.At = start.Add(time.Duration(e.Seq) * time.Second)
	f.events = append(f.events, e)
	f.session.Cursor = sessions.EncodeCursor(fakeID, e.Seq)
}

var start = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func (f *fake) Read(_ context.Context, _ sessions.Caller, a sessions.ReadArgs) (sessions.ReadResult, error) {
	if f.grow != nil {
		f.grow()
	}
	f.reads++
	after, err := sessions.DecodeCursor(a.SessionID, a.After)
	if err != nil {
		return sessions.ReadResult{}, err
	}
	var gap *sessions.Gap
	if after < f.lost {
		gap = &sessions.Gap{From: after + 1, To: f.lost, Reason: "retention"}
		after = f.lost
	}
	end := min(int(after)+min(a.Limit, f.page), len(f.events))
	return sessions.ReadResult{Events: f.events[after:end], Cursor: sessions.EncodeCursor(a.SessionID, int64(end)), HasMore: end < len(f.events), Gap: gap}, nil
}

func (f *fake) Wait(ctx context.Context, _ sessions.Caller, a sessions.WaitArgs) (sessions.WaitResult, error) {
	if f.waits != nil && *a.WaitSeconds > 0 {
		select {
		case <-f.waits:
		case <-ctx.Done():
			return sessions.WaitResult{}, ctx.Err()
		}
	}
	return sessions.WaitResult{Sessions: []sessions.Waited{{Session: f.session, Cursor: f.session.Cursor}}}, nil
}

// frontOf is a Front whose screens are texts.
func frontOf(api sessions.API) (f *Front, talk, aside *strings.Builder) {
	talk, aside = &strings.Builder{}, &strings.Builder{}
	return &Front{api: api, out: os.Stdout, talk: term.PlainScreen(talk), aside: term.PlainScreen(aside), getenv: func(string) string { return "" }}, talk, aside
}

// A tail is the last things that are told, however many events they have and however they are read.
func TestTail(t *testing.T) {
	for _, page := range []int{1, 7, 500} {
		api := newFake(3000) // 300 messages
		api.page = page
		f, _, _ := frontOf(api)
		for _, tc := range []struct {
			n    int
			want int64 // the event before it
		}{{0, 3000}, {1, 2999}, {2, 2989}, {100, 2009}, {299, 19}, {300, 0}, {301, 0}, {100_000, 0}} {
			r := f.reader(fakeID)
			if err := r.tail(t.Context(), 3000, tc.n, told); err != nil {
				t.Fatal(err)
			}
			if got, _ := sessions.DecodeCursor(fakeID, r.after); got != tc.want && !(tc.want == 0 && got < 10) {
				t.Errorf("pages of %d: the last %d begin after event %d, want %d", page, tc.n, got, tc.want)
			}
		}
	}
}

// What happened since a moment is found in few reads.
func TestSince(t *testing.T) {
	api := newFake(5000)
	f, _, _ := frontOf(api)
	for at, want := range map[time.Time]int64{start: 0, start.Add(time.Second): 0, start.Add(1500 * time.Millisecond): 1, start.Add(4000 * time.Second): 3999,
		start.Add(5000 * time.Second): 4999, start.Add(6000 * time.Second): 5000} {
		api.reads = 0
		r := f.reader(fakeID)
		if err := r.since(t.Context(), 5000, at); err != nil {
			t.Fatal(err)
		}
		if got, _ := sessions.DecodeCursor(fakeID, r.after); got != want || api.reads > 14 {
			t.Errorf("since %v begins after event %d, want %d (%d reads)", at, got, want, api.reads)
		}
	}
}

// A watcher that cannot keep up is told and let go, however long its session goes on.
func TestSlowWatcherIsLetGo(t *testing.T) {
	api := newFake(0)
	api.waits = make(chan struct{})
	f, _, aside := frontOf(api)
	grown := 0
	api.grow = func() { // the agent says a page and more for every page that is read, after it was quiet at first
		if grown++; grown > 1 {
			for range 600 {
				api.add(sessions.Event{Kind: sessions.EventText, Text: "x", Item: "1"})
			}
		}
	}
	close(api.waits)
	w := &watch{f: f, id: fakeID, deaf: true, p: transcript.NewPrinter(f.talk, f.aside, transcript.Options{})}
	if err := w.run(t.Context(), f.reader(fakeID)); err != errDetached {
		t.Fatalf("%v", err)
	}
	if !strings.Contains(aside.String(), "too slow") || !strings.Contains(aside.String(), "baton logs "+fakeID) {
		t.Errorf("it was told %q", aside.String())
	}
}

// A long history is no reason to be let go: nobody is slow who has not caught up yet.
func TestLongHistoryIsShown(t *testing.T) {
	api := newFake(slowPages * 1000)
	api.add(sessions.Event{Kind: sessions.EventSessionClosed})
	api.session.State = sessions.SessionClosed
	f, talk, _ := frontOf(api)
	w := &watch{f: f, id: fakeID, deaf: true, p: transcript.NewPrinter(f.talk, f.talk, transcript.Options{})}
	if err := w.run(t.Context(), f.reader(fakeID)); err != nil || w.over == nil {
		t.Fatalf("%v", err)
	}
	if n := strings.Count(talk.String(), "x"); n != slowPages*1000 {
		t.Errorf("%d events were shown", n)
	}
}

// What can no longer be read is said, by logs, by a tail that reaches into it, by what is raw and in the transcript.
func TestGapIsShown(t *testing.T) {
	api := newFake(100)
	api.lost = 55
	api.session.State = sessions.SessionClosed
	f, talk, _ := frontOf(api)
	const want = "! events 1 to 55 can no longer be read: retention\n"
	for tail, gap := range map[int]bool{-1: true, 3: false, 50: true} {
		talk.Reset()
		if err := f.Logs(t.Context(), Logs{ID: fakeID, Tail: tail}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(talk.String(), want) != gap || !strings.Contains(talk.String(), "x") {
			t.Errorf("the last %d: %q", tail, talk.String())
		}
	}
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	f.out = out
	if err := f.Logs(t.Context(), Logs{ID: fakeID, Tail: -1, Raw: true}); err != nil {
		t.Fatal(err)
	}
	if err := f.Transcript(t.Context(), fakeID, transcript.Options{}, true); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kind":"gap","gap":{"from":1,"to":55,"reason":"retention"}`, `"seq":56,`, "*events 1 to 55 can no longer be read: retention*"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
}
