package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonmcp/baton/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the agent's side of a link, over real pipes.
type peer struct {
	t    *testing.T
	conn *Conn
	out  *os.File // the agent's standard output
	in   *os.File // the agent's standard input
	read *bufio.Reader
}

func link(t *testing.T, o Options) *peer {
	t.Helper()
	stdoutR, stdoutW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdinR, stdinW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, conn: New(stdoutR, stdinW, o), out: stdoutW, in: stdinR, read: bufio.NewReader(stdinR)}
	t.Cleanup(func() {
		p.conn.Close()
		stdoutW.Close()
		stdinR.Close()
	})
	return p
}

func (p *peer) say(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(p.out, l+"\n"); err != nil {
			p.t.Fatal(err)
		}
	}
}

// hear is the next line that the agent gets, without its LF.
func (p *peer) hear() string {
	p.t.Helper()
	line, err := p.read.ReadString('\n')
	if err != nil {
		p.t.Fatalf("reading what the agent was sent: %v", err)
	}
	return line[:len(line)-1]
}

const patience = 60 * time.Second

// next is the next message of the inbox.
func (p *peer) next() Message {
	p.t.Helper()
	select {
	case m, ok := <-p.conn.Inbox():
		if !ok {
			p.t.Fatalf("the inbox is closed: %v", p.conn.Err())
		}
		return m
	case <-time.After(patience):
		p.t.Fatal("no message came")
	}
	panic("unreachable")
}

func (p *peer) call(method string, params any) *Call {
	p.t.Helper()
	call, err := p.conn.Call(context.Background(), method, params)
	if err != nil {
		p.t.Fatal(err)
	}
	return call
}

func TestCallAndAnswer(t *testing.T) {
	p := link(t, Options{Generation: "g"})
	call := p.call("initialize", nil)
	if got, want := p.hear(), `{"jsonrpc":"2.0","id":"g-1","method":"initialize","params":{}}`; got != want {
		t.Fatalf("sent %s, want %s", got, want)
	}
	p.say(`{"method":"a"}`, `{"id":"g-1","result":{"x":1}}`, `{"id":-1,"method":"b","params":[1]}`)
	if m := p.next(); m.Kind != Notification || m.Method != "a" || m.Params != nil {
		t.Fatalf("first: %+v", m)
	}
	if m := p.next(); m.Kind != Response || m.Call != call || m.Method != "initialize" || string(m.Result) != `{"x":1}` {
		t.Fatalf("second: %+v", m)
	}
	m := p.next()
	if m.Kind != Request || m.Method != "b" || m.ID.String() != "-1" || string(m.Params) != "[1]" {
		t.Fatalf("third: %+v", m)
	}
	if err := p.conn.Reply(context.Background(), m.ID, map[string]bool{"ok": true}); err != nil {
		t.Fatal(err)
	}
	if got, want := p.hear(), `{"jsonrpc":"2.0","id":-1,"result":{"ok":true}}`; got != want {
		t.Fatalf("replied %s, want %s", got, want)
	}
	p.out.Close()
	<-p.conn.Done()
	if !errors.Is(p.conn.Err(), io.EOF) {
		t.Fatalf("ended with %v", p.conn.Err())
	}
	if _, err := p.conn.Call(context.Background(), "late", nil); !errors.Is(err, sessions.ErrNotWritten) {
		t.Fatalf("a call on an ended link: %v", err)
	}
}
