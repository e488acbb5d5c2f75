package journal

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
)

// wholeEvents are events with every member that one can have, in the ways in which they are written.
func wholeEvents() []sessions.Event {
	exit := -1
	at := time.Date(2025, 7, 1, 12, 0, 0, 123456789, time.UTC)
	return []sessions.Event{
		{Kind: sessions.EventText},
		{Kind: sessions.EventText, Command: "c\"\n", Generation: "g", At: at, Text: "\"<&>\u2028\u0000\n\\ é 𝄞", Turn: "t", Item: "i", Agent: "a/b", Lease: "l",
			Code: sessions.CodeInternal, Final: true, Abandoned: true, Late: true, Replay: true, Redacted: true},
		{Kind: sessions.EventReasoning, Text: "not \xff UTF-8", Item: "é"},
		{Kind: sessions.EventToolCompleted, Item: "i", Tool: &sessions.Tool{Name: "command", Title: "t", Status: "failed", Output: "\x1b[1mé\x1b[0m", Exit: &exit,
			Paths: []string{"a", "b\n"}, Detail: json.RawMessage(`{"a":1,"a":[2.5,"\ud834\udd1e"]}`)}, Raw: json.RawMessage(`{"t":"é\ud800"}`)},
		{Kind: sessions.EventToolStarted, Tool: &sessions.Tool{}},
		{Kind: sessions.EventCommandSettled, Settled: &sessions.Settlement{Command: "c", State: sessions.CommandCompleted}, Spent: &sessions.Spent{Tokens: 2}},
		{Kind: sessions.EventApprovalRequested, Request: &sessions.Request{RequestID: "r", Options: []sessions.Option{{OptionID: "o"}}}},
		{Kind: sessions.EventSelectionConfirm, Selection: &sessions.Selections{Asked: sessions.Selection{Model: "m"}}},
		{Kind: sessions.EventUsage, Usage: &sessions.Usage{Input: 1, Cost: 0.25}},
		{Kind: sessions.EventGap, Gap: &sessions.Gap{From: 1, To: 2}},
		{Kind: sessions.EventPlan, Text: "p", Data: map[string]any{"a": []any{"b", 1.5}}, Raw: json.RawMessage(`null`)},
	}
}

// What is handed on says what is decoded.
func TestStoredIsTheEvent(t *testing.T) {
	j := open(t, Options{})
	s := newSession(t, j)
	update(t, j, func(tx *Tx) error { _, err := tx.AppendEvents(s.ID, wholeEvents()); return err })
	decoded, handed := both(t, j, s.ID)
	if !reflect.DeepEqual(decoded.Events, wholly(t, handed)) || len(decoded.Events) != len(wholeEvents()) {
		t.Errorf("%+v\nis handed on as\n%+v", decoded.Events, wholly(t, handed))
	}
	for i, h := range handed.Events {
		e := decoded.Events[i]
		raw := h.AppendJSON([]byte("."))[1:]
		var got sessions.Event
		if err := own.Unmarshal(raw, &got); err != nil || !json.Valid(raw) || !reflect.DeepEqual(got, e) {
			t.Errorf("%+v\nis written as %s, %v", e, raw, err)
		}
		names := func(raw []byte) (list []string) {
			var m map[string]json.RawMessage
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Error(err)
			}
			for name := range m {
				list = append(list, name)
			}
			slices.Sort(list)
			return list
		}
		library, err := json.Marshal(e)
		if err != nil || !slices.Equal(names(raw), names(library)) {
			t.Errorf("%s has other members than %s; %v", raw, library, err)
		}
		if want := characters(&e); h.Characters != want {
			t.Errorf("%s takes %d of a budget, want %d", raw, h.Characters, want)
		}
		if n := len(raw); h.Size() < n-20 || h.Size() > n+200 {
			t.Errorf("%d bytes are taken for %d", n, h.Size())
		}
	}
}

