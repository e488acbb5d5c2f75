package own_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
)

// What Baton writes is read as encoding/json reads it.
func TestReadsWhatWeWrite(t *testing.T) {
	exit := 0
	at := time.Date(2025, 7, 1, 12, 0, 0, 123456789, time.UTC)
	full := sessions.Event{Session: "s", Generation: "g", Seq: 1 << 60, At: at, Kind: sessions.EventToolCompleted, Command: "c", Text: "<&>\u2028 \x00 é \xff",
		Final: true, Tool: &sessions.Tool{Name: "n", Exit: &exit, Paths: []string{"a"}, Detail: json.RawMessage(`{"a":1,"a":[ 2 ]}`)},
		Request: &sessions.Request{RequestID: "r", Options: []sessions.Option{{OptionID: "o"}}, Answer: &sessions.Answer{Answers: map[string][]string{"q": {"a"}}}},
		Settled: &sessions.Settlement{State: sessions.CommandFailed}, Selection: &sessions.Selections{Asked: sessions.Selection{Model: "m"}},
		Usage: &sessions.Usage{Input: 3, Cost: 0.25}, Gap: &sessions.Gap{From: 1, To: 2}, Data: map[string]any{"n": 1.5, "l": []any{nil, true, "x"}},
		Raw: json.RawMessage(`{"t":"\ud800","x":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`)}
	for _, v := range []any{
		full,
		sessions.Event{},
		sessions.ReadResult{Events: []sessions.Event{full, {}}, Cursor: "c", HasMore: true, Gap: &sessions.Gap{To: 7}},
		sessions.WaitResult{Sessions: []sessions.Waited{{Session: sessions.Session{Options: map[string]any{"a": map[string]any{}}, Error: sessions.Errorf(sessions.CodeBusy, "x").With("k", 1)}}}},
		sessions.SendResult{Command: sessions.Command{CreatedAt: at}},
		struct{ Took time.Duration }{time.Second},
		sessions.Error{Code: sessions.CodeBusy, Details: map[string]any{"a": "b"}},
	} {
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
