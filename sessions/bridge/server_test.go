package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

func TestHello(t *testing.T) {
	w := begin(t, nil, rung(sandbox.ProcessGroup))
	want := Hello{Protocol: Protocol, Version: "test", Generation: "g", Epoch: 1, FirstOut: 1, Containment: "process_group", Pings: true,
		Inputs: []Kind{InOpen, InProbe, InForeign, InPrompt, InAnswer, InCancel, InClose, InVoid}}
	p := w.attach(1, 0)
	if !reflect.DeepEqual(p.Hello, want) {
		t.Errorf("first hello %+v, want %+v", p.Hello, want)
	}
	p.give(1, InOpen, spec())
	p.until(OutOpened)
	p.Close()
	want.Epoch, want.LastIn, want.LastOut = 2, 1, 1
	if p = w.attach(2, 0); !reflect.DeepEqual(p.Hello, want) {
		t.Errorf("second hello %+v, want %+v", p.Hello, want)
	}
	want.FirstOut = 2
	if p = w.attach(2, 1); !reflect.DeepEqual(p.Hello, want) {
		t.Errorf("hello to a host that has frame 1: %+v, want %+v", p.Hello, want)
	}
}

// A frame is kept until it is acknowledged, and comes again to whoever says that it lacks it.
func TestFramesAreKeptUntilAcknowledged(t *testing.T) {
	w := begin(t, nil)
	p := w.opened() // frame 1 is acknowledged
	f := w.agent()
	for i := range 5 {
		f.say(fmt.Sprint(i + 2))
	}
	said := func(p *peer, want ...string) {
		t.Helper()
		for _, text := range want {
			if e := body[sessions.Event](t, p.next()); e.Text != text {
				t.Errorf("frame %d says %q, want %q", p.last, e.Text, text)
			}
		}
	}
	said(p, "2", "3", "4", "5", "6")
	p.Close()

	p = w.attach(1, 1) // nothing was journalled
	said(p, "2", "3")
	p.ack()
	f.say("7")
	said(p, "4", "5", "6", "7")
	p.Close()

	p = w.attach(1, 3)
	if p.Hello.FirstOut != 4 || p.Hello.LastOut != 7 {
		t.Errorf("%+v", p.Hello)
	}
	said(p, "4", "5", "6", "7")
}

// I02: an input is acted upon once, whatever is repeated, and none is skipped.
func TestI02_InputsAreActedUponOnce(t *testing.T) {
	w := begin(t, nil)
	p := w.opened()
	f := w.agent()
	p.prompt(1, "repeats the open")
	p.prompt(2, "a")
	p.prompt(2, "repeated")
	p.prompt(4, "skips 3")
	p.prompt(3, "b")
	p.prompt(2, "late")
	p.give(4, InCancel, CancelInput{Command: "b"})
	for n := uint64(2); n <= 4; n++ {
		if r := p.result(n); r.State != InputWritten {
			t.Errorf("input %d: %+v", n, r)
		}
	}
	if want := []string{"open s", "prompt a", "prompt b", "cancel b"}; !slices.Equal(f.history(), want) {
		t.Errorf("the agent got %q, want %q", f.history(), want)
	}
	p.Close()
	p = w.attach(1, p.last)
	if p.Hello.LastIn != 4 {
		t.Errorf("last input received is %d", p.Hello.LastIn)
	}
	p.prompt(4, "again")
	p.prompt(5, "c")
	if r := p.result(5); r.Ref != "c" {
		t.Errorf("%+v", r)
	}
	if got := f.history(); got[len(got)-1] != "prompt c" || len(got) != 5 {
		t.Errorf("the agent got %q", got)
	}
}

// The receipt of inputs is told, up to the last one, also while nothing becomes of them.
func TestReceiptIsTold(t *testing.T) {
	hold := make(chan struct{})
	w := begin(t, func(f *fake) {
		f.prompt = func(context.Context, sessions.Prompt) error { <-hold; return nil }
	})
	p := w.opened()
	p.prompt(2, "a")
	p.prompt(3, "b")
	if err := p.Ping(); err != nil {
		t.Fatal(err)
	}
	for told := uint64(0); told < 3; { // while the first is still being written
		f, err := p.recv()
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == typeGot {
			if f.N <= told || f.N > 3 {
				t.Errorf("told %d after %d", f.N, told)
			}
			told = f.N
		}
	}
	close(hold)
	p.result(2)
}

