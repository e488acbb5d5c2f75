package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"testing"
	"unicode/utf8"
)

var seeds = []string{
	"", "\n", "\r\n", "\xef\xbb\xbf", "Loaded cached credentials.", `{"id":1,"result":{"x":"\ud8`, `[{"id":1,"method":"m"}]`, `1`, `null`, `"s"`,
	`{}`, `{"id":"g-1","result":null}`, `{"id":"g-1"}`, `{"id":"g-1","error":"boom"}`, `{"id":"g-1","error":{"code":"x"}}`, `{"id":null,"error":{}}`,
	`{"id":-1,"method":"m"}`, `{"id":{"a":[1]},"method":"m","params":[]}`, `{"\u0069d":5,"method":"m\"\\"}`, `{"method":7}`, `{"method":null,"id":3}`,
	`{ "a" : "}\\\"" , "params" : { "x" : [ "]" ] } , "method" : "m" }`, "{\"method\":\"m\",\"params\":{\"s\":\"\xff\"}}", `{"Method":"m","ID":1}`,
	`{"method":"a","method":"b"}`, "\x00\x00", `{"method":"m"}{"method":"n"}`,
}

// FuzzReader: whatever an agent sends, the valid line after it arrives, and nothing panics.
func FuzzReader(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		const last = `{"method":"fuzz/last","params":{"last":true}}`
		in, out := io.Pipe()
		c := New(in, nowhere{io.Discard}, Options{Generation: "g"})
		defer c.Close()
		if _, err := c.Call(t.Context(), "open", nil); err != nil { // so that answers to g-1 are tried too
			t.Fatal(err)
		}
		go func() { // Close ends a blocked Write
			_, _ = out.Write(append(append(bytes.Clone(sent), '\n'), last...))
			out.Close()
		}()
		var got Message
		for m := range c.Inbox() {
			if m.Kind == Request && m.ID.String() == "" {
				t.Fatalf("a request without an id: %+v", m)
			}
			got = m
		}
		if got.Method != "fuzz/last" || string(got.Params) != `{"last":true}` {
			t.Fatalf("after %q the valid line was lost; the last message is %+v", sent, got)
		}
	})
}

// FuzzEnvelope: our own scan of a line finds what encoding/json finds.
func FuzzEnvelope(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = trim(line)
		var want map[string]json.RawMessage
		wantOK := json.Unmarshal(line, &want) == nil && want != nil
		e, ok := parseEnvelope(line)
		if ok != wantOK {
			t.Fatalf("%q: taken %v, encoding/json %v", line, ok, wantOK)
		}
		got := map[string][]byte{"id": e.id, "method": e.method, "params": e.params, "result": e.result, "error": e.err}
		for key, value := range got {
			if !bytes.Equal(value, want[key]) {
				t.Fatalf("%q: %s is %q, encoding/json %q", line, key, value, want[key])
			}
		}
	})
}

// FuzzClean: what is sent is one line of valid UTF-8 that still means what it meant.
func FuzzClean(f *testing.F) {
	for _, s := range append(seeds, `"\ud83d\ude00 \ud83d \\ud83d \ude00\ud83d"`, "\"\u2028\xff\"", "{\"\xe0\xee\":0}", `"\uD83D\uDE00\uDBFFx"`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			t.Skip()
		}
		got, err := appendJSON(nil, json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(got) || bytes.ContainsAny(got, "\n\r\u2028\u2029") {
			t.Fatalf("%q became %q", raw, got)
		}
		var before, after any
		if err := json.Unmarshal(raw, &before); err != nil {
			t.Skip() // a number out of range
		}
		if err := json.Unmarshal(got, &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q: %v", raw, got, err)
		}
		if again := clean(bytes.Clone(got)); !bytes.Equal(again, got) {
			t.Fatalf("%q is not clean: %q", got, again)
		}
	})
}
