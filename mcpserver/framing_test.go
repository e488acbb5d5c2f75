package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/batonmcp/baton/sessions"
	"github.com/mark3labs/mcp-go/mcp"
)

// A stray or broken line must cost one error answer and nothing else (FR-01 on our side of the wire).
func TestBrokenLineCostsOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := start(t, f)
		c.line(initialize)
		ok(t, c.answer(`"init-1"`), "initialize")
		c.call("1", "session_send", "{\"session_id\":\"s\",\"text\":\"caf\xe9\"}", "") // would reach the agent altered
		refused(t, c.answer("null"), mcp.PARSE_ERROR)
		if len(f.calls()) > 0 {
			t.Errorf("the API got %+v", f.calls())
		}
		for _, text := range []string{"Loaded cached credentials.", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"\ud8`, "{", "\xff\xfe{}"} {
			c.line(text)
			refused(t, c.answer("null"), mcp.PARSE_ERROR)
		}
		c.line(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		ok(t, c.answer("2"), "tools/list")
		c.quiet()
	})
}

// FR-02 (b): a long argument arrives whole, and the next message is read.
func TestLongArgument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := start(t, f)
		long := strings.Repeat("0123456789abcdef", 2<<20/16)
		c.call("1", "session_send", `{"session_id":"`+sid+`","text":"`+long+`"}`, "")
		c.line(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		ok(t, c.answer("2"), "ping")
		ok(t, c.answer("1"), "send")
		if a := f.calls()[0].(sessions.SendArgs); a.Text != long {
			t.Errorf("%d characters arrived", len(a.Text))
		}
	})
}

// FR-02 (c): a line without end hits the cap: one clear error, a clean end, and memory near the cap.
func TestLineOverTheCapEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&fake{wait: waitTheirTime}, Options{})
		s.maxLine = 1 << 20
		c := startSilent(t, s)
		go c.read()
		c.line(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		ok(t, c.answer("1"), "ping")
		c.call("2", "session_wait", `{"wait_seconds":40}`, "")
		go io.Copy(c.in, io.LimitReader(zeros{}, 300<<20)) // ends with the pipe
		m := c.answer("null")
		refused(t, m, mcp.INVALID_REQUEST)
		if !strings.Contains(m.Error.Message, "1048576") {
			t.Errorf("the limit is not named: %s", m.Error.Message)
		}
		if err := <-c.served; !errors.Is(err, ErrLineTooLong) {
			t.Errorf("ServeStdio returned %v", err)
		}
		if e := c.answer("2").failed(t); e.Code != sessions.CodeIncomplete {
			t.Errorf("the open wait ended with %v", e)
		}
		c.in.CloseWithError(io.ErrClosedPipe)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestLineReader(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"lf and crlf", "a\nb\r\n", []string{"a", "b"}},
		{"byte order mark", "\xef\xbb\xbfa\r\n\xef\xbb\xbf\n", []string{"a"}},
		{"blank lines", "\n\r\n  \n\ta \n\n", []string{"a"}},
		{"last line without end", "a\nb", []string{"a", "b"}},
		{"separators are no line ends", "a\u2028b\u2029c\x85\n", []string{"a\u2028b\u2029c\x85"}},
		{"exactly the limit", strings.Repeat("x", 99) + "\n", []string{strings.Repeat("x", 99)}},
	} {
		for _, how := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			r := newLineReader(how(strings.NewReader(tc.in)), 100)
			var got []string
			for {
				line, err := r.next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("%s: %v", tc.name, err)
				}
				got = append(got, string(line))
			}
			if strings.Join(got, "|") != strings.Join(tc.want, "|") {
				t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
			}
		}
	}
	if _, err := newLineReader(strings.NewReader(strings.Repeat("x", 100)+"\n"), 100).next(); !errors.Is(err, ErrLineTooLong) {
		t.Errorf("a line over the limit gave %v", err)
	}
}

// FR-03: a byte order mark, CRLF and blank lines change nothing and draw no answer.
func TestWindowsBornClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{})
		c.raw("\xef\xbb\xbf" + initialize + "\r\n\n\r\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\r\n")
		ok(t, c.answer(`"init-1"`), "initialize")
		ok(t, c.answer("2"), "tools/list")
		if err := c.end(); err != nil {
			t.Error(err)
		}
		if left := c.rest(); len(left) != 0 {
			t.Errorf("unsolicited: %v", c.lines())
		}
	})
}

// FR-04: ids come back with their type and every digit, and 7 and "7" share nothing.
func TestIDsComeBackExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{wait: func(ctx context.Context, a sessions.WaitArgs) (sessions.WaitResult, error) {
			<-ctx.Done()
			return sessions.WaitResult{}, context.Cause(ctx)
		}}
		f.read = func(_ context.Context, a sessions.ReadArgs) (sessions.ReadResult, error) {
			return sessions.ReadResult{Cursor: a.SessionID}, nil
		}
		c := start(t, f)
		ids := []string{`"init-1"`, "7", `"7"`, "9007199254740993", "-3", "-0", "18446744073709551615", `"é\u00e9\"\\"`, "1.5", `""`, `"baton:1"`}
		c.call("700", "session_wait", "", "")
		for _, id := range ids {
			name, _ := json.Marshal("for " + id)
			c.call(id, "session_read", `{"session_id":`+string(name)+`}`, "")
		}
		for _, id := range ids {
			var r struct{ Cursor string }
			m := c.answer(id)
			if json.Unmarshal(m.tool(t).Structured, &r); r.Cursor != "for "+id {
				t.Errorf("id %s got the answer of %q", id, r.Cursor)
			}
		}
		c.quiet()
	})
}

func TestIDOfTheWrongTypeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{})
		for _, id := range []string{"null", "true", "{}", "[1]"} {
			c.line(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			refused(t, c.answer("null"), mcp.INVALID_REQUEST)
		}
		c.quiet()
	})
}

// FR-05: the second request under an id in flight is refused at once; the cancel reaches the first; the id is free after.
func TestDuplicateID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan int, 2)
		n := 0
		f := &fake{wait: func(ctx context.Context, a sessions.WaitArgs) (sessions.WaitResult, error) {
			n++
			mine := n
			<-ctx.Done()
			ended <- mine
			return sessions.WaitResult{}, context.Cause(ctx)
		}}
		c := start(t, f)
		c.call("1", "session_wait", `{"wait_seconds":20}`, "")
		synctest.Wait()
		c.call("1", "session_wait", `{"wait_seconds":20}`, "")
		refused(t, c.answer("1"), mcp.INVALID_REQUEST)
		synctest.Wait()
		if len(ended) != 0 || n != 1 {
			t.Fatalf("%d waits ran, %d ended", n, len(ended))
		}
		c.cancel("1")
		if <-ended != 1 {
			t.Error("the cancel did not reach the first")
		}
		c.line(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		ok(t, c.answer("1"), "reuse after the cancel")
		c.line(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		ok(t, c.answer("1"), "reuse after the answer")
		c.quiet()
	})
}

// FR-06: whatever cannot be used draws exactly one error, under its id where that can be read.
func TestUnusableMessagesDrawOneErrorEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{})
		for _, tc := range []struct {
			line, id string
			code     int
		}{
			{`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`, "null", mcp.INVALID_REQUEST},
			{`[]`, "null", mcp.INVALID_REQUEST},
			{`{"id":99,"method":"tools/list"}`, "99", mcp.INVALID_REQUEST},
			{`{"jsonrpc":"1.0","id":"a","method":"tools/list"}`, `"a"`, mcp.INVALID_REQUEST},
			{`{"jsonrpc":2.0,"id":98,"method":"tools/list"}`, "98", mcp.INVALID_REQUEST},
			{`{"method":"notifications/initialized"}`, "null", mcp.INVALID_REQUEST},
			{`5`, "null", mcp.INVALID_REQUEST},
			{`"text"`, "null", mcp.INVALID_REQUEST},
			{`null`, "null", mcp.INVALID_REQUEST},
			{`{}`, "null", mcp.INVALID_REQUEST},
			{`{"jsonrpc":"2.0","id":97}`, "97", mcp.INVALID_REQUEST},
			{`{"jsonrpc":"2.0","id":96,"result":{},"error":{"code":1,"message":"x"}}`, "96", mcp.INVALID_REQUEST},
			{`{"jsonrpc":"2.0","id":95,"method":7}`, "95", mcp.INVALID_REQUEST},
			{`{"jsonrpc":"2.0","id":94,"method":"tools/list","params":[1]}`, "94", mcp.INVALID_PARAMS},
			{`{"jsonrpc":"2.0","id":93,"method":"tools/brandNew"}`, "93", mcp.METHOD_NOT_FOUND},
			{`{"jsonrpc":"2.0","id":92,"method":"tools/call","params":{"name":"no_such_tool"}}`, "92", mcp.INVALID_PARAMS},
			{`{"jsonrpc":"2.0","ID":91,"id":90,"METHOD":"ping","method":"nope"}`, "90", mcp.METHOD_NOT_FOUND},
		} {
			c.line(tc.line)
			refused(t, c.answer(tc.id), tc.code)
			c.quiet()
		}
		c.line(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
		ok(t, c.answer("3"), "ping")
		c.quiet()
	})
}

// FR-07: text survives one byte at a time, and line separators leave only as escapes.
func TestTextSurvivesAndSeparatorsAreEscaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = "你😀\u2028end\u2029 – “q”"
		f := &fake{send: func(_ context.Context, a sessions.SendArgs) (sessions.SendResult, error) {
			raw := json.RawMessage(`"` + text + `"`)
			return sessions.SendResult{Text: a.Text, Session: sessions.Session{SessionID: a.SessionID, Capability: sessions.Capabilities{Details: raw}}}, nil
		}}
		c := start(t, f)
		for b := range strings.SplitSeq(`{"jsonrpc":"2.0","id":"x`+"\u2028"+`","method":"tools/call","params":{"name":"session_send","arguments":{"session_id":"s","text":"`+text+`"}}}`+"\n", "") {
			for i := range len(b) {
				c.raw(b[i : i+1])
			}
		}
		m := c.answer(`"x\u2028"`)
		var r sessions.SendResult
		if err := json.Unmarshal(m.tool(t).Structured, &r); err != nil || r.Text != text {
			t.Errorf("%v, text %q", err, r.Text)
		}
		if got := f.calls()[0].(sessions.SendArgs).Text; got != text {
			t.Errorf("the API got %q", got)
		}
	})
}
