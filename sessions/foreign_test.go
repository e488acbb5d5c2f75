package sessions

import (
	"strings"
	"testing"
)

// What is too long loses its beginning, and says so; what is history belongs to no command.
func TestHistory(t *testing.T) {
	var h History
	if h.Events() != nil {
		t.Errorf("nothing happened: %+v", h.Events())
	}
	h.Add(Event{Kind: EventCommandSubmitted, Command: "c", Text: "first", Late: true})
	if got := h.Events(); len(got) != 1 || !got[0].Replay || got[0].Command != "" || got[0].Late {
		t.Errorf("one event: %+v", got)
	}
	for range 20 {
		h.Add(Event{Kind: EventText, Text: strings.Repeat("x", 1<<20), Final: true})
	}
	got := h.Events()
	if len(got) < 10 || len(got) > 17 || got[0].Kind != EventWarning || !got[0].Replay || got[0].Data["left_out"] != 21-(len(got)-1) {
		t.Errorf("%d events, the first %+v", len(got), got[0])
	}
	h = History{}
	h.Add(Event{Kind: EventText, Text: strings.Repeat("x", 2*maxHistory)}) // a single one is kept whole
	if got := h.Events(); len(got) != 1 {
		t.Errorf("%d events", len(got))
	}
}

func TestHeldError(t *testing.T) {
	for _, tc := range []struct {
		by   *Holder
		want string
	}{
		{nil, "held by another process"},
		{&Holder{PID: 7}, "held by process 7"},
		{&Holder{PID: 7, Program: "codex"}, "held by process 7 (codex)"},
	} {
		if err := HeldError("codex", &Conversation{NativeID: "t", HeldBy: tc.by}); CodeOf(err) != CodeBusy || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}
