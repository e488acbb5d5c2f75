package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// wait is a wait of the rig's caller.
func (r *rig) wait(change ...func(*sessions.WaitArgs)) (sessions.WaitResult, error) {
	a := sessions.WaitArgs{WaitSeconds: ptr(20)}
	for _, c := range change {
		c(&a)
	}
	return r.Wait(r.t.Context(), r.who, a)
}

func for_(ids ...string) func(*sessions.WaitArgs) {
	return func(a *sessions.WaitArgs) { a.SessionIDs = ids }
}

func after(id, cursor string) func(*sessions.WaitArgs) {
	return func(a *sessions.WaitArgs) {
		if a.After == nil {
			a.After = map[string]string{}
		}
		a.After[id] = cursor
	}
}

func now(a *sessions.WaitArgs) { a.WaitSeconds = ptr(0) }

// A wait returns when a session goes on by itself no more, or asks.
func TestWaitForSettledOrInput(t *testing.T) {
	for name, c := range map[string]struct {
		from func(*rig) *session
		then func(*session) // nil: it is so already
		text string
		next string
	}{
		"idle":   {from: func(r *rig) *session { return r.idle() }, next: "Settled"},
		"failed": {from: failedSession, next: "Settled"},
		"a paused queue": {from: func(r *rig) *session {
			s := r.runs()
			s.send("q", busy("queue"))
			s.settles("c", sessions.CommandInterrupted)
			return s
		}, next: "Settled"},
		"asks":  {from: func(r *rig) *session { s := r.runs(); s.asks("h", once...); return s }, next: "answer its requests"},
		"opens": {from: func(r *rig) *session { return r.starting() }, then: func(s *session) { s.opens() }, next: "Settled"},
		"fails to open": {from: func(r *rig) *session { return r.starting() }, next: "Settled",
			then: func(s *session) {
				s.frame(bridge.OutFailed, bridge.Failure{Error: sessions.Errorf(sessions.CodeTimeout, "no")})
			}},
		"settles":    {from: func(r *rig) *session { return r.runs() }, then: func(s *session) { s.text("c", "well"); s.settles("c", sessions.CommandCompleted) }, text: "well", next: "Settled"},
		"is lost":    {from: func(r *rig) *session { return r.runs() }, then: func(s *session) { s.ends(sandbox.Confirmed) }, text: "going on", next: "Settled"},
		"asks later": {from: func(r *rig) *session { return r.runs() }, then: func(s *session) { s.asks("h", once...) }, next: "answer its requests"},
		"is closed":  {from: closingSession, then: func(s *session) { s.ends(sandbox.Confirmed) }, next: "Settled"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := c.from(r)
			var res sessions.WaitResult
			err := within(t, func() (err error) { res, err = r.wait(for_(s.id)); return err }, func() {
				if c.then != nil {
					r.waiting(s.id)
					if s.view().State == sessions.SessionRunning {
						s.says(sessions.Event{Kind: sessions.EventText, Command: "c", Item: "i", Text: "going on"}) // nobody waits for that
					}
					c.then(s)
				}
			})
			if err != nil || res.TimedOut || len(res.Sessions) != 1 || res.Sessions[0].Text != c.text || !strings.Contains(res.Next, c.next) {
				t.Errorf("%+v, %v", res, err)
			}
			if res.Sessions[0].Cursor != res.Sessions[0].Session.Cursor {
				t.Errorf("cursor %q, session's %q", res.Sessions[0].Cursor, res.Sessions[0].Session.Cursor)
			}
		})
	}
}

