package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// nothing fails unless the link is up and has no message: a marker sent now is what comes next.
func (p *peer) nothing() {
	p.t.Helper()
	p.say(`{"method":"marker"}`)
	if m := p.next(); m.Method != "marker" {
		p.t.Fatalf("unexpected message %+v", m)
	}
}

// TestNoise pins FR-01: human text and broken JSON on the protocol's output cost nothing but themselves.
func TestNoise(t *testing.T) {
	p := link(t, Options{Generation: "g"})
	calls := []*Call{p.call("one", nil), p.call("two", nil), p.call("three", nil)}
	p.say(`Loaded cached credentials.`,
		`{"jsonrpc":"2.0","id":"g-1","result":{"x":"\ud8`,
		`{"jsonrpc":"2.0","id":"g-2","result":2}`,
		`DEBUG hook ran`,
		`{"jsonrpc":"2.0","id":"g-3","result":3}`,
		`bye`)
	for i, want := range []string{"2", "3"} {
		if m := p.next(); m.Call != calls[i+1] || string(m.Result) != want || m.Err != nil {
			t.Fatalf("answer %s: %+v", want, m)
		}
	}
	p.nothing()
	d := p.conn.Diagnostics()
	if d.Noise != 4 || d.Skipped() != 4 {
		t.Fatalf("%+v", d)
	}
	want := "Loaded cached credentials.\n" + `{"jsonrpc":"2.0","id":"g-1","result":{"x":"\ud8` + "\nDEBUG hook ran\nbye\n"
	if string(d.Last) != want {
		t.Fatalf("kept %q, want %q", d.Last, want)
	}
}

