package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// limit is when a test gives up waiting for something that should come at once.
const limit = time.Minute

// fake is an adapter that does as its test says; its agent is a real process that understands no protocol.
type fake struct {
	conn *wire.Conn
	sink sessions.Sink
	spec Spec
	done chan struct{}

	// What the test says; what it leaves out succeeds.
	open     func(context.Context, sessions.OpenParams) (sessions.Opened, error)
	prompt   func(context.Context, sessions.Prompt) error
	answer   func(context.Context, sessions.Answer) error
	cancel   func(context.Context, string) error
	probe    func(context.Context) (sessions.Probe, error)
	standing func([]string) bool
	command  func([]string) bool

	mu    sync.Mutex
	calls []string
}

var _ sessions.Agent = (*fake)(nil)

func (f *fake) called(name, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name+" "+what)
}

// history is what the bridge asked of the adapter so far.
func (f *fake) history() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *fake) Open(ctx context.Context, p sessions.OpenParams) (sessions.Opened, error) {
	f.called("open", p.Session)
	if f.open != nil {
		return f.open(ctx, p)
	}
	return sessions.Opened{NativeID: "native"}, nil
}

func (f *fake) Prompt(ctx context.Context, p sessions.Prompt) error {
	f.called("prompt", p.CommandID)
	if f.prompt != nil {
		return f.prompt(ctx, p)
	}
	return nil
}

func (f *fake) Answer(ctx context.Context, a sessions.Answer) error {
	f.called("answer", a.Handle)
	if f.answer != nil {
		return f.answer(ctx, a)
	}
	return nil
}

func (f *fake) Cancel(ctx context.Context, command string) error {
	f.called("cancel", command)
	if f.cancel != nil {
		return f.cancel(ctx, command)
	}
	f.settle(command, sessions.CommandInterrupted)
	return nil
}

func (f *fake) Close(context.Context) error { return f.conn.CloseInput() }

func (f *fake) Done() <-chan struct{} { return f.done }

func (f *fake) Err() error { return f.conn.Err() }

func (f *fake) Standing(argv []string) bool { return f.standing != nil && f.standing(argv) }

func (f *fake) Command(argv []string) bool { return f.command != nil && f.command(argv) }

// settle says how a command ended, as an adapter does.
func (f *fake) settle(command string, state sessions.CommandState) {
	f.sink.Emit(sessions.Event{Kind: sessions.EventCommandSettled, Command: command, Settled: &sessions.Settlement{State: state, Outcome: "end_turn"}})
}

func (f *fake) say(text string) {
	f.sink.Emit(sessions.Event{Kind: sessions.EventText, Item: "i", Text: text, Final: true})
}

// world is one bridge with a socket, and the host's ends of its connections.
type world struct {
	t      *testing.T
	socket string
	spill  string
	agents chan *fake
	ended  chan struct{}
}

// begin runs a bridge whose agents do as script says. When the test ends so does the bridge, whatever is left of it.
func begin(t *testing.T, script func(*fake), change ...func(*Options)) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "b") // short: a socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{t: t, socket: filepath.Join(dir, "s"), spill: filepath.Join(dir, "spill"), agents: make(chan *fake, 1), ended: make(chan struct{})}
	ln, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	spill, err := os.OpenFile(w.spill, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Version: "test", Adapters: map[string]Adapter{"fake": w.adapter(script)}, Listener: ln, Spill: spill, Reaper: reaper, Log: zerolog.Nop()}
	for _, c := range change {
		c(&o)
	}
	go func() {
		defer close(w.ended)
		defer spill.Close()
		if err := Run(o); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(w.end)
	return w
}

func (w *world) adapter(script func(*fake)) Adapter {
	made := func(c *wire.Conn, sink sessions.Sink, s Spec) *fake {
		f := &fake{conn: c, sink: sink, spec: s, done: make(chan struct{})}
		if script != nil {
			script(f)
		}
		return f
	}
	return Adapter{
		New: func(c *wire.Conn, sink sessions.Sink, s Spec, _ *zerolog.Logger) sessions.Agent {
			f := made(c, sink, s)
			go func() { // ends with the link, which the bridge closes
				for range c.Inbox() {
				}
				close(f.done)
			}()
			w.agents <- f
			return f
		},
		Probe: func(ctx context.Context, c *wire.Conn, s Spec, _ *zerolog.Logger) (sessions.Probe, error) {
			return made(c, nil, s).probe(ctx)
		},
	}
}

// end closes a bridge that lives, as a host does.
func (w *world) end() {
	select {
	case <-w.ended:
		return
	default:
	}
	if conn, err := net.Dial("unix", w.socket); err == nil {
		defer conn.Close()
		if l, err := NewLink(conn, Attach{Generation: "g", Epoch: math.MaxInt64}); err == nil {
			l.Send(l.Hello.LastIn+1, InClose, CloseInput{})
			go func() {
				for {
					f, err := l.Recv()
					if err != nil {
						return
					}
					l.Ack(f.N)
				}
			}()
		}
	}
	w.gone()
}

