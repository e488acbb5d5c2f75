package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/batonmcp/baton/sessions"
)

func TestWhatIsSent(t *testing.T) {
	type form struct {
		Text string          `json:"text"`
		Raw  json.RawMessage `json:"raw,omitempty"`
	}
	for _, c := range []struct {
		name   string
		params any
		want   string
	}{
		{"nil", nil, `{}`},
		{"nil of a type", (*form)(nil), `{}`},
		{"raw null", json.RawMessage(`null`), `{}`},
		{"array", []int{1}, `[1]`},
		{"brackets stay", form{Text: "<a> & b"}, `{"text":"<a> & b"}`},
		{"brackets in raw JSON stay", form{Raw: json.RawMessage(`"<&>"`)}, `{"text":"","raw":"<&>"}`},
		{"line ends", form{Text: "a\nb\r\u2028\u2029"}, `{"text":"a\nb\r\u2028\u2029"}`},
		{"line ends in raw JSON", json.RawMessage("{\n \"a\": \"\u2028\u2029\u2027\"\r\n}"), `{"a":"\u2028\u2029` + "\u2027" + `"}`},
		{"no UTF-8 in a string", form{Text: "a\xffb\xc3"}, `{"text":"a\ufffdb\ufffd"}`},
		{"no UTF-8 in raw JSON", json.RawMessage("{\"a\xff\":\"\xe4\xbd\"}"), `{"a` + "\ufffd" + `":"` + "\ufffd\ufffd" + `"}`},
		{"a pair of surrogates", json.RawMessage(`"\ud83d\ude00 \uD83D\uDE00"`), `"\ud83d\ude00 \uD83D\uDE00"`},
		{"half pairs", json.RawMessage(`"\ud83d x \ude00 \uDBFF\ud83d\ude00 \\ud83d \ud83d\n"`), `"\ufffd x \ufffd \ufffd\ud83d\ude00 \\ud83d \ufffd\n"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := link(t, Options{Generation: "g"})
			p.call("m", c.params)
			if got, want := p.hear(), `{"jsonrpc":"2.0","id":"g-1","method":"m","params":`+c.want+`}`; got != want {
				t.Errorf("sent %q, want %q", got, want)
			}
		})
	}
}

func TestUnsendable(t *testing.T) {
	p := link(t, Options{})
	ctx := context.Background()
	_, err := p.conn.Call(ctx, "m", make(chan int))
	for what, err := range map[string]error{
		"call":   err,
		"notify": p.conn.Notify(ctx, "m", json.RawMessage("{")),
		"reply":  p.conn.Reply(ctx, ID{}, nil),
	} {
		if !errors.Is(err, sessions.ErrNotWritten) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.call("good", nil)
	if got := p.hear(); !strings.Contains(got, `"good"`) {
		t.Fatalf("the first line the agent got is %s", got)
	}
}

// TestBothWriteFirst pins PR-06: the agent says 1 MiB before it reads our 1 MiB prompt, and the one who listens to it is
// the one who writes.
func TestBothWriteFirst(t *testing.T) {
	p := link(t, Options{})
	const updates = 2 * (1 << 20) / 250
	got := make(chan int, 1)
	go func() {
		w := bufio.NewWriterSize(p.out, 1<<20)
		for range updates {
			w.WriteString(update)
		}
		w.Flush()
		line, _ := p.read.ReadString('\n')
		got <- len(line)
	}()
	p.next() // the agent is writing
	prompt := strings.Repeat("x", 1<<20)
	p.call("prompt", prompt)
	if n := <-got; n < len(prompt) {
		t.Fatalf("the agent read %d bytes", n)
	}
	for range updates - 1 {
		if m := p.next(); m.Method != "session/update" {
			t.Fatalf("%+v", m)
		}
	}
}

// TestDeafAgent pins the other half of PR-06: an agent that never reads cannot hold a write for longer than its time.
func TestDeafAgent(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pr, pw := io.Pipe()
	for name, pipe := range map[string]struct {
		r io.Reader
		w io.WriteCloser
	}{"deadline": {r, w}, "watchdog": {pr, pw}} {
		t.Run(name, func(t *testing.T) {
			out, said := io.Pipe()
			defer said.Close()
			c := New(out, pipe.w, Options{WriteTimeout: time.Second})
			defer c.Close()
			result := make(chan error, 1)
			go func() {
				_, err := c.Call(context.Background(), "prompt", strings.Repeat("x", 1<<20))
				result <- err
			}()
			if _, err := pipe.r.Read(make([]byte, 1)); err != nil { // the prompt is under way
				t.Fatal(err)
			}
			if err := <-result; !errors.Is(err, sessions.ErrBroken) || !errors.Is(err, ErrWriteTimeout) {
				t.Errorf("the prompt: %v", err)
			}
			<-c.Done()
			if err := c.Err(); !errors.Is(err, ErrWriteTimeout) {
				t.Errorf("ended with %v", err)
			}
			if err := c.Notify(context.Background(), "cancel", nil); !errors.Is(err, sessions.ErrNotWritten) {
				t.Errorf("a notification after the end: %v", err)
			}
		})
	}
}

// TestNotifyDuringWrite: nobody waits for somebody else's write for longer than their own time.
func TestNotifyDuringWrite(t *testing.T) {
	p := link(t, Options{WriteTimeout: time.Hour})
	result := make(chan error, 1)
	go func() {
		_, err := p.conn.Call(context.Background(), "prompt", strings.Repeat("x", 1<<20))
		result <- err
	}()
	if _, err := p.read.Peek(1); err != nil { // the prompt is under way
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := p.conn.Notify(ctx, "cancel", nil); !errors.Is(err, sessions.ErrNotWritten) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a notification meanwhile: %v", err)
	}
	p.conn.Close()
	<-result
}

// TestCloseInputDuringWrite: an agent that reads nothing keeps nobody from closing its input, and the write says that bytes
// may have left.
func TestCloseInputDuringWrite(t *testing.T) {
	p := link(t, Options{WriteTimeout: time.Hour})
	result := make(chan error, 1)
	go func() {
		_, err := p.conn.Call(context.Background(), "prompt", strings.Repeat("x", 1<<20))
		result <- err
	}()
	if _, err := p.read.Peek(1); err != nil { // the prompt is under way
		t.Fatal(err)
	}
	if err := p.conn.CloseInput(); err != nil {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, sessions.ErrBroken) {
		t.Errorf("the prompt: %v", err)
	}
	if err := p.conn.CloseInput(); err != nil {
		t.Errorf("once more: %v", err)
	}
	if err := p.conn.Notify(context.Background(), "later", nil); !errors.Is(err, sessions.ErrNotWritten) {
		t.Errorf("a notification behind it: %v", err)
	}
}

// TestCloseDuringWrite: Close does not wait for the write's time, and the write says that bytes may have left.
func TestCloseDuringWrite(t *testing.T) {
	p := link(t, Options{WriteTimeout: time.Hour})
	result := make(chan error, 1)
	go func() {
		_, err := p.conn.Call(context.Background(), "prompt", strings.Repeat("x", 1<<20))
		result <- err
	}()
	if _, err := p.read.Peek(1); err != nil { // the first bytes are through
		t.Fatal(err)
	}
	p.conn.Close()
	if err := <-result; !errors.Is(err, sessions.ErrBroken) {
		t.Fatal(err)
	}
}

// TestInputGone: an agent that closed its input can still be heard, and nothing that was not sent is called broken.
func TestInputGone(t *testing.T) {
	p := link(t, Options{})
	p.in.Close()
	for range 2 {
		if _, err := p.conn.Call(context.Background(), "prompt", nil); !errors.Is(err, sessions.ErrNotWritten) {
			t.Fatal(err)
		}
	}
	p.say(`{"method":"last words"}`)
	if m := p.next(); m.Method != "last words" {
		t.Fatalf("%+v", m)
	}
	p.out.Close()
	if m, more := <-p.conn.Inbox(); more {
		t.Fatalf("then %+v", m)
	}
	if err := p.conn.Err(); err != io.EOF {
		t.Fatal(err)
	}
}

// TestBrokenWrite: the agent took some bytes and left.
func TestBrokenWrite(t *testing.T) {
	for _, taken := range []int{0, 1, 20} {
		t.Run(fmt.Sprint(taken), func(t *testing.T) {
			out, said := io.Pipe()
			defer said.Close()
			in, w := io.Pipe()
			c := New(out, w, Options{})
			defer c.Close()
			go func() {
				io.ReadFull(in, make([]byte, taken))
				in.Close()
			}()
			want := sessions.ErrBroken
			if taken == 0 {
				want = sessions.ErrNotWritten
			}
			if _, err := c.Call(context.Background(), "prompt", nil); !errors.Is(err, want) || !errors.Is(err, io.ErrClosedPipe) {
				t.Fatal(err)
			}
			if err := c.Err(); err != nil {
				t.Fatalf("the link ended: %v", err)
			}
		})
	}
}

// TestEndedContext: a context counts before the first byte.
func TestEndedContext(t *testing.T) {
	p := link(t, Options{})
	why := errors.New("the turn is over")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if _, err := p.conn.Call(ctx, "late", nil); !errors.Is(err, sessions.ErrNotWritten) || !errors.Is(err, why) {
		t.Fatal(err)
	}
	p.call("good", nil)
	if got := p.hear(); !strings.Contains(got, `"good"`) {
		t.Fatalf("the agent got %s", got)
	}
}

func TestCloseInput(t *testing.T) {
	p := link(t, Options{})
	if err := p.conn.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if err := p.conn.CloseInput(); err != nil {
		t.Fatalf("the second time: %v", err)
	}
	if _, err := p.read.ReadByte(); err != io.EOF {
		t.Fatalf("the agent reads %v", err)
	}
	if err := p.conn.Notify(context.Background(), "m", nil); !errors.Is(err, sessions.ErrNotWritten) {
		t.Fatal(err)
	}
	p.nothing()
}

// TestClose: whatever is going on, Close returns, and so does everybody who waits.
func TestClose(t *testing.T) {
	p := link(t, Options{})
	for range 10 {
		p.say(`{"method":"unread"}`)
	}
	p.next()
	done := make(chan struct{})
	for range 3 {
		go func() {
			p.conn.Close()
			done <- struct{}{}
		}()
	}
	for range 3 {
		<-done
	}
	<-p.conn.Done()
	if err := p.conn.Err(); err != ErrClosed {
		t.Fatal(err)
	}
	if m, more := <-p.conn.Inbox(); more {
		t.Fatalf("after Close: %+v", m)
	}
	if _, err := p.conn.Call(context.Background(), "m", nil); !errors.Is(err, sessions.ErrNotWritten) || !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// TestBackPressure: an agent that nobody listens to is stopped, not buffered, and loses nothing.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, said := io.Pipe()
		c := New(out, nowhere{io.Discard}, Options{})
		defer c.Close()
		const all = 10 * queueMessages
		sent := 0
		go func() {
			for range all {
				if _, err := io.WriteString(said, update); err != nil {
					return
				}
				sent++
			}
			said.Close()
		}()
		synctest.Wait()
		if sent < queueMessages || sent > 3*queueMessages {
			t.Errorf("%d messages went unheard before the agent was stopped", sent)
		}
		n := 0
		for range c.Inbox() {
			n++
		}
		if n != all {
			t.Errorf("%d of %d messages arrived", n, all)
		}
	})
}

func TestTap(t *testing.T) {
	var lines []string
	p := link(t, Options{Tap: func(d Direction, line []byte) {
		lines = append(lines, fmt.Sprintf("%d %s", d, line))
	}})
	p.call("m", nil)
	p.say("noise", "", `{"id":"1","result":0}`+"\r", `{"id":7,"method":"ask"}`)
	p.next()
	p.conn.Reply(context.Background(), p.next().ID, 1)
	p.conn.Close()
	got := strings.Join(lines, "\n")
	want := "2 {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"m\",\"params\":{}}\n1 noise\n1 \n1 {\"id\":\"1\",\"result\":0}\r\n" +
		"1 {\"id\":7,\"method\":\"ask\"}\n2 {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1}"
	if got != want {
		t.Fatalf("tapped\n%s\nwant\n%s", got, want)
	}
}

type handler func(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request)

func (h handler) Handle(ctx context.Context, c *jsonrpc2.Conn, r *jsonrpc2.Request) { h(ctx, c, r) }

type duplex struct {
	io.Reader
	io.WriteCloser
}

// TestForeignPeer talks to somebody else's reading and writing of the same protocol.
func TestForeignPeer(t *testing.T) {
	p := link(t, Options{Generation: "g"})
	served := make(chan string, 1)
	agent := jsonrpc2.NewConn(context.Background(), jsonrpc2.NewPlainObjectStream(duplex{p.in, p.out}),
		jsonrpc2.AsyncHandler(handler(func(ctx context.Context, c *jsonrpc2.Conn, r *jsonrpc2.Request) {
			var answer string
			err := c.Call(ctx, "ask", map[string]string{"q": "<why>"}, &answer)
			served <- fmt.Sprint(answer, err)
			c.Reply(ctx, r.ID, r.Params)
		})))
	call := p.call("turn", map[string]string{"text": "你 <&>"})
	ask := p.next()
	if ask.Kind != Request || ask.Method != "ask" {
		t.Fatalf("%+v", ask)
	}
	if err := p.conn.Reply(context.Background(), ask.ID, "because"); err != nil {
		t.Fatal(err)
	}
	if got := <-served; got != "because<nil>" {
		t.Fatal(got)
	}
	m := p.next()
	var back map[string]string
	if err := json.Unmarshal(m.Result, &back); err != nil || m.Call != call || back["text"] != "你 <&>" {
		t.Fatalf("%+v %v", m, err)
	}
	agent.Close()
	<-p.conn.Done()
}
