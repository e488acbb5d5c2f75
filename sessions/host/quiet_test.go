package host

import (
	"encoding/json"
	"testing"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// What ends a wait, or what somebody could act upon, is not held for what may follow.
func TestQuiet(t *testing.T) {
	for _, k := range sessions.EventKinds() {
		loud := notable(k)
		switch k {
		case sessions.EventRequestResolved, sessions.EventSelectionConfirm, sessions.EventSelectionChanged, sessions.EventWarning,
			sessions.EventError, sessions.EventGap, sessions.EventCommandSubmitted:
			loud = true
		}
		for what, e := range map[string]any{
			"event":    sessions.Event{Kind: k, Text: "t", Command: "c"},
			"redacted": json.RawMessage(`{"redacted":true,"at":"2026-01-01T00:00:00Z","kind":"` + string(k) + `","tool":{"name":"kind"}}`),
		} {
			if got := quiet(frame(t, bridge.OutEvent, e)); got == loud {
				t.Errorf("%s %s: quiet is %v", what, k, got)
			}
		}
	}
	for _, c := range []struct {
		kind bridge.Kind
		body any
		want bool
	}{
		{bridge.OutInput, bridge.InputResult{N: 2, Kind: bridge.InPrompt, Ref: "c", State: bridge.InputWritten}, true},
		{bridge.OutInput, bridge.InputResult{N: 2, Kind: bridge.InPrompt, Ref: "c", State: bridge.InputBroken}, false},
		{bridge.OutInput, bridge.InputResult{N: 2, Kind: bridge.InPrompt, Ref: "c", State: bridge.InputWritten, Error: &sessions.Error{}}, false},
		{bridge.OutInput, bridge.InputResult{N: 2, Kind: bridge.InAnswer, Ref: "h", State: bridge.InputWritten}, false},
		{bridge.OutInput, bridge.InputResult{N: 2, Kind: bridge.InCancel, Ref: "c", State: bridge.InputWritten}, false},
		{bridge.OutOpened, sessions.Opened{}, false},
		{bridge.OutExited, bridge.Exit{}, false},
		{bridge.OutStopped, bridge.Stopped{}, false},
		{bridge.OutEvent, json.RawMessage(`{}`), false},
		{bridge.OutEvent, json.RawMessage(`{"kind":"`), false},
	} {
		if got := quiet(frame(t, c.kind, c.body)); got != c.want {
			t.Errorf("%s %+v: quiet is %v", c.kind, c.body, got)
		}
	}
}

func frame(t *testing.T, kind bridge.Kind, body any) bridge.Frame {
	t.Helper()
	f := bridge.Frame{Type: "out", N: 1, Kind: kind}
	if raw, ok := body.(json.RawMessage); ok {
		f.Body = raw
		return f
	}
	var err error
	if f.Body, err = json.Marshal(body); err != nil {
		t.Fatal(err)
	}
	return f
}

// Frames that nobody waits for become durable by themselves, and with what follows them.
func TestQuietFramesAreKept(t *testing.T) {
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