// With a cursor only what is newer counts, however much lies in between.
func TestWaitWithACursor(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	cursor := s.view().Cursor
	if res, err := r.wait(for_(s.id), after(s.id, cursor), now); err != nil || !res.TimedOut || len(res.Sessions) != 1 {
		t.Errorf("nothing is newer: %+v, %v", res, err)
	}
	s.send("c")
	s.accepts("c")
	for range 12 { // more than one read looks at
		var evs []bridge.Frame
		for range 500 {
			evs = append(evs, bridge.Frame{Type: "out", Kind: bridge.OutEvent, N: s.t.lastOut + uint64(len(evs)) + 1, Body: []byte(`{"kind":"text","command":"c","item":"j","text":"x"}`)})
		}
		if err := s.t.take(evs); err != nil {
			t.Fatal(err)
		}
	}
	s.text("c", "the end")
	s.settles("c", sessions.CommandCompleted)
	for range 20 { // a helper's chatter after the turn
		s.says(sessions.Event{Kind: sessions.EventWarning, Text: "late"})
	}
	res, err := r.wait(for_(s.id), after(s.id, cursor), now)
	if err != nil || res.TimedOut || len(res.Sessions) != 1 || res.Sessions[0].Text != "the end" {
		t.Fatalf("%+v, %v", res, err)
	}
	cursor = res.Sessions[0].Cursor
	if res, err = r.wait(for_(s.id), after(s.id, cursor), now); err != nil || !res.TimedOut {
		t.Errorf("told again: %+v, %v", res, err)
	}
	s.says(sessions.Event{Kind: sessions.EventWarning, Text: "later still"})
	if res, err = r.wait(for_(s.id), after(s.id, cursor), now); err != nil || !res.TimedOut {
		t.Errorf("a warning ended a wait: %+v, %v", res, err)
	}
	if res, err = r.wait(for_(s.id), after(s.id, cursor), now, func(a *sessions.WaitArgs) { a.Until = "event" }); err != nil || res.TimedOut || res.Sessions[0].Text != "" {
		t.Errorf("a wait for events: %+v, %v", res, err)
	}
	s.asks("h", once...) // in no turn, and a question all the same
	if res, err = r.wait(for_(s.id), after(s.id, cursor), now); err != nil || res.TimedOut {
		t.Errorf("a question: %+v, %v", res, err)
	}
}

// A wait for many returns those that have news, and each event wakes it once there is one.
func TestWaitForMany(t *testing.T) {
	r := newRig(t)
	var all []*session
	var ids []string
	for i := range sessions.MaxWaitSessions {
		s := r.starting(func(a *sessions.CreateArgs) { a.Title = fmt.Sprint(i) })
		all, ids = append(all, s), append(ids, s.id)
	}
	var res sessions.WaitResult
	err := within(t, func() (err error) { res, err = r.wait(for_(ids...)); return err }, func() {
		r.waiting(ids[len(ids)-1])
		all[7].opens()
	})
	if err != nil || len(res.Sessions) != 1 || res.Sessions[0].Session.SessionID != ids[7] {
		t.Errorf("%d sessions, %v", len(res.Sessions), err)
	}
	all[9].opens()
	if res, err = r.wait(for_(ids...), now); err != nil || len(res.Sessions) != 2 {
		t.Errorf("%d sessions, %v", len(res.Sessions), err)
	}
	if res, err = r.wait(for_(ids[:5]...), now); err != nil || !res.TimedOut || len(res.Sessions) != 5 {
		t.Errorf("%d sessions, %v", len(res.Sessions), err)
	}
	_, err = r.wait(for_(append(ids, sessions.NewID())...))
	refused(t, err, sessions.CodeLimitExceeded, "50")
	_, err = r.wait(for_(ids[0], sessions.NewID()))
	refused(t, err, sessions.CodeNotFound)
}