// gone waits for the end of the bridge.
func (w *world) gone() {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(limit):
		w.t.Fatal("the bridge does not end")
	}
}

// agent is the adapter of the one agent that was opened.
func (w *world) agent() *fake {
	w.t.Helper()
	select {
	case f := <-w.agents:
		return f
	case <-time.After(limit):
		w.t.Fatal("no agent was started")
		return nil
	}
}

// peer is the host's end of one connection.
type peer struct {
	*Link
	t    *testing.T
	last uint64 // number of the last out frame read
}

// dial connects without a word.
func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := net.Dial("unix", w.socket)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

func (w *world) attach(epoch int64, after uint64) *peer {
	w.t.Helper()
	l, err := NewLink(w.dial(), Attach{Generation: "g", Epoch: epoch, After: after})
	if err != nil {
		w.t.Fatal(err)
	}
	return &peer{Link: l, t: w.t, last: after}
}

// opened is a peer of a bridge whose agent is open; what came until then is acknowledged.
func (w *world) opened(change ...func(*Spec)) *peer {
	w.t.Helper()
	p := w.attach(1, 0)
	p.give(1, InOpen, spec(change...))
	p.until(OutOpened)
	p.ack()
	return p
}

// spec starts an agent that reads to the end of its input and says nothing.
func spec(change ...func(*Spec)) Spec {
	s := Spec{Protocol: "fake", Argv: []string{"/bin/sh", "-c", "read x; while read x; do :; done"}, Dir: "/", HandshakeSeconds: 60,
		Open: sessions.OpenParams{Session: "s", Generation: "g", Runner: "fake"}}
	for _, c := range change {
		c(&s)
	}
	return s
}

// shell makes the agent a shell script.
func shell(script string) func(*Spec) {
	return func(s *Spec) { s.Argv = []string{"/bin/sh", "-c", script} }
}

func (p *peer) give(n uint64, kind Kind, body any) {
	p.t.Helper()
	if err := p.Send(n, kind, body); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) prompt(n uint64, command string) {
	p.t.Helper()
	p.give(n, InPrompt, PromptInput{Prompt: sessions.Prompt{CommandID: command, Text: "do"}})
}

// recv is the next frame, whichever.
func (p *peer) recv() (Frame, error) {
	timer := time.AfterFunc(limit, func() { p.Close() })
	defer timer.Stop()
	return p.Recv()
}

// next is the next out frame. They must come with ascending numbers and no hole.
func (p *peer) next() Frame {
	p.t.Helper()
	for {
		f, err := p.recv()
		if err != nil {
			p.t.Fatalf("after frame %d: %v", p.last, err)
		}
		if !f.IsOut() {
			continue
		}
		if f.N != p.last+1 {
			p.t.Fatalf("frame %d after frame %d", f.N, p.last)
		}
		p.last = f.N
		return f
	}
}

// until is the next out frame of a kind; what comes before it is passed over.
func (p *peer) until(kind Kind) Frame {
	p.t.Helper()
	for {
		if f := p.next(); f.Kind == kind {
			return f
		} else if f.Kind == OutStopped {
			p.t.Fatalf("the bridge stopped before it said %s: %s", kind, f.Body)
		} else if f.Kind == OutFailed {
			p.t.Fatalf("open failed before it said %s: %s", kind, f.Body)
		}
	}
}

// event is the next event of a kind.
func (p *peer) event(kind sessions.EventKind) sessions.Event {
	p.t.Helper()
	for {
		if e := body[sessions.Event](p.t, p.until(OutEvent)); e.Kind == kind {
			return e
		}
	}
}

// result is the report on one input.
func (p *peer) result(n uint64) InputResult {
	p.t.Helper()
	r := body[InputResult](p.t, p.until(OutInput))
	if r.N != n {
		p.t.Fatalf("a report on input %d, want %d", r.N, n)
	}
	return r
}

// ack acknowledges what was read.
func (p *peer) ack() {
	p.t.Helper()
	if err := p.Ack(p.last); err != nil {
		p.t.Fatal(err)
	}
}

// ended reads and acknowledges to the end of the bridge, and gives what its last frames said.
func (p *peer) ended() (x *Exit, s Stopped) {
	p.t.Helper()
	for {
		switch f := p.next(); f.Kind {
		case OutExited:
			e := body[Exit](p.t, f)
			x = &e
		case OutStopped:
			p.ack()
			return x, body[Stopped](p.t, f)
		}
	}
}

// closed waits until the bridge has closed the connection.
func (p *peer) closed() {
	p.t.Helper()
	for {
		if _, err := p.recv(); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(err.Error(), "reset") {
				p.t.Errorf("the connection ended with %v", err)
			}
			return
		}
	}
}

func body[T any](t *testing.T, f Frame) (v T) {
	t.Helper()
	if err := json.Unmarshal(f.Body, &v); err != nil {
		t.Fatalf("%s: %v", f.Body, err)
	}
	return v
}

func rung(r sandbox.Rung) func(*Options) { return func(o *Options) { o.Inside.Rung = r } }