// A ping is answered by a bridge whose worker, agent and buffer all wait.
func TestPingIsAnswered(t *testing.T) {
	hold := make(chan struct{})
	w := begin(t, func(f *fake) {
		f.prompt = func(context.Context, sessions.Prompt) error { <-hold; return nil }
	}, func(o *Options) { o.SpoolBytes = 1 })
	p := w.opened()
	f := w.agent()
	p.prompt(2, "a")
	said := make(chan struct{})
	go func() {
		defer close(said)
		f.say("1")
		f.say("2") // waits until the first is acknowledged
	}()
	p.event(sessions.EventText)
	for range 3 {
		if err := p.Ping(); err != nil {
			t.Fatal(err)
		}
		for {
			fr, err := p.recv()
			if err != nil {
				t.Fatal(err)
			}
			if fr.IsPong() {
				break
			}
			if fr.IsOut() {
				t.Fatalf("%+v", fr)
			}
		}
	}
	p.ack()
	p.event(sessions.EventText)
	p.ack()
	<-said
	close(hold)
	p.result(2)
}

func TestAnOlderHostIsFenced(t *testing.T) {
	w := begin(t, nil)
	old := w.attach(1, 0)
	old.give(1, InOpen, spec())
	old.until(OutOpened)
	f := w.agent()

	p := w.attach(2, 0)
	old.closed()
	p.until(OutOpened) // what nobody acknowledged comes to the new one
	f.say("x")
	if e := p.event(sessions.EventText); e.Text != "x" {
		t.Errorf("%+v", e)
	}
	_, err := NewLink(w.dial(), Attach{Generation: "g", Epoch: 1, After: 99})
	if sessions.CodeOf(err) != sessions.CodeFenced || !strings.Contains(err.Error(), "epoch 2") {
		t.Errorf("an older host was answered with %v", err)
	}
	p.prompt(2, "a") // the refused one has changed nothing
	p.result(2)
}

// What an older host's connection still held is not acted upon once a newer one was told what had come.
func TestInputsOfAFencedConnection(t *testing.T) {
	b := &Bridge{spool: newSpool(1 << 20)}
	b.changed = sync.NewCond(&b.mu)
	old, now := &hostConn{}, &hostConn{}
	b.conn = old
	if !b.receive(old, Frame{N: 1, Kind: InOpen}) {
		t.Error("the first input was not taken")
	}
	b.conn = now
	if b.receive(old, Frame{N: 2, Kind: InPrompt}) {
		t.Error("an input of the fenced connection was taken")
	}
	if !b.receive(now, Frame{N: 2, Kind: InPrompt}) {
		t.Error("the newer host's input was not taken")
	}
}

