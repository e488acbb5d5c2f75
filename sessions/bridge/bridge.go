package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// Adapter makes what a bridge needs of a protocol: an agent with a session, and answers of one without.
type Adapter struct {
	New     func(c *wire.Conn, sink sessions.Sink, s Spec, log *zerolog.Logger) sessions.Agent
	Probe   func(ctx context.Context, c *wire.Conn, s Spec, log *zerolog.Logger) (sessions.Probe, error)
	Foreign func(ctx context.Context, c *wire.Conn, s Spec, ask sessions.ForeignAsk, log *zerolog.Logger) (sessions.ForeignSaid, error)
}

// Options is what a bridge is made of. Adapters is by protocol name.
type Options struct {
	Version    string
	Adapters   map[string]Adapter
	Listener   net.Listener
	Spill      *os.File // nil: unacknowledged frames of a bridge that ends without a host are lost
	Inside     sandbox.Inside
	Reaper     *sandbox.Reaper
	Log        zerolog.Logger
	Told       context.Context // ends when somebody told the process to end (SIGTERM); nil: nobody does
	SpoolBytes int             // 0: 8 MiB

	maxFrame int   // 0: MaxFrame
	veil     *veil // nil: a new one
}

// firstHost is how long a bridge waits for its first host, and lastAck how long it lets the host take its last frames.
const (
	firstHost   = 60 * time.Second
	lastAck     = 60 * time.Second
	lastAckGone = 2 * time.Second
	orphanGrace = 15 * time.Minute
	restAfter   = 5 * time.Second // without a word of the agent, until memory is given back
)

var (
	errClosing = errors.New("the session is being closed")
	errOrphan  = errors.New("no host came back")
	errTold    = errors.New("the session's bridge was told to end (SIGTERM), and had no host")
)

// Bridge owns one agent. Its worker goroutine takes the inputs in order; the agent's events come through the recorder.
type Bridge struct {
	o        Options
	spool    *spool
	quiet    *time.Timer // fires once nothing was said for restAfter
	rec      *recorder
	veil     *veil
	wg       sync.WaitGroup
	ended    chan struct{} // closed when the bridge is about to return
	hurried  atomic.Bool   // the host cannot acknowledge what is left
	haste    atomic.Bool   // whoever told it to end does not wait for long
	stopping struct {      // ends what the worker waits for
		ctx    context.Context
		cancel context.CancelCauseFunc
	}

	mu         sync.Mutex
	changed    *sync.Cond
	generation string
	epoch      int64
	conn       *hostConn
	lastIn     uint64
	inbox      []Frame
	taken      uint64    // the last input that the worker began
	working    bool      // it is at it
	sealed     bool      // it begins no other
	closed     bool      // the bridge is over
	toldAt     time.Time // zero: nobody told it to end
	orphan     orphanTimer
	grace      time.Duration
	turns      map[string]*turn
	agent      *agentProcess
	files      *sessions.FilePolicy // in force, nil for none
	hidden     []string             // of the user's own list
	stop       sync.Once
	planting   sync.Once
	violation  *sessions.Error // of the policy, by the agent; nil once it is told
}

// orphanTimer fires when no host came back in time.
type orphanTimer struct {
	timer *time.Timer
}

func (t *orphanTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// Run serves until the agent and the bridge's work are over.
func Run(o Options) error {
	if o.SpoolBytes == 0 {
		o.SpoolBytes = 8 << 20
	}
	if o.maxFrame == 0 {
		o.maxFrame = MaxFrame
	}
	b := &Bridge{o: o, spool: newSpool(o.SpoolBytes), ended: make(chan struct{}), turns: map[string]*turn{}, grace: firstHost}
	b.changed = sync.NewCond(&b.mu)
	b.quiet = time.AfterFunc(restAfter, rest)
	defer b.quiet.Stop()
	b.stopping.ctx, b.stopping.cancel = context.WithCancelCause(context.Background())
	if b.veil = o.veil; b.veil == nil {
		b.veil = newVeil()
	}
	b.rec = newRecorder(func(e sessions.Event) { b.veil.event(e, b.event) })
	b.mu.Lock()
	b.armOrphanLocked()
	b.mu.Unlock()
	b.wg.Go(b.accept)
	b.wg.Go(b.send)
	b.wg.Go(b.work)
	if o.Told != nil {
		b.wg.Go(b.heed)
	}
	<-b.ended
	b.o.Listener.Close()
	b.mu.Lock()
	b.sealed, b.closed = true, true
	b.orphan.stop()
	b.changed.Broadcast()
	b.mu.Unlock()
	b.spool.close()
	b.wg.Wait()
	return nil
}

func (b *Bridge) event(e sessions.Event) { b.put(OutEvent, e) }

// put numbers and keeps one out frame; it blocks while the spool is full.
func (b *Bridge) put(kind Kind, body any) {
	var failed error
	b.spool.put(func(n uint64) ([]byte, bool) {
		line, err := frameOf(typeOut, n, kind, body)
		if err == nil {
			line = b.veil.frame(line, kind)
		}
		if err == nil && len(line) > b.o.maxFrame { // no host could ever read it, nor anything behind it
			err = fmt.Errorf("%w: %d bytes of %s, the limit is %d", errFrameTooLong, len(line), kind, b.o.maxFrame)
		}
		if err != nil { // something an agent sent cannot be told: say so in its place
			failed = err
			line, _ = frameOf(typeOut, n, OutEvent, sessions.Event{Kind: sessions.EventError, At: time.Now().UTC(), Code: sessions.CodeInternal, Text: err.Error()})
			line = b.veil.frame(line, OutEvent)
		}
		return line, failed == nil && quiet(kind, body)
	})
	b.quiet.Reset(restAfter)
	if failed != nil {
		b.o.Log.Error().Err(failed).Str("kind", string(kind)).Msg("frame replaced")
	}
}

// armOrphanLocked starts the grace, when there is no host and no running turn.
func (b *Bridge) armOrphanLocked() {
	b.orphan.stop()
	if b.conn != nil || len(b.turns) > 0 || b.closed {
		return
	}
	b.orphan.timer = time.AfterFunc(b.grace, func() {
		b.mu.Lock()
		alone := b.conn == nil && len(b.turns) == 0
		b.mu.Unlock()
		if alone {
			b.shutdown(errOrphan, false)
		}
	})
}

// work takes the inputs in their order, until the bridge ends.
func (b *Bridge) work() {
	for {
		b.mu.Lock()
		b.working = false
		b.changed.Broadcast()
		for len(b.inbox) == 0 && !b.sealed {
			b.changed.Wait()
		}
		if b.sealed {
			b.mu.Unlock()
			return
		}
		f := b.inbox[0]
		b.inbox = b.inbox[1:]
		b.taken, b.working = f.N, true
		b.mu.Unlock()
		b.take(f)
	}
}

// beginNothing lets the worker begin no further input.
func (b *Bridge) beginNothing() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = true
	b.changed.Broadcast()
}

