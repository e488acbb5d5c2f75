package bridge

import (
	"encoding/json"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// Of all frames only events of the quiet kinds linger, and that a prompt was written.
func TestQuietFrames(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		body any
		want bool
	}{
		{OutEvent, sessions.Event{Kind: sessions.EventText}, true},
		{OutEvent, sessions.Event{Kind: sessions.EventCommandSettled}, false},
		{OutEvent, sessions.Event{}, false},
		{OutEvent, json.RawMessage(`{"kind":"text"}`), false},
		{OutInput, InputResult{N: 2, Kind: InPrompt, Ref: "c", State: InputWritten}, true},
		{OutInput, InputResult{N: 2, Kind: InPrompt, Ref: "c", State: InputBroken}, false},
		{OutInput, InputResult{N: 2, Kind: InPrompt, Ref: "c", State: InputWritten, Error: &sessions.Error{}}, false},
		{OutInput, InputResult{N: 2, Kind: InAnswer, Ref: "h", State: InputWritten}, false},
		{OutInput, InputResult{N: 2, Kind: InCancel, Ref: "c", State: InputWritten}, false},
		{OutOpened, sessions.Opened{}, false},
		{OutExited, Exit{}, false},
		{OutStopped, Stopped{}, false},
	} {
		if got := quiet(c.kind, c.body); got != c.want {
			t.Errorf("%s %+v: quiet is %v", c.kind, c.body, got)
		}
	}
}
