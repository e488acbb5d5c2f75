package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// body is a process that lives until it is killed, or for ever.
type body struct {
	done   chan struct{}
	once   sync.Once
	resist func(context.Context) sandbox.Verdict // nil: it dies
}

func newBody() *body { return &body{done: make(chan struct{})} }

func (b *body) Record() sandbox.Record { return sandbox.Record{Rung: sandbox.PIDNamespace} }
func (b *body) Done() <-chan struct{}  { return b.done }
func (b *body) Release()               {}

func (b *body) Stop(ctx context.Context) sandbox.Verdict {
	if b.resist != nil {
		return b.resist(ctx)
	}
	b.once.Do(func() { close(b.done) })
	return sandbox.Verdict{State: sandbox.Confirmed, Proof: sandbox.ProofPIDNamespace}
}

// tended lets the session's tender run, with a process and with whatever answers at its socket.
func (s *session) tended(p process) *tender {
	s.r.t.Helper()
	t := s.r.tenderOf(s.id, s.generation, journal.Generation{LastFrame: int64(s.t.lastOut), LastInput: 1})
	t.proc = p
	s.r.mu.Lock()
	s.r.tenders[s.id] = t
	s.r.mu.Unlock()
	s.r.spawn(func() { t.run() })
	return t
}

// overSoon wants the tender to end.
func (t *tender) overSoon(tt *testing.T) {
	tt.Helper()
	select {
	case <-t.done:
	case <-time.After(patience):
		tt.Fatal("the tender goes on")
	}
}

// answers lets something answer at the session's socket: say gets every host's attach and returns its answer.
func (s *session) answers(say func(bridge.Attach) (kind string, body any)) {
	s.r.t.Helper()
	ln, err := local.Listen(s.r.o.Places.BridgeSocket(s.generation))
	if err != nil {
		s.r.t.Fatal(err)
	}
	var wg sync.WaitGroup
	s.r.t.Cleanup(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { greet(conn, say) })
		}
	})
}

func greet(conn net.Conn, say func(bridge.Attach) (string, any)) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	text, err := r.ReadBytes('\n')
	var f bridge.Frame
	var a bridge.Attach
	if err != nil || json.Unmarshal(text, &f) != nil || json.Unmarshal(f.Body, &a) != nil {
		return
	}
	kind, body := say(a)
	raw, err := json.Marshal(body)
	if err != nil {
		return
	}
	line, err := json.Marshal(bridge.Frame{Type: kind, Body: raw})
	if err == nil {
		conn.Write(append(line, '\n'))
	}
	r.ReadBytes(0) // until the host leaves
}

// I14: a bridge that says nothing is asked whether it lives. One that answers may be silent for ever, one that does not
// is stopped, and one of before there were pings is never asked.
func TestI14_SilentBridgeIsAsked(t *testing.T) {
	r := newRig(t)
	// A beat and an answer that are there together are met in any order, and on a slow machine they often are.
	r.limits.beat, r.limits.beats = time.Millisecond, 15
	t.Run("answers", func(t *testing.T) {
		s := r.idle()
		l := s.serves(bridge.Hello{LastIn: 1, Pings: true})
		for range 20 {
			if f := l.next(); f.Type != "ping" {
				t.Fatalf("%+v", f)
			}
			l.say(bridge.Frame{Type: "pong"}, nil)
		}
		if err := l.over(); errors.Is(err, errMute) || s.t.cause != nil {
			t.Errorf("%v", err)
		}
	})
	t.Run("a frame is an answer", func(t *testing.T) {
		s := r.idle()
		l := s.serves(bridge.Hello{LastIn: 1, Pings: true})
		for n := uint64(2); n < 20; n++ {
			for l.next().Type != "ping" {
			}
			l.say(bridge.Frame{Type: "out", N: n, Kind: bridge.OutEvent}, sessions.Event{Kind: sessions.EventText, Text: "x"})
		}
		if err := l.over(); errors.Is(err, errMute) {
			t.Errorf("%v", err)
		}
	})
	t.Run("does not answer", func(t *testing.T) {
		r.limits.beats = 5
		s := r.idle()
		l := s.serves(bridge.Hello{LastIn: 1, Pings: true})
		for range 5 {
			if f := l.next(); f.Type != "ping" {
				t.Fatalf("%+v", f)
			}
		}
		select {
		case err := <-l.done:
			if !errors.Is(err, errMute) || s.t.cause == nil {
				t.Errorf("%v", err)
			}
		case <-time.After(patience):
			t.Fatal("it is still waited for")
		}
	})
	t.Run("cannot", func(t *testing.T) {
		s := r.idle()
		l := s.serves(bridge.Hello{LastIn: 1})
		s.send("c")
		s.t.kicked <- struct{}{}
		l.given("2 prompt") // and nothing else before it, nor after
		if err := l.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if b, err := l.r.ReadByte(); err == nil {
			t.Errorf("it was given %q", b)
		}
		l.over()
	})
	t.Run("while nothing is read", func(t *testing.T) {
		p := newPulse(&bridge.Link{Hello: bridge.Hello{Pings: true}}, limits{beat: time.Hour, beats: 1})
		defer p.stop()
		p.open = 1
		if err := p.beat(false); err != nil || p.open != 0 {
			t.Errorf("%v, %d", err, p.open)
		}
	})
}

