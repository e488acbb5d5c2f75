package bridge

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

func TestAgentExitsWhileACommandRuns(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		code   int
		signal string
		reason string
	}{
		"by itself": {"read x; echo some words >&2; echo last words >&2; exit 3", 3, "", "the agent ended: exit status 3"},
		"killed":    {"read x; echo last words >&2; kill -9 $$", -1, "SIGKILL", "the agent ended: killed by SIGKILL"},
		// Somebody who holds the agent's streams must not hold up the news of its end.
		"leaves a child":    {"read x; echo last words >&2; /bin/sleep 600 & exit 3", 3, "", "the agent ended: exit status 3"},
		"closes its output": {"read x; echo last words >&2; exec >&-; exec /bin/sleep 600", -1, "SIGTERM", "the link to the agent ended"},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, func(f *fake) {
				f.prompt = func(ctx context.Context, p sessions.Prompt) error {
					f.say("on it")
					return f.conn.Notify(ctx, "go", nil)
				}
			})
			p := w.opened(shell(c.script), func(s *Spec) { s.StopSeconds = 1 })
			p.prompt(2, "c")
			p.event(sessions.EventText)
			x, s := p.ended()
			if x == nil || x.Code != c.code || x.Signal != c.signal || x.Reason != c.reason || x.Asked || !slices.Equal(x.Running, []string{"c"}) {
				t.Errorf("exited %+v", x)
			}
			if !strings.Contains(x.Stderr, "last words") {
				t.Errorf("its last words are %q", x.Stderr)
			}
			if s.Taken != 2 || s.Why != c.reason {
				t.Errorf("stopped %+v", s)
			}
			w.gone()
		})
	}
}