// TestSkipped says what is no message, and that it ends nothing (FR-01, FR-06).
func TestSkipped(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       Diagnostics
	}{
		{"text", `hello`, Diagnostics{Noise: 1}},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`, Diagnostics{Noise: 1}},
		{"number", `17`, Diagnostics{Noise: 1}},
		{"string", `"method"`, Diagnostics{Noise: 1}},
		{"null", `null`, Diagnostics{Noise: 1}},
		{"two on a line", `{"method":"a"}{"method":"b"}`, Diagnostics{Noise: 1}},
		{"NUL", "\x00", Diagnostics{Noise: 1}},
		{"empty object", `{}`, Diagnostics{Malformed: 1}},
		{"method of another type, no id", `{"method":5}`, Diagnostics{Malformed: 1}},
		{"keys in capitals", `{"METHOD":"m","ID":1}`, Diagnostics{Malformed: 1}},
		{"result without id", `{"result":1}`, Diagnostics{Malformed: 1}},
		{"id alone", `{"id":7}`, Diagnostics{Malformed: 1}},
		{"response to no call", `{"id":"g-99","result":{}}`, Diagnostics{Unmatched: 1}},
		{"error to no call", `{"id":0,"error":{"code":1,"message":"m"}}`, Diagnostics{Unmatched: 1}},
		{"error with id null", `{"id":null,"error":{"code":-32700,"message":"Parse error"}}`, Diagnostics{Unnamed: 1}},
		{"error without id", `{"error":{"code":-32700,"message":"Parse error"}}`, Diagnostics{Unnamed: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := link(t, Options{Generation: "g"})
			call := p.call("first", nil) // an id-less error must not be charged to the oldest call
			p.say(c.line)
			p.nothing()
			got := p.conn.Diagnostics()
			if string(got.Last) != c.line+"\n" {
				t.Errorf("kept %q", got.Last)
			}
			got.Last = nil
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("counted %+v, want %+v", got, c.want)
			}
			p.say(`{"id":"g-1","result":1}`)
			if m := p.next(); m.Call != call {
				t.Errorf("then %+v", m)
			}
		})
	}
}

func TestDiagnosticsAreBounded(t *testing.T) {
	p := link(t, Options{})
	for i := range 300 {
		p.say(fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000)))
	}
	p.say(strings.Repeat("y", 100_000) + "!")
	p.say("the end")
	p.nothing()
	d := p.conn.Diagnostics()
	if d.Noise != 302 || len(d.Last) != ringSize || !strings.HasSuffix(string(d.Last), "yyy!\nthe end\n") {
		t.Fatalf("%d lines, %d bytes kept, ending in %q", d.Noise, len(d.Last), d.Last[len(d.Last)-20:])
	}
}

// TestLongLines pins FR-02 (a).
func TestLongLines(t *testing.T) {
	for _, size := range []int{readBuffer - 40, readBuffer - 1, readBuffer, readBuffer + 1, 70_000, 2*readBuffer + 1, 5 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p := link(t, Options{})
			params := `"` + strings.Repeat("x", size) + `"`
			go p.out.Write([]byte(`{"method":"long","params":` + params + "}\n" + `{"method":"next"}` + "\n"))
			if m := p.next(); m.Method != "long" || string(m.Params) != params {
				t.Fatalf("%s with %d bytes", m.Method, len(m.Params))
			}
			if m := p.next(); m.Method != "next" {
				t.Fatalf("then %+v", m)
			}
		})
	}
}

type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// TestLineLimit pins FR-02 (c): one endless line ends its link with a reason, and costs no more memory than the limit.
func TestLineLimit(t *testing.T) {
	for _, limit := range []int{100, readBuffer - 1, readBuffer, 4 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			fits := `{"method":"m","params":"` + strings.Repeat("x", limit-26) + `"}`
			source := &counted{r: io.MultiReader(
				strings.NewReader(fits+"\n"),
				&repeated{line: strings.Repeat("x", 1<<20), n: 300})}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c := New(source, nowhere{io.Discard}, Options{MaxLine: limit})
			defer c.Close()
			n := 0
			for m := range c.Inbox() {
				if n++; len(m.Params) != limit-24 {
					t.Errorf("%d bytes of params", len(m.Params))
				}
			}
			runtime.ReadMemStats(&after)
			if n != 1 {
				t.Errorf("%d messages, the line of %d bytes fits", n, len(fits))
			}
			if err := c.Err(); !errors.Is(err, ErrLineTooLong) || !strings.Contains(err.Error(), fmt.Sprint(limit)) {
				t.Errorf("ended with %v", err)
			}
			if most := 2*limit + 4*readBuffer; source.n > most {
				t.Errorf("read %d bytes, more than %d", source.n, most)
			}
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(6*limit+1<<20); got > most {
				t.Errorf("allocated %d bytes, more than %d", got, most)
			}
		})
	}
}

// TestAroundLines pins FR-03: CRLF, byte order marks before any message, blank lines.
func TestAroundLines(t *testing.T) {
	const mark = "\xef\xbb\xbf"
	for _, c := range []struct{ name, sent string }{
		{"LF", `{"id":"x","method":"m"}` + "\n"},
		{"CRLF", `{"id":"x","method":"m"}` + "\r\n"},
		{"mark", mark + `{"id":"x","method":"m"}` + "\n"},
		{"mark and CRLF", mark + `{"id":"x","method":"m"}` + "\r\n"},
		{"mark in the middle", `{"method":"marker"}` + "\n" + mark + `{"id":"x","method":"m"}` + "\n"},
		{"blank lines", "\n\r\n\r\r\n \t\n" + mark + "\n" + `{"id":"x","method":"m"}` + "\n"},
		{"indented", "  \t" + `{"id":"x","method":"m"}  ` + "\n"},
		{"no LF at the end", `{"id":"x","method":"m"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := link(t, Options{})
			if _, err := io.WriteString(p.out, c.sent); err != nil {
				t.Fatal(err)
			}
			p.out.Close()
			m := p.next()
			if m.Method == "marker" {
				m = p.next()
			}
			if m.Kind != Request || m.Method != "m" || m.ID.String() != `"x"` {
				t.Fatalf("%+v", m)
			}
			if m, more := <-p.conn.Inbox(); more {
				t.Fatalf("then %+v", m)
			}
			if d := p.conn.Diagnostics(); d.Skipped() != 0 {
				t.Fatalf("%+v", d)
			}
			if err := p.conn.Err(); err != io.EOF {
				t.Fatal(err)
			}
		})
	}
}

