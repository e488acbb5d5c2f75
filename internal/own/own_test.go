package own_test

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
)

// samples are values of what Baton writes.
func samples() []any {
	exit := 0
	at := time.Date(2025, 7, 1, 12, 0, 0, 123456789, time.UTC)
	full := sessions.Event{Session: "s", Generation: "g", Seq: 1 << 60, At: at, Kind: sessions.EventToolCompleted, Command: "c", Text: "<&>\u2028 \x00 é \xff",
		Final: true, Tool: &sessions.Tool{Name: "n", Exit: &exit, Paths: []string{"a"}, Detail: json.RawMessage(`{"a":1,"a":[ 2 ]}`)},
		Request: &sessions.Request{RequestID: "r", Options: []sessions.Option{{OptionID: "o"}}, Answer: &sessions.Answer{Answers: map[string][]string{"q": {"a"}}}},
		Settled: &sessions.Settlement{State: sessions.CommandFailed}, Selection: &sessions.Selections{Asked: sessions.Selection{Model: "m"}},
		Usage: &sessions.Usage{Input: 3, Cost: 0.25}, Gap: &sessions.Gap{From: 1, To: 2}, Data: map[string]any{"n": 1.5, "l": []any{nil, true, "x"}},
		Raw: json.RawMessage(`{"t":"\ud800","x":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`)}
	return []any{
		full,
		sessions.Event{},
		sessions.ReadResult{Events: []sessions.Event{full, {}}, Cursor: "c", HasMore: true, Gap: &sessions.Gap{To: 7}},
		sessions.WaitResult{Sessions: []sessions.Waited{{Session: sessions.Session{Options: map[string]any{"a": map[string]any{}}, Error: sessions.Errorf(sessions.CodeBusy, "x").With("k", 1)}}}},
		sessions.SendResult{Command: sessions.Command{CreatedAt: at}},
		struct{ Took time.Duration }{time.Second},
		sessions.Error{Code: sessions.CodeBusy, Details: map[string]any{"a": "b"}},
	}
}

// What Baton writes is read as encoding/json reads it.
func TestReadsWhatWeWrite(t *testing.T) {
	for _, v := range samples() {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		want, got := reflect.New(reflect.TypeOf(v)), reflect.New(reflect.TypeOf(v))
		if err := json.Unmarshal(raw, want.Interface()); err != nil {
			t.Fatal(err)
		}
		if err := own.Unmarshal(raw, got.Interface()); err != nil {
			t.Errorf("%s: %v", raw, err)
		} else if !reflect.DeepEqual(got.Elem().Interface(), want.Elem().Interface()) {
			t.Errorf("%s\nis read as %+v\nnot as     %+v", raw, got.Elem(), want.Elem())
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, text := range []string{"", "{", `{"kind":"text"`, `{"kind":"text"}}`, `{"seq":"1"}`, "[]", "\x00\x00"} {
		var e sessions.Event
		if err := own.Unmarshal([]byte(text), &e); err == nil {
			t.Errorf("%q is read as %+v", text, e)
		}
	}
	var e sessions.Event
	if err := own.Unmarshal([]byte(`{"kind":"text","of_a_later_version":{"a":1}}`), &e); err != nil || e.Kind != sessions.EventText {
		t.Errorf("%+v, %v", e, err)
	}
}

// What is encoded says what encoding/json says, with empty lists and maps in the place of null.
func TestWritesAsEncodingJSON(t *testing.T) {
	for _, v := range append(samples(), sessions.ListResult{}, sessions.RunnerListResult{Runners: []sessions.Runner{{}}}, sessions.Request{Kind: sessions.RequestQuestion, Questions: []sessions.Question{{}}}) {
		theirs, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := own.Marshal(v)
		if err != nil || strings.ContainsAny(string(ours), "\n") {
			t.Fatalf("%v in %s", err, ours)
		}
		var want, got any
		if err := errors.Join(json.Unmarshal(theirs, &want), json.Unmarshal(ours, &got)); err != nil {
			t.Fatalf("%v in %s", err, ours)
		}
		if !same(want, got) {
			t.Errorf("%s\nis written as\n%s", theirs, ours)
		}
	}
	if raw, err := own.Marshal(struct {
		List  []string       `json:"list"`
		Map   map[string]int `json:"map"`
		Left  []string       `json:"left,omitempty"`
		Raw   json.RawMessage
		Place *int `json:"place"`
	}{}); err != nil || string(raw) != `{"list":[],"map":{},"Raw":null,"place":null}` {
		t.Errorf("%s, %v", raw, err)
	}
}

// same compares decoded values; what is null in want may be empty.
func same(want, got any) bool {
	switch w := want.(type) {
	case nil:
		list, isList := got.([]any)
		object, isObject := got.(map[string]any)
		return got == nil || isList && len(list) == 0 || isObject && len(object) == 0
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(w, g, same)
	case map[string]any:
		g, ok := got.(map[string]any)
		return ok && maps.EqualFunc(w, g, same)
	}
	return want == got
}

// A member that nothing is there for is refused where it is asked for, and text behind the value everywhere.
func TestStrict(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{{`{"text":"x"}`, true}, {`{"text":"x","texts":1}`, false}, {`{"Text":"x"}`, false}, {`{"text":"x"}{}`, false}, {`{"text":`, false}} {
		var a sessions.SendArgs
		if err := own.UnmarshalStrict([]byte(c.text), &a); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.text, err)
		} else if c.ok && a.Text != "x" {
			t.Errorf("%s is read as %+v", c.text, a)
		}
	}
}