// A bridge that answers is asked ever more rarely, until something happens; one that does not is asked at once again.
func TestPulseSlowsDown(t *testing.T) { synctest.Test(t, pulseSlowsDown) }

func pulseSlowsDown(t *testing.T) {
	ours, theirs := net.Pipe()
	pings := make(chan time.Time)
	go func() {
		defer close(pings)
		defer theirs.Close()
		lines := bufio.NewScanner(theirs)
		lines.Scan()
		io.WriteString(theirs, `{"t":"hello","b":{"pings":true}}`+"\n")
		for lines.Scan() {
			pings <- time.Now()
		}
	}()
	link, err := bridge.NewLink(ours, bridge.Attach{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { link.Close(); <-pings }()
	const second = time.Second
	p := newPulse(link, limits{beat: second, beats: 2})
	defer p.stop()
	last := time.Now()
	next := func(want time.Duration) {
		t.Helper()
		<-p.timer.C
		asked := make(chan error, 1)
		go func() { asked <- p.beat(true) }()
		at := <-pings
		if err := <-asked; err != nil || at.Sub(last) != want {
			t.Errorf("asked after %s, want %s (%v)", at.Sub(last), want, err)
		}
		last = at
	}
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 32, 32} {
		next(wait * second)
		p.answered()
	}
	p.lively() // half a minute of peace is over
	next(second)
	p.answered()
	next(2 * second)
	p.answered()
	next(4 * second) // and this one has no answer
	next(second)
	<-p.timer.C
	if err := p.beat(true); !errors.Is(err, errMute) {
		t.Errorf("two questions without an answer: %v", err)
	}
}

// I10: a bridge that does not greet is stopped. One that cannot be stopped ends its session all the same, as what it is:
// unconfirmed, and nothing is started over it unless its user accepts that.
func TestI10_BridgeThatCannotBeKilled(t *testing.T) {
	for name, resist := range map[string]func(context.Context) sandbox.Verdict{
		"not allowed": func(context.Context) sandbox.Verdict {
			return sandbox.Verdict{State: sandbox.Unconfirmed, Proof: sandbox.ProofNone, Detail: "operation not permitted"}
		},
		"hangs": func(ctx context.Context) sandbox.Verdict {
			<-ctx.Done()
			return sandbox.Verdict{State: sandbox.Unconfirmed, Proof: sandbox.ProofNone, Detail: "it hangs in the kernel"}
		},
	} {
		for _, closing := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t)
				r.limits.mute, r.limits.stop = time.Millisecond, 10*time.Millisecond
				s := r.runs()
				b := newBody()
				b.resist = resist
				want := sessions.SessionFailed
				if closing {
					want = sessions.SessionClosed
					if _, err := r.Close(t.Context(), r.who, sessions.CloseArgs{SessionID: s.id, WaitSeconds: ptr(0)}); err != nil {
						t.Fatal(err)
					}
				}
				s.tended(b).overSoon(t)
				s.wants(want, "c", "unknown")
				res, err := r.Close(t.Context(), r.who, sessions.CloseArgs{SessionID: s.id})
				if err != nil || res.Stopped != string(sandbox.Unconfirmed) || res.Proof == "" {
					t.Errorf("closed: %s (%s), %v", res.Stopped, res.Proof, err)
				}
				_, err = s.resume(func(*sessions.ResumeArgs) {})
				refused(t, err, sessions.CodeStopUnconfirmed, "accept_unconfirmed")
				if _, err := s.resume(func(a *sessions.ResumeArgs) { a.AcceptUnconfirmed = true }); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A host that ends while it stops a bridge says nothing of it: the next one looks.
func TestEndOfTheHostWhileItStopsABridge(t *testing.T) {
	r := newRig(t)
	r.limits.mute, r.limits.stop = time.Millisecond, time.Hour
	s := r.idle()
	b := newBody()
	began := make(chan struct{})
	b.resist = func(ctx context.Context) sandbox.Verdict {
		close(began)
		<-ctx.Done()
		return sandbox.Verdict{State: sandbox.Unconfirmed, Proof: sandbox.ProofNone}
	}
	td := s.tended(b)
	<-began
	r.end()
	td.overSoon(t)
	s.wants(sessions.SessionIdle)
}

// A bridge that lives and speaks another protocol goes on: it is not stopped, what would have to be given to it is
// refused before anything is durable, and its user can close it. So is one that a newer host holds.
func TestBridgeThatDoesNotServeThisHost(t *testing.T) {
	for name, c := range map[string]struct {
		code   sessions.Code
		warned int
	}{
		"another protocol": {sessions.CodeUnsupported, 1},
		"a newer host":     {sessions.CodeFenced, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.limits.mute, r.limits.apart = time.Millisecond, time.Millisecond
			s := r.runs()
			q := s.asks("h", once...)
			tries := make(chan struct{}, 100)
			s.answers(func(bridge.Attach) (string, any) {
				select {
				case tries <- struct{}{}:
				default:
				}
				return "refuse", sessions.Errorf(c.code, "this bridge speaks bridge protocol 2")
			})
			b := newBody()
			td := s.tended(b)
			for range 5 { // more than a bridge that says nothing may leave without an answer
				select {
				case <-tries:
				case <-time.After(patience):
					t.Fatal("it is not tried again")
				}
			}
			select {
			case <-b.done:
				t.Fatal("it was stopped")
			default:
			}
			s.wants(sessions.SessionRunning, "c", "accepted")
			before := s.given()
			_, err := s.trySend("d", busy("queue"))
			refused(t, err, c.code, "bridge protocol 2")
			r.tx(noCommand(s.id, "d", t))
			_, err = s.answer(q, approve, func() {})
			refused(t, err, c.code)
			_, err = r.Cancel(t.Context(), r.who, sessions.CancelArgs{SessionID: s.id})
			refused(t, err, c.code)
			if s.given() != before || s.request(q).State != sessions.RequestPending {
				t.Errorf("given: %s", s.given())
			}
			if n := len(s.events(sessions.EventWarning)); n != c.warned {
				t.Errorf("warned %d times", n)
			}
			res, err := r.Close(t.Context(), r.who, sessions.CloseArgs{SessionID: s.id})
			if err != nil || res.Stopped != string(sandbox.Confirmed) || res.Session.State != sessions.SessionClosed {
				t.Errorf("%+v, %v", res, err)
			}
			td.overSoon(t)
			s.wants(sessions.SessionClosed, "c", "unknown")
			if gaps := s.events(sessions.EventGap); len(gaps) != 1 || !strings.Contains(gaps[0].Gap.Reason, "without handing everything over") {
				t.Errorf("gaps: %+v", gaps)
			}
		})
	}
}

// What stops host and bridge alike for a while is nobody's silence.
func TestSilenceIsCountedInSteps(t *testing.T) {
	var s silence
	s.after(time.Hour)
	if time.Duration(s) >= usually.mute {
		t.Errorf("one try is %v of silence", time.Duration(s))
	}
	s.after(time.Hour)
	if time.Duration(s) < usually.mute {
		t.Errorf("two tries are %v of silence", time.Duration(s))
	}
}