func TestAttachIsRefused(t *testing.T) {
	w := begin(t, nil)
	w.attach(1, 0)
	for name, c := range map[string]struct {
		a    Attach
		code sessions.Code
		says string
	}{
		"another protocol":   {Attach{Protocol: Protocol + 1, Generation: "g", Epoch: 9}, sessions.CodeUnsupported, fmt.Sprintf("this bridge (test) speaks bridge protocol %d, the host asked for %d", Protocol, Protocol+1)},
		"another generation": {Attach{Protocol: Protocol, Generation: "h", Epoch: 9}, sessions.CodeStaleGeneration, "generation g"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.dial()
			line, err := frameOf(typeAttach, 0, "", c.a)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(line); err != nil {
				t.Fatal(err)
			}
			f, err := readFrame(bufio.NewReader(conn))
			if err != nil || f.Type != typeRefuse {
				t.Fatalf("%+v, %v", f, err)
			}
			var e sessions.Error
			if err := json.Unmarshal(f.Body, &e); err != nil || e.Code != c.code || !strings.Contains(e.Message, c.says) {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
	w.attach(1, 0) // none of them has fenced the host
}

// A number may stand for an input that is not to be given to the agent.
func TestVoidInput(t *testing.T) {
	w := begin(t, nil)
	p := w.opened()
	p.give(2, InVoid, nil)
	p.prompt(3, "a")
	if r := p.result(2); r.State != InputRefused || r.Kind != InVoid {
		t.Errorf("%+v", r)
	}
	p.result(3)
	if got := w.agent().history(); !slices.Equal(got, []string{"open s", "prompt a"}) {
		t.Errorf("the agent got %q", got)
	}
}

// Whoever does not greet is not listened to; what an attached host says of tomorrow's kinds is passed over.
func TestStrayFrames(t *testing.T) {
	w := begin(t, nil)
	for _, line := range []string{"hello\n", `{"t":"in","n":1,"k":"open"}` + "\n", `{"t":"attach","b":[]}` + "\n"} {
		conn := w.dial()
		if _, err := conn.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if f, err := readFrame(bufio.NewReader(conn)); err == nil {
			t.Errorf("%q was answered with %+v", line, f)
		}
	}
	p := w.opened()
	if err := p.write("tomorrow", 2, "x", nil); err != nil {
		t.Fatal(err)
	}
	p.give(2, "tomorrow", nil)
	if r := p.result(2); r.State != InputRefused || r.Error.Code != sessions.CodeUnsupported {
		t.Errorf("%+v", r)
	}
	p.prompt(3, "a")
	p.result(3)
}

// A full buffer stops the agent and loses nothing.
func TestFullSpoolStopsTheAgent(t *testing.T) {
	const events, size = 100, 1000
	var emitted atomic.Int64
	w := begin(t, func(f *fake) {
		f.prompt = func(_ context.Context, p sessions.Prompt) error {
			go func() { // ends with its last event
				for i := range events {
					f.say(fmt.Sprint(i, strings.Repeat(" ", size)))
					emitted.Add(1)
				}
				f.settle(p.CommandID, sessions.CommandCompleted)
			}()
			return nil
		}
	}, func(o *Options) { o.SpoolBytes = 10 * size })
	p := w.opened()
	p.prompt(2, "a")
	read := 0
	for bytes := 0; bytes < 10*size; read++ {
		line, err := encode(p.next())
		if err != nil {
			t.Fatal(err)
		}
		bytes += len(line)
	}
	if n := emitted.Load(); n > int64(read) {
		t.Errorf("%d events were taken while %d frames filled the buffer", n, read)
	}
	p.Close()
	p = w.attach(1, 1) // a host that begins anew gets them all
	texts := 0
	for {
		f := p.next()
		p.ack()
		if f.Kind != OutEvent {
			continue
		}
		e := body[sessions.Event](t, f)
		if e.Kind == sessions.EventCommandSettled {
			break
		}
		if got := strings.TrimSpace(e.Text); got != fmt.Sprint(texts) {
			t.Fatalf("event %d says %q", texts, got)
		}
		texts++
	}
	if texts != events {
		t.Errorf("%d events came, want %d", texts, events)
	}
}

// A host that gives a long input before it reads on must not wait for a bridge that waits for it.
func TestLongInputWhileFramesAreNotRead(t *testing.T) {
	w := begin(t, func(f *fake) {
		f.open = func(context.Context, sessions.OpenParams) (sessions.Opened, error) {
			for range 7 {
				f.say(strings.Repeat("x", 1<<20))
			}
			return sessions.Opened{}, nil
		}
	})
	p := w.attach(1, 0)
	p.give(1, InOpen, spec())
	p.give(2, InPrompt, PromptInput{Prompt: sessions.Prompt{CommandID: "a", Text: strings.Repeat("y", 2<<20)}})
	p.give(3, InPrompt, PromptInput{Prompt: sessions.Prompt{CommandID: "b", Text: strings.Repeat("z", 2<<20)}})
	if r := p.result(2); r.Ref != "a" || r.State != InputWritten {
		t.Errorf("%+v", r)
	}
}

// A frame that no host could read is told of in its place.
func TestFrameThatIsTooLong(t *testing.T) {
	w := begin(t, nil, func(o *Options) { o.maxFrame = 2000 })
	p := w.opened()
	f := w.agent()
	f.say("a")
	f.say(strings.Repeat("b", 2000))
	f.sink.Emit(sessions.Event{Kind: sessions.EventWarning, Data: map[string]any{"x": func() {}}})
	f.say("c")
	for _, want := range []string{"a", "the limit is 2000", "unsupported type", "c"} {
		if e := body[sessions.Event](t, p.next()); !strings.Contains(e.Text, want) {
			t.Errorf("frame %d says %.80q, want %q", p.last, e.Text, want)
		}
	}
}

// short is a listener of a machine that has no descriptors left for a while.
type short struct {
	net.Listener
	left atomic.Int64
}

func (s *short) Accept() (net.Conn, error) {
	if s.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return s.Listener.Accept()
}

// A bridge that could not take a connection takes the next one.
func TestAcceptGoesOn(t *testing.T) {
	w := begin(t, nil, func(o *Options) {
		s := &short{Listener: o.Listener}
		s.left.Store(2)
		o.Listener = s
	})
	w.opened()
}

// A host that is attached and reads nothing holds up its own frames, and the next host takes over.
func TestHostThatDoesNotRead(t *testing.T) {
	w := begin(t, nil)
	p := w.opened()
	f := w.agent()
	for range 7 {
		f.say(strings.Repeat("x", 1<<20))
	}
	next := w.attach(2, p.last)
	for range 7 {
		next.next()
	}
}