// TestRequestIDs pins FR-04 and FR-05: any id comes back byte for byte, and no two requests share state.
func TestRequestIDs(t *testing.T) {
	ids := []string{`"init-1"`, `7`, `"7"`, `9007199254740993`, `-3`, `0`, `-1`, `null`, `1.5`, `1e3`, `18446744073709551615`,
		`123456789012345678901234567890`, `""`, `"a\u0062\/"`, `"<&>"`, `{"a":[1, 2]}`, `[]`, `true`, `7`, `"g-1"`, `"` + "\u2028" + `"`}
	p := link(t, Options{Generation: "g"})
	p.call("ours", nil)
	p.hear()
	for _, id := range ids {
		p.say(`{"id":` + id + `,"method":"ask"}`)
	}
	handles := map[ID]string{}
	for _, id := range ids {
		m := p.next()
		if m.Kind != Request || m.ID.String() != id {
			t.Fatalf("id %s: %+v", id, m)
		}
		handles[m.ID] = id
	}
	if len(handles) != len(ids) {
		t.Fatalf("%d handles for %d requests", len(handles), len(ids))
	}
	for h, id := range handles {
		if err := p.conn.Reply(context.Background(), h, nil); err != nil {
			t.Fatal(err)
		}
		if got, want := p.hear(), `{"jsonrpc":"2.0","id":`+id+`,"result":null}`; got != want {
			t.Errorf("replied %s, want %s", got, want)
		}
		if err := p.conn.ReplyError(context.Background(), h, CodeMethodNotFound, "no <such> method"); err != nil {
			t.Fatal(err)
		}
		if got, want := p.hear(), `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32601,"message":"no <such> method"}}`; got != want {
			t.Errorf("replied %s, want %s", got, want)
		}
	}
}

// TestRequestIDNotUTF8: of all ids only this one is not sent back as it came, because a line that is not UTF-8 can end
// the agent.
func TestRequestIDNotUTF8(t *testing.T) {
	p := link(t, Options{})
	p.say("{\"id\":\"\xff\",\"method\":\"ask\"}")
	if err := p.conn.Reply(context.Background(), p.next().ID, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := p.hear(), "{\"jsonrpc\":\"2.0\",\"id\":\"\ufffd\",\"result\":0}"; got != want {
		t.Fatalf("replied %q, want %q", got, want)
	}
}

// TestResponses says what an answer to a call can be.
func TestResponses(t *testing.T) {
	const neither = "the response has neither result nor error"
	for _, c := range []struct {
		name, line string
		result     string
		err        *ResponseError
	}{
		{"result", `{"id":"1","result":{"b":1,"a":2,"a":1.10,"h":"<&>"}}`, `{"b":1,"a":2,"a":1.10,"h":"<&>"}`, nil},
		{"result null", `{"id":"1","result":null}`, `null`, nil},
		{"id of another type", `{"id":1,"result":true}`, `true`, nil},
		{"id with escapes", `{"id":"\u0031","result":true}`, `true`, nil},
		{"id last", `{"result":0,"id":"1"}`, `0`, nil},
		{"method echoed", `{"id":"1","method":"m","result":0}`, `0`, nil},
		{"error null beside a result", `{"id":"1","result":0,"error":null}`, `0`, nil},
		{"error", `{"id":"1","error":{"code":-32600,"message":"no","data":{"x":1}}}`, ``, &ResponseError{-32600, "no", []byte(`{"x":1}`)}},
		{"error and result", `{"id":"1","result":0,"error":{"code":5,"message":"no"}}`, ``, &ResponseError{5, "no", nil}},
		{"code a string", `{"id":"1","error":{"code":"E_AUTH","message":"no"}}`, ``, &ResponseError{-32603, "no", []byte(`{"code":"E_AUTH","message":"no"}`)}},
		{"code a float", `{"id":"1","error":{"code":1.5,"message":"no"}}`, ``, &ResponseError{-32603, "no", []byte(`{"code":1.5,"message":"no"}`)}},
		{"code missing", `{"id":"1","error":{"message":"no","data":7}}`, ``, &ResponseError{-32603, "no", []byte(`{"message":"no","data":7}`)}},
		{"code null", `{"id":"1","error":{"code":null,"message":"no"}}`, ``, &ResponseError{-32603, "no", []byte(`{"code":null,"message":"no"}`)}},
		{"code out of range", `{"id":"1","error":{"code":99999999999999999999,"message":"no"}}`, ``, &ResponseError{-32603, "no", []byte(`{"code":99999999999999999999,"message":"no"}`)}},
		{"message missing", `{"id":"1","error":{"code":4}}`, ``, &ResponseError{4, "", []byte(`{"code":4}`)}},
		{"message an object", `{"id":"1","error":{"code":4,"message":{}}}`, ``, &ResponseError{4, "", []byte(`{"code":4,"message":{}}`)}},
		{"error a string", `{"id":"1","error":"boom"}`, ``, &ResponseError{-32603, "boom", []byte(`"boom"`)}},
		{"error a number", `{"id":"1","error":3}`, ``, &ResponseError{-32603, "3", []byte(`3`)}},
		{"error an empty object", `{"id":"1","error":{}}`, ``, &ResponseError{-32603, "", []byte(`{}`)}},
		{"neither", `{"id":"1"}`, ``, &ResponseError{-32603, neither, []byte(`{"id":"1"}`)}},
		{"neither, error null", `{"id":"1","error":null}`, ``, &ResponseError{-32603, neither, []byte(`{"id":"1","error":null}`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := link(t, Options{})
			call := p.call("do", nil)
			p.say(c.line)
			m := p.next()
			if m.Kind != Response || m.Call != call || m.Method != "do" || string(m.Result) != c.result {
				t.Fatalf("%+v", m)
			}
			switch {
			case c.err == nil && m.Err == nil:
			case c.err == nil || m.Err == nil, c.err.Code != m.Err.Code, c.err.Message != m.Err.Message, !bytes.Equal(c.err.Data, m.Err.Data):
				t.Fatalf("error %+v, want %+v", m.Err, c.err)
			}
			p.say(`{"id":"1","result":0}`) // the second answer to a call is none
			p.nothing()
			if d := p.conn.Diagnostics(); d.Skipped() != 1 {
				t.Fatalf("%+v", d)
			}
		})
	}
}

// TestMessages: requests and notifications in the shapes that agents give them, params as they were sent.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name, line     string
		kind           Kind
		method, params string
	}{
		{"no version (codex)", `{"method":"turn/started","params":{"a":1},"emittedAtMs":5}`, Notification, "turn/started", `{"a":1}`},
		{"exact params", `{"method":"m","params":{"n":12345678901234567890,"f":1.10,"e":1e400,"h":"<a&b>","z":1,"a":2,"d":1,"d":2, "s":"\u003c\/"}}`, Notification, "m",
			`{"n":12345678901234567890,"f":1.10,"e":1e400,"h":"<a&b>","z":1,"a":2,"d":1,"d":2, "s":"\u003c\/"}`},
		{"params null", `{"method":"m","params":null}`, Notification, "m", `null`},
		{"params an array", `{"method":"m","params":[1, 2]}`, Notification, "m", `[1, 2]`},
		{"no params", `{"method":"m"}`, Notification, "m", ``},
		{"spaces", ` { "method" : "m" , "params" : { "x" : "}\"" } } `, Notification, "m", `{ "x" : "}\"" }`},
		{"escaped keys", `{"m\u0065thod":"m\u002f1","params":0}`, Notification, "m/1", `0`},
		{"not UTF-8", "{\"method\":\"m\",\"params\":\"\xff\"}", Notification, "m", "\"\xff\""},
		{"request", `{"id":4,"method":"m","params":{}}`, Request, "m", `{}`},
		{"request with a result", `{"id":4,"method":"m","result":1}`, Request, "m", ``},
		{"request, method of another type", `{"id":4,"method":{}}`, Request, "", ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := link(t, Options{})
			p.say(c.line)
			if m := p.next(); m.Kind != c.kind || m.Method != c.method || string(m.Params) != c.params {
				t.Fatalf("%s %s %s", m.Kind, m.Method, m.Params)
			}
		})
	}
}

