package journal

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
)

// What is written by hand reads as what the library would have written, for every member of an event.
func TestEventBody(t *testing.T) {
	for _, e := range []sessions.Event{
		{},
		{Kind: sessions.EventText, Session: "s", Generation: "g", Seq: 4, Command: "c", Text: "a"},
		{Turn: "t", Item: "i", Agent: "a/b", Lease: "l", Text: "\"<&>\u2028\u0000\n\\ é 𝄞", Code: sessions.CodeInternal, Final: true, Abandoned: true, Late: true, Replay: true, Redacted: true},
		{Text: "not \xff UTF-8"},
		{Item: "i", Tool: &sessions.Tool{Name: "command", Output: "x"}},
		{Settled: &sessions.Settlement{Command: "c", State: sessions.CommandCompleted}},
		{Request: &sessions.Request{Title: "t"}},
		{Selection: &sessions.Selections{}},
		{Usage: &sessions.Usage{Input: 1}},
		{Gap: &sessions.Gap{From: 1, To: 2}},
		{Data: map[string]any{"a": "b"}},
		{Spent: &sessions.Spent{}},
		{Raw: json.RawMessage(`{"a":1}`)},
	} {
		body, err := eventBody(e)
		if err != nil || !json.Valid(body) {
			t.Errorf("%+v: %s, %v", e, body, err)
			continue
		}
		var got, want sessions.Event
		if err := own.Unmarshal(body, &got); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		e.Session, e.Generation, e.Seq, e.Kind, e.Command = "", "", 0, "", ""
		library, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := own.Unmarshal(library, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads as %+v, want %+v", body, got, want)
		}
	}
	// A member that the hand does not know would be lost in silence.
	n := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[sessions.Event]()) {
		if f.Tag.Get("json") != "-" {
			n++
		}
	}
	if n != 26 {
		t.Errorf("an event has %d members; eventBody knows 26", n)
	}
}