// The end of a wait is not the end of the work, and a host that ends says so.
func TestEndOfAWait(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	ctx, cancel := context.WithCancel(t.Context())
	err := within(t, func() error {
		_, err := r.Wait(ctx, r.who, sessions.WaitArgs{SessionIDs: []string{s.id}})
		return err
	}, func() { r.waiting(s.id); cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("its client is gone: %v", err)
	}
	s.wants(sessions.SessionRunning, "c", "accepted")
	err = within(t, func() error { _, err := r.wait(for_(s.id)); return err }, func() { r.waiting(s.id); r.end() })
	refused(t, err, sessions.CodeIncomplete, "ask again")
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	if len(r.hub.sessions)+len(r.hub.any) > 0 {
		t.Error("a waiter was left behind")
	}
}

func TestWaitRefuses(t *testing.T) {
	r := newRig(t)
	s, other := r.idle(), r.idle()
	for name, c := range map[string]struct {
		change func(*sessions.WaitArgs)
		code   sessions.Code
	}{
		"patience below zero":      {func(a *sessions.WaitArgs) { a.WaitSeconds = ptr(-1) }, sessions.CodeInvalidParams},
		"too much patience":        {func(a *sessions.WaitArgs) { a.WaitSeconds = ptr(sessions.MaxWaitSeconds + 1) }, sessions.CodeInvalidParams},
		"an unknown until":         {func(a *sessions.WaitArgs) { a.Until = "doomsday" }, sessions.CodeInvalidParams},
		"too many characters":      {func(a *sessions.WaitArgs) { a.MaxChars = sessions.MaxChars + 1 }, sessions.CodeInvalidParams},
		"no cursor":                {after(s.id, "x"), sessions.CodeCursorInvalid},
		"another session's cursor": {after(s.id, other.view().Cursor), sessions.CodeCursorInvalid},
		"a cursor beyond the end":  {after(s.id, sessions.EncodeCursor(s.id, 9999)), sessions.CodeCursorInvalid},
	} {
		for _, ids := range [][]string{{s.id}, nil} {
			a := sessions.WaitArgs{SessionIDs: ids, WaitSeconds: ptr(0)}
			c.change(&a)
			_, err := r.Wait(t.Context(), r.who, a)
			if sessions.CodeOf(err) != c.code {
				t.Errorf("%s, %d sessions: %v, want %s", name, len(ids), err, c.code)
			}
		}
	}
}

// The inbox gives what was not acknowledged, again until it is, and forgets nothing over the host's end.
func TestInbox(t *testing.T) {
	r := newRig(t)
	them := sessions.Caller{Principal: "them", Env: r.who.Env}
	a, b := r.runs(), r.idle()
	inbox := func(change ...func(*sessions.WaitArgs)) map[string]sessions.Waited {
		t.Helper()
		res, err := r.wait(append(change, now)...)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]sessions.Waited{}
		for _, w := range res.Sessions {
			got[w.Session.SessionID] = w
		}
		return got
	}
	for range 2 {
		got := inbox()
		if len(got) != 1 || got[b.id].Cursor == "" {
			t.Errorf("before anything settled: %+v", got)
		}
	}
	got := inbox(after(b.id, b.view().Cursor))
	if len(got) != 0 {
		t.Errorf("acknowledged: %+v", got)
	}
	a.text("c", "done")
	a.settles("c", sessions.CommandCompleted)
	if got = inbox(); len(got) != 1 || got[a.id].Text != "done" {
		t.Errorf("after a turn: %+v", got)
	}
	if got = inbox(after(a.id, sessions.EncodeCursor(a.id, 1))); len(got) != 1 {
		t.Errorf("acknowledged to the beginning: %+v", got)
	}
	if got = inbox(after(a.id, got[a.id].Cursor)); len(got) != 0 {
		t.Errorf("acknowledged: %+v", got)
	}
	if got = inbox(after(a.id, "")); len(got) != 0 {
		t.Errorf("an acknowledgement was taken back: %+v", got)
	}
	if res, err := r.Wait(t.Context(), them, sessions.WaitArgs{WaitSeconds: ptr(0)}); err != nil || len(res.Sessions) != 0 {
		t.Errorf("another's inbox: %+v, %v", res, err)
	}
	_, err := r.Wait(t.Context(), them, sessions.WaitArgs{After: map[string]string{a.id: a.view().Cursor}, WaitSeconds: ptr(0)})
	refused(t, err, sessions.CodeNotFound)
	var res sessions.WaitResult
	if err := within(t, func() (err error) { res, err = r.wait(); return err }, func() {
		r.waiting("")
		b.ends(sandbox.Confirmed)
	}); err != nil || len(res.Sessions) != 1 || res.Sessions[0].Session.SessionID != b.id {
		t.Errorf("%+v, %v", res, err)
	}
}