// That an agent has ended may be known before what it said last was read.
func TestLastWordsAreWaitedFor(t *testing.T) {
	for name, held := range map[string]bool{"read a moment later": false, "somebody else holds the pipe": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &agentProcess{stderr: &tail{max: maxSaid, set: newVeil().set.Load}, spoke: make(chan struct{})}
				go func() {
					time.Sleep(time.Second / 2)
					p.stderr.Write([]byte("last words"))
					if !held {
						close(p.spoke)
					}
				}()
				if got := p.lastWords(); got != "last words" {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

// What waited behind the end was not given to the agent, and that is told.
func TestWhatWasTakenIsTold(t *testing.T) {
	w := begin(t, func(f *fake) {
		f.prompt = func(ctx context.Context, p sessions.Prompt) error {
			if err := f.conn.Notify(ctx, "go", nil); err != nil {
				return err
			}
			<-ctx.Done()
			return sessions.ErrBroken
		}
	})
	p := w.opened(shell("read x"))
	p.prompt(2, "a")
	p.prompt(3, "b")
	p.prompt(4, "c")
	var results []uint64
	for {
		f := p.next()
		if f.Kind == OutInput {
			results = append(results, body[InputResult](t, f).N)
		}
		if f.Kind == OutStopped {
			if s := body[Stopped](t, f); s.Taken != 2 || !slices.Equal(results, []uint64{2}) {
				t.Errorf("taken %d, reports on %d", s.Taken, results)
			}
			p.ack()
			break
		}
	}
	if got := w.agent().history(); !slices.Equal(got, []string{"open s", "prompt a"}) {
		t.Errorf("the agent got %q", got)
	}
}

func TestOpenFails(t *testing.T) {
	wait := func(ctx context.Context, _ sessions.OpenParams) (sessions.Opened, error) {
		<-ctx.Done()
		return sessions.Opened{}, sessions.Errorf(sessions.CodeTimeout, "no answer to initialize: %w", context.Cause(ctx))
	}
	saying := func(err error) func(f *fake) {
		return func(f *fake) {
			f.open = func(context.Context, sessions.OpenParams) (sessions.Opened, error) { return sessions.Opened{}, err }
		}
	}
	gone := func(f *fake) {
		f.open = func(ctx context.Context, _ sessions.OpenParams) (sessions.Opened, error) {
			<-f.done
			return sessions.Opened{}, sessions.Errorf(sessions.CodeAgentProtocol, "the link ended")
		}
	}
	deaf := func(f *fake) {
		f.open = func(ctx context.Context, _ sessions.OpenParams) (sessions.Opened, error) {
			for {
				if err := f.conn.Notify(ctx, "initialize", nil); err != nil {
					return sessions.Opened{}, sessions.Errorf(sessions.CodeAgentExited, "initialize could not be sent: %w", err)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		script func(*fake)
		change func(*Spec)
		then   func(*peer)
		code   sessions.Code
		says   string
		none   bool // no agent was started
	}{
		"no such protocol":   {change: func(s *Spec) { s.Protocol = "telepathy" }, code: sessions.CodeUnsupported, says: "telepathy", none: true},
		"no such program":    {change: func(s *Spec) { s.Argv = []string{"/no/such/agent"} }, code: sessions.CodeRunnerMissing, says: "/no/such/agent", none: true},
		"the adapter's word": {script: saying(sessions.Errorf(sessions.CodeModelUnavailable, "no model x")), code: sessions.CodeModelUnavailable, says: "no model x"},
		"no table's word":    {script: saying(errors.New("odd")), code: sessions.CodeInternal, says: "odd"},
		"exits":              {script: gone, change: shell("echo please log in >&2; exit 4"), code: sessions.CodeAgentExited, says: "exit status 4; it said: please log in"},
		"reads nothing, and exits": {script: deaf, change: shell("exec <&-; sleep 0.2; echo please log in >&2; exit 4"), code: sessions.CodeAgentExited,
			says: "exit status 4; it said: please log in"},
		"does not answer": {script: func(f *fake) { f.open = wait }, change: func(s *Spec) { s.HandshakeSeconds = 1 }, code: sessions.CodeTimeout, says: "did not finish its handshake within 1s"},
		"closed meanwhile": {script: func(f *fake) { f.open = wait }, then: func(p *peer) { p.give(2, InClose, CloseInput{}) },
			code: sessions.CodeFenced, says: "closed while it was starting"},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, c.script)
			p := w.attach(1, 0)
			change := c.change
			if change == nil {
				change = func(*Spec) {}
			}
			p.give(1, InOpen, spec(change))
			if c.then != nil {
				w.agent()
				c.then(p)
			}
			f := p.next()
			if f.Kind != OutFailed {
				t.Fatalf("%s: %s", f.Kind, f.Body)
			}
			if e := body[Failure](t, f).Error; e.Code != c.code || !strings.Contains(e.Message, c.says) {
				t.Errorf("%+v", e)
			}
			if x, s := p.ended(); (x == nil) != c.none || s.Taken == 0 {
				t.Errorf("exited %+v, stopped %+v", x, s)
			}
			w.gone()
		})
	}
	t.Run("unreadable", func(t *testing.T) {
		w := begin(t, nil)
		p := w.attach(1, 0)
		p.give(1, InOpen, "no object")
		if f := p.next(); f.Kind != OutFailed || body[Failure](t, f).Error.Code != sessions.CodeInternal {
			t.Errorf("%s: %s", f.Kind, f.Body)
		}
		p.ended()
	})
}

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		change func(*Spec)
		code   sessions.Code
	}{
		"answered":        {change: func(*Spec) {}},
		"refused":         {err: sessions.Errorf(sessions.CodeNotLoggedIn, "log in"), change: func(*Spec) {}, code: sessions.CodeNotLoggedIn},
		"no such program": {change: func(s *Spec) { s.Argv = []string{"/no/such"} }, code: sessions.CodeRunnerMissing},
		"no protocol":     {change: func(s *Spec) { s.Protocol = "x" }, code: sessions.CodeUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, func(f *fake) {
				f.probe = func(context.Context) (sessions.Probe, error) { return sessions.Probe{Version: "7"}, c.err }
			})
			p := w.attach(1, 0)
			p.give(1, InProbe, spec(c.change))
			f := p.next()
			switch {
			case c.code == "" && (f.Kind != OutProbed || body[sessions.Probe](t, f).Version != "7"):
				t.Errorf("%s: %s", f.Kind, f.Body)
			case c.code != "" && (f.Kind != OutFailed || body[Failure](t, f).Error.Code != c.code):
				t.Errorf("%s: %s", f.Kind, f.Body)
			}
			p.ended()
			w.gone()
		})
	}
}

func TestCloseIdle(t *testing.T) {
	w := begin(t, nil)
	p := w.opened()
	p.give(2, InClose, CloseInput{})
	x, s := p.ended()
	if x == nil || x.Code != 0 || !x.Asked || len(x.Running) > 0 || s.Taken != 2 || s.Why != errClosing.Error() {
		t.Errorf("exited %+v, stopped %+v", x, s)
	}
	w.gone()
	if _, err := net.Dial("unix", w.socket); err == nil {
		t.Error("an ended bridge listens")
	}
}

// A close gives a running turn the chance to end as cancelled; what the agent says of it comes before its end.
func TestCloseCancelsTheRunningTurn(t *testing.T) {
	w := begin(t, nil, rung(sandbox.PIDNamespace))
	p := w.opened()
	p.prompt(2, "c")
	p.result(2)
	p.give(3, InClose, CloseInput{})
	if s := p.event(sessions.EventCommandSettled).Settled; s.Command != "c" || s.State != sessions.CommandInterrupted {
		t.Errorf("%+v", s)
	}
	if x, _ := p.ended(); len(x.Running) > 0 {
		t.Errorf("%+v", x)
	}
}