// Bodies that nobody writes now, and damaged ones, are met alike in both ways of reading.
func TestStoredBodies(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		lost bool
	}{
		"another order":          {body: `{"text":"a","kind":""}`},
		"no kind":                {body: `{"text":"a"}`},
		"white space":            {body: `{ "kind" : "" , "text" : "a" }`},
		"white space behind":     {body: `{"kind":"" , "text":"é" } `},
		"a kind":                 {body: `{"kind":"plan","text":"a"}`},
		"a kind twice":           {body: `{"kind":"","kind":"plan","text":"a"}`},
		"a later version's":      {body: `{"kind":"","text":"a","of_a_later_version":{"text":"abc"}}`},
		"a later version's tool": {body: `{"kind":"","tool":{"output":"a","more":[1]}}`},
		"null":                   {body: `{"kind":"","text":null,"tool":null,"raw":null}`},
		"an escaped name":        {body: `{"kind":"","te\u0078t":"abc"}`},
		"empty":                  {lost: true},
		"no object":              {body: `[]`, lost: true},
		"zeros":                  {body: "{\"kind\":\"\",\"text\":\"a\x00\x00b\"}", lost: true},
		"cut":                    {body: `{"kind":"","text":"a"`, lost: true},
		"more":                   {body: `{"kind":"","text":"a"}}`, lost: true},
		"a text that is a list":  {body: `{"kind":"","text":["a"]}`, lost: true},
		"an odd exit":            {body: `{"kind":"","tool":{"exit":1.5}}`, lost: true},
		"odd paths":              {body: `{"kind":"","tool":{"paths":["a",1]}}`, lost: true},
		"odd usage":              {body: `{"kind":"","usage":{"input_tokens":"1"}}`, lost: true},
		"a tool that ends wrong": {body: `{"kind":"","tool":{"name":"a"]}`, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := openAt(t, filepath.Join(t.TempDir(), "journal.db"), Options{}) // Check finds what is lost
			s := newSession(t, j)
			update(t, j, func(tx *Tx) error {
				if _, err := tx.AppendEvents(s.ID, []sessions.Event{{Kind: sessions.EventText, Text: "x"}, {Kind: sessions.EventText, Text: "y"}}); err != nil {
					return err
				}
				_, err := tx.exec("UPDATE events SET body = ? WHERE session = ? AND seq = 1", json.RawMessage(c.body), s.N)
				return err
			})
			decoded, handed := both(t, j, s.ID)
			if !reflect.DeepEqual(decoded.Events, wholly(t, handed)) || !reflect.DeepEqual(decoded.Gap, handed.Gap) || decoded.Last != handed.Last || decoded.More != handed.More {
				t.Errorf("%+v\nis handed on as\n%+v", decoded, handed)
			}
			if (handed.Gap != nil) != c.lost {
				t.Errorf("gap %+v", handed.Gap)
			}
			for i, h := range handed.Events {
				var got sessions.Event
				raw := h.AppendJSON(nil)
				if err := own.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, decoded.Events[i]) || h.Characters != characters(&got) {
					t.Errorf("%s, of %d characters, %v; want %+v", raw, h.Characters, err, decoded.Events[i])
				}
			}
		})
	}
}

func both(t *testing.T, j *Journal, id string) (decoded Page, handed PageOf[Stored]) {
	t.Helper()
	view(t, j, func(tx *Tx) (err error) { decoded, err = tx.ReadEvents(id, 0, 100, nil, 0); return err })
	view(t, j, func(tx *Tx) (err error) { handed, err = tx.ReadStored(id, 0, 100, nil, 0); return err })
	return decoded, handed
}

func wholly(t *testing.T, p PageOf[Stored]) []sessions.Event {
	t.Helper()
	var list []sessions.Event
	for i := range p.Events {
		e, err := p.Events[i].Event()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// What is measured without being decoded can be decoded, and measures the same.
func FuzzMeasure(f *testing.F) {
	for _, e := range wholeEvents() {
		body, err := eventBody(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(body))
	}
	f.Add([]byte(`{"kind":"","text":"\ud834\udd1e\ud834\ud834\udd1e\udd1e\\u0041\ud834\n\ud8"}`))
	f.Add([]byte("{\"kind\":\"\",\"text\":\"a\xf0\x9d\xc3\\n\xff\"}"))
	var m measure
	f.Fuzz(func(t *testing.T, body []byte) {
		n, ok := m.of(body)
		if !ok {
			return
		}
		var e sessions.Event
		if err := own.Unmarshal(body, &e); err != nil {
			t.Fatalf("%q is measured, %v", body, err)
		}
		if want := characters(&e); once(body) && n != want {
			t.Errorf("%q measures %d, want %d", body, n, want)
		}
	})
}

// once tells whether no member comes twice: of those the last one counts.
func once(body []byte) bool {
	return jsontext.Value(body).IsValid(jsontext.AllowInvalidUTF8(true))
}
