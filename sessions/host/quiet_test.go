package host

import (
	"testing"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// What ends a wait, or what somebody could act upon, is not held by a bridge for what may follow.
func TestQuiet(t *testing.T) {
	for _, k := range sessions.EventKinds() {
		loud := notable(k)
		switch k {
		case sessions.EventRequestResolved, sessions.EventSelectionConfirm, sessions.EventSelectionChanged, sessions.EventWarning,
			sessions.EventError, sessions.EventGap, sessions.EventCommandSubmitted:
			loud = true
		}
		if got := bridge.Quiet(k); got == loud {
			t.Errorf("%s: quiet is %v", k, got)
		}
	}
}

// Whatever a bridge says becomes durable by itself, and with what came with it.
func TestFramesAreKept(t *testing.T) {
	r := newRig(t)
	s := r.starting()
	l := s.serves(bridge.Hello{})
	l.given("1 open")
	say := func(n uint64, kind bridge.Kind, body any) {
		t.Helper()
		l.say(bridge.Frame{Type: "out", N: n, Kind: kind}, body)
	}
	durable := func(n uint64) {
		t.Helper()
		for last := uint64(0); last < n; {
			f := l.next()
			if f.Type != "ack" || f.N <= last || f.N > n {
				t.Fatalf("%+v, want an acknowledgement of %d", f, n)
			}
			last = f.N
		}
	}
	text := func(text string) sessions.Event {
		return sessions.Event{Kind: sessions.EventText, Item: "i", Text: text}
	}
	say(1, bridge.OutOpened, sessions.Opened{NativeID: "n"})
	durable(1)
	say(2, bridge.OutEvent, text("alone"))
	durable(2)
	say(3, bridge.OutEvent, text("before"))
	say(4, bridge.OutEvent, sessions.Event{Kind: sessions.EventWarning, Text: "a warning"})
	durable(4)
	said := ""
	for _, e := range s.events(sessions.EventText, sessions.EventWarning) {
		said += e.Text + ", "
	}
	if want := "alone, before, a warning, "; said != want {
		t.Errorf("journalled is %q, want %q", said, want)
	}
	l.over()
}