// seal lets the worker begin no further input, and returns the last one that it did begin once what became of that is
// put down. Everything after it was not and will not be given to the agent.
func (b *Bridge) seal() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = true
	b.changed.Broadcast()
	for b.working {
		b.changed.Wait()
	}
	return b.taken
}

func (b *Bridge) take(f Frame) {
	switch f.Kind {
	case InOpen, InProbe:
		var s Spec
		if err := json.Unmarshal(f.Body, &s); err != nil {
			b.fail(sessions.Errorf(sessions.CodeInternal, "the launch could not be read: %w", err).
				Do("create or resume the session again, with one version of baton"))
			return
		}
		if f.Kind == InProbe {
			b.probe(s)
		} else {
			b.open(s)
		}
	case InForeign:
		var in ForeignInput
		if err := json.Unmarshal(f.Body, &in); err != nil {
			b.fail(sessions.Errorf(sessions.CodeInternal, "the question could not be read: %w", err).Do("ask again, with one version of baton"))
			return
		}
		b.foreign(in)
	case InPrompt:
		var in PromptInput
		b.input(f, &in, func() (string, error) { return in.CommandID, b.prompt(in) })
	case InAnswer:
		var in sessions.Answer
		b.input(f, &in, func() (string, error) { return in.Handle, b.answer(in) })
	case InCancel:
		var in CancelInput
		b.input(f, &in, func() (string, error) { return in.Command, b.cancel(in) })
	case InClose:
		b.wg.Go(func() { b.shutdown(errClosing, true) })
	case InVoid:
		b.put(OutInput, InputResult{N: f.N, Kind: f.Kind, State: InputRefused})
	default:
		b.put(OutInput, InputResult{N: f.N, Kind: f.Kind, State: InputRefused,
			Error: sessions.Errorf(sessions.CodeUnsupported, "this bridge (%s) does not know input %q", b.o.Version, f.Kind).
				Do("close the session and resume it: it then gets a bridge of the host's version")})
	}
}

// input decodes and does one input, and reports what became of it.
func (b *Bridge) input(f Frame, into any, do func() (ref string, err error)) {
	failpoint.Hit("bridge.input.begin")
	res := InputResult{N: f.N, Kind: f.Kind, State: InputWritten}
	err := own.Unmarshal(f.Body, into)
	if err != nil {
		err = sessions.Errorf(sessions.CodeInternal, "input %d could not be read: %w", f.N, errors.Join(err, sessions.ErrNotWritten)).
			Do("close the session and resume it: it then gets a bridge of the host's version")
	} else {
		res.Ref, err = do()
	}
	if err != nil {
		res.Error, res.State = sessions.AsError(err).Bounded(b.veil.redact), InputBroken
		if errors.Is(err, sessions.ErrNotWritten) {
			res.State = InputRefused
		}
	}
	failpoint.Hit("bridge.input.done")
	b.put(OutInput, res)
}

var errNoAgent = sessions.Errorf(sessions.CodeNotRunning, "the agent of this generation is not running: %w", sessions.ErrNotWritten).
	Do("resume the session, then send again")

func (b *Bridge) answer(a sessions.Answer) error {
	p := b.running()
	if p == nil {
		return errNoAgent
	}
	b.rec.Flush()
	b.veil.answered(a)
	failpoint.Hit("bridge.answer.before")
	defer failpoint.Hit("bridge.answer.after")
	return p.agent.Answer(b.stopping.ctx, a)
}

// running returns the opened agent, nil before and after.
func (b *Bridge) running() *agentProcess {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.agent == nil || !b.agent.opened || b.closed {
		return nil
	}
	return b.agent
}

// fail reports that nothing could be opened, and ends the bridge.
func (b *Bridge) fail(e *sessions.Error) {
	b.rec.Flush()
	e = e.Bounded(b.veil.redact)
	b.put(OutFailed, Failure{Error: e})
	b.wg.Go(func() { b.shutdown(fmt.Errorf("open failed: %w", e), false) })
}