// A host whose journal takes nothing ends the bridge without acknowledging, and finds the last frames in the spill file.
func TestEndOfAHostThatCannotAcknowledge(t *testing.T) {
	w := begin(t, nil, rung(sandbox.PIDNamespace))
	p := w.opened()
	p.prompt(2, "c")
	p.result(2)
	if err := p.End(); err != nil {
		t.Fatal(err)
	}
	if s := p.event(sessions.EventCommandSettled).Settled; s.State != sessions.CommandInterrupted {
		t.Errorf("%+v", s)
	}
	began := time.Now()
	w.gone()
	if took := time.Since(began); took > lastAck/2 {
		t.Errorf("it waited %s for acknowledgements", took)
	}
	var kinds []Kind
	if err := ReadSpill(w.spill, func(f Frame) error { kinds = append(kinds, f.Kind); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []Kind{OutInput, OutEvent, OutExited, OutStopped}; !slices.Equal(kinds, want) {
		t.Errorf("spilled %q, want %q", kinds, want)
	}
}

// An agent that ignores the end of its input and SIGTERM is killed, and what it started with it.
func TestCloseOfAStubbornAgent(t *testing.T) {
	w := begin(t, nil)
	p := w.opened(shell(`trap "" TERM; /bin/sleep 605 & while :; do /bin/sleep 600; done`), func(s *Spec) { s.StopSeconds = 1 })
	awaitProcess(t, "605") // from then on it ignores the signal
	p.give(2, InClose, CloseInput{})
	if x, s := p.ended(); x.Signal != "SIGKILL" || !x.Asked || s.Empty { // only process 1 of a namespace can say empty
		t.Errorf("exited %+v, stopped %+v", x, s)
	}
	w.gone()
	if left := reaper.Born(time.Time{}); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// A prompt that its agent does not take keeps nobody from ending the session, and what became of it is told as it is.
func TestCloseBehindAnInputThatHangs(t *testing.T) {
	w := begin(t, func(f *fake) {
		f.prompt = func(context.Context, sessions.Prompt) error {
			<-f.done // as a write does, whoever gives it up
			return sessions.ErrBroken
		}
		f.cancel = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return sessions.ErrNotWritten
		}
	})
	p := w.opened(func(s *Spec) { s.StopSeconds = 1 })
	p.prompt(2, "a")
	p.prompt(3, "b")
	p.give(4, InClose, CloseInput{})
	if r := p.result(2); r.State != InputBroken {
		t.Errorf("%+v", r)
	}
	x, s := p.ended()
	if len(x.Running) != 0 || x.Taken != 2 || s.Taken != 2 {
		t.Errorf("exited %+v, stopped %+v", x, s)
	}
	w.gone()
}

// Without a host a session ends after its grace, not while a turn runs, and what nobody took lies in the spill file.
func TestOrphanGraceAndSpill(t *testing.T) {
	w := begin(t, nil)
	p := w.opened(func(s *Spec) { s.OrphanSeconds = 1 })
	f := w.agent()
	p.prompt(2, "c")
	p.result(2)
	p.ack()
	acked := p.last
	f.say("one")
	p.event(sessions.EventText) // read, not acknowledged
	p.Close()
	f.say("two")
	select {
	case <-w.ended:
		t.Fatal("it ended in the middle of a turn")
	case <-time.After(1500 * time.Millisecond):
	}
	p = w.attach(1, acked) // a host that comes back stops the grace
	p.event(sessions.EventText)
	p.Close()
	settled := time.Now()
	f.settle("c", sessions.CommandCompleted)
	w.gone()
	if grace := time.Since(settled); grace < time.Second {
		t.Errorf("the grace was %s", grace)
	}
	var kinds []string
	if err := ReadSpill(w.spill, func(f Frame) error {
		if f.N != acked+uint64(len(kinds))+1 {
			t.Errorf("frame %d after %d of them", f.N, len(kinds))
		}
		kind := string(f.Kind)
		if f.Kind == OutEvent {
			e := body[sessions.Event](t, f)
			kind = string(e.Kind) + e.Text
		}
		if f.Kind == OutExited {
			if x := body[Exit](t, f); !x.Asked || x.Reason != errOrphan.Error() {
				t.Errorf("%+v", x)
			}
		}
		kinds = append(kinds, kind)
		return nil
	}); err != nil {
		t.Error(err)
	}
	if want := []string{"textone", "texttwo", "command.settled", "exited", "stopped"}; !slices.Equal(kinds, want) {
		t.Errorf("spilled %q, want %q", kinds, want)
	}
}

// The grace that ends a handshake is told as that, not as the handshake's own limit.
func TestOrphanGraceDuringTheHandshake(t *testing.T) {
	w := begin(t, func(f *fake) {
		f.open = func(ctx context.Context, _ sessions.OpenParams) (sessions.Opened, error) {
			<-ctx.Done()
			return sessions.Opened{}, context.Cause(ctx)
		}
	})
	p := w.attach(1, 0)
	p.give(1, InOpen, spec(func(s *Spec) { s.OrphanSeconds = 1 }))
	w.agent()
	p.Close()
	w.gone()
	var failure *sessions.Error
	if err := ReadSpill(w.spill, func(f Frame) error {
		if f.Kind == OutFailed {
			failure = body[Failure](t, f).Error
		}
		return nil
	}); err != nil || failure == nil || failure.Code != sessions.CodeIncomplete || !strings.Contains(failure.Message, errOrphan.Error()) {
		t.Errorf("%+v, %v", failure, err)
	}
}

// A host that is attached and takes nothing more does not lose the last frames.
func TestSpillIsNotWrittenForAHostThatTakesAll(t *testing.T) {
	w := begin(t, nil)
	p := w.opened()
	p.give(2, InClose, CloseInput{})
	p.ended()
	w.gone()
	if fi, err := os.Stat(w.spill); err != nil || fi.Size() != 0 {
		t.Errorf("spill file %v, %v", fi, err)
	}
}

// An end that comes while the agent is being started waits until it is known, or it would outlive the bridge.
func TestEndWhileTheAgentIsBeingStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Bridge{working: true}
		b.changed = sync.NewCond(&b.mu)
		got := make(chan *agentProcess, 1)
		go func() { got <- b.started() }()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("it did not wait")
		default:
		}
		p := &agentProcess{}
		b.own(p)
		if <-got != p {
			t.Error("another agent")
		}
		b = &Bridge{working: true}
		b.changed = sync.NewCond(&b.mu)
		go func() { got <- b.started() }()
		synctest.Wait()
		b.mu.Lock()
		b.working = false // nothing could be started
		b.changed.Broadcast()
		b.mu.Unlock()
		if <-got != nil {
			t.Error("an agent from nowhere")
		}
	})
}