// A full inbox gives a page; what was acknowledged makes room for the rest.
func TestInboxPages(t *testing.T) {
	r := newRig(t)
	for range inboxPage + 3 {
		r.idle()
	}
	seen := map[string]bool{}
	var acked []func(*sessions.WaitArgs)
	for _, want := range []int{inboxPage, 3, 0} {
		res, err := r.wait(append(acked, now)...)
		if err != nil || len(res.Sessions) != want {
			t.Fatalf("%d sessions, %v; want %d", len(res.Sessions), err, want)
		}
		for _, w := range res.Sessions {
			if seen[w.Session.SessionID] {
				t.Error("one came twice")
			}
			seen[w.Session.SessionID] = true
			acked = append(acked, after(w.Session.SessionID, w.Cursor))
		}
	}
}

// The texts of a result share the budget: a short one leaves its part to the others.
func TestShareOfTheBudget(t *testing.T) {
	for _, c := range []struct {
		max   int
		texts []string
		want  []string // kept part of each
	}{
		{100, []string{"ab", "cd"}, []string{"ab", "cd"}},
		{3, []string{"éééé"}, []string{"ééé"}},
		{9, []string{"aaaaaaaaaa", "b", "cccccccccc"}, []string{"aaaa", "b", "cccc"}},
		{10, []string{"", "aaaaaaaaaa", ""}, []string{"", "aaaaaaaaaa", ""}},
		{1, []string{"aa", "bb", "cc"}, []string{"", "", "c"}},
	} {
		var found []sessions.Waited
		for _, text := range c.texts {
			found = append(found, sessions.Waited{Text: text})
		}
		share(found, c.max)
		var got []string
		for _, w := range found {
			text, _, _ := strings.Cut(w.Text, "\n[cut:")
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d for %q: %q, want %q", c.max, c.texts, got, c.want)
		}
	}
}

func TestHub(t *testing.T) {
	woken := func(w *waiter) bool {
		select {
		case <-w.ch:
			return true
		default:
			return false
		}
	}
	h := newHub()
	a, b, any, every := h.add([]string{"a"}, false), h.add([]string{"a", "b"}, false), h.add(nil, false), h.add([]string{"a"}, true)
	for _, c := range []struct {
		session string
		notable bool
		want    []*waiter
	}{
		{"a", true, []*waiter{a, b, any, every}},
		{"a", false, []*waiter{every}},
		{"b", true, []*waiter{b, any}},
		{"c", true, []*waiter{any}},
		{"c", false, nil},
	} {
		h.notify(c.session, c.notable, nil)
		h.notify(c.session, c.notable, nil) // one wake-up is as good as two
		for _, w := range []*waiter{a, b, any, every} {
			if got := woken(w); got != slices.Contains(c.want, w) {
				t.Errorf("%s, notable %v: waiter for %q, every %v: woken %v", c.session, c.notable, w.ids, w.every, got)
			}
			if woken(w) {
				t.Error("woken twice")
			}
		}
	}
	h.wakeAll()
	for _, w := range []*waiter{a, b, any, every} {
		if !woken(w) {
			t.Errorf("waiter for %q was not woken", w.ids)
		}
		w.remove()
		w.remove()
	}
	if len(h.sessions)+len(h.any) > 0 {
		t.Errorf("left: %v, %v", h.sessions, h.any)
	}
	h.notify("a", true, nil)
}