// TestSplitCharacters pins FR-07: pieces of a character, and a line separator inside a string.
func TestSplitCharacters(t *testing.T) {
	p := link(t, Options{})
	const text = "\"你😀\u2028end\""
	go func() {
		for _, b := range []byte(`{"method":"m","params":` + text + "}\n") {
			p.out.Write([]byte{b})
		}
	}()
	m := p.next()
	if string(m.Params) != text {
		t.Fatalf("got %q", m.Params)
	}
	if err := p.conn.Notify(context.Background(), "back", m.Params); err != nil {
		t.Fatal(err)
	}
	if got, want := p.hear(), `{"jsonrpc":"2.0","method":"back","params":"你😀\u2028end"}`; got != want {
		t.Fatalf("sent %q, want %q", got, want)
	}
}

// TestOrder: one inbox, exactly as the agent wrote, whatever the kinds.
func TestOrder(t *testing.T) {
	p := link(t, Options{Generation: "g"})
	const rounds = 2000
	go func() {
		for i := range rounds {
			p.read.ReadString('\n')
			fmt.Fprintf(p.out, "%s\n%s\n%s\n%s\n", `{"method":"before"}`, fmt.Sprintf(`{"id":"g-%d","result":0}`, i+1),
				`{"method":"after"}`, `{"id":0,"method":"ask"}`)
		}
	}()
	for i := range rounds {
		p.call("turn", nil)
		got := p.next().Method + " " + p.next().Method + " " + p.next().Method + " " + p.next().Method
		if got != "before turn after ask" {
			t.Fatalf("round %d: %s", i, got)
		}
	}
}