// panickingBridge is a bridge process whose adapter panics at its second prompt. Its socket is its standard input.
func panickingBridge() error {
	ln, err := net.FileListener(os.Stdin)
	if err != nil {
		return err
	}
	w := &world{agents: make(chan *fake, 1)}
	adapter := w.adapter(func(f *fake) {
		f.prompt = func(_ context.Context, p sessions.Prompt) error {
			if p.CommandID == "c" {
				f.say("before")
				return nil
			}
			var nothing *sessions.Prompt
			f.say(nothing.Text)
			return nil
		}
	})
	r := sandbox.NewReaper()
	defer r.Close()
	return Run(Options{Version: "test", Adapters: map[string]Adapter{"fake": adapter}, Listener: ln, Reaper: r, Log: zerolog.Nop()})
}

// A panic of an adapter ends the bridge's process, and in a pid namespace all else with it. What the host sees is the end
// of the connection after everything that was said before, and a process that is gone: a failed session, never a lost one.
func TestPanicEndsTheBridge(t *testing.T) {
	w := &world{t: t}
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	w.socket = dir + "/s"
	ln, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	lf, err := ln.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer lf.Close()
	log, err := os.Create(dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child, err := reaper.Spawn(sandbox.Spawn{Argv: []string{self}, Dir: "/", Env: append(os.Environ(), roleEnv+"=panic"), Stdin: lf, Stderr: log})
	if err != nil {
		t.Fatal(err)
	}
	p := w.opened()
	p.prompt(2, "c")
	if e := p.event(sessions.EventText); e.Text != "before" {
		t.Errorf("%+v", e)
	}
	p.prompt(3, "d")
	p.closed()
	<-child.Done()
	if code, signal := child.Status(); code != 2 || signal != "" {
		t.Errorf("exit status %d, signal %q", code, signal)
	}
	said, err := os.ReadFile(dir + "/log")
	if err != nil || !strings.Contains(string(said), "nil pointer") {
		t.Errorf("its log says %q, %v", said, err)
	}
	for _, proc := range reaper.Born(time.Time{}) { // here, without a namespace, its agent sees the end of its input
		if err := reaper.Kill(t.Context(), proc); err != nil {
			t.Error(err)
		}
	}
}
