package appserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// Options of an Agent. The zero value is usable.
type Options struct {
	// RequestTimeout is how long Codex may take to answer one request of ours. Turns have no limit. 0: 30 s.
	RequestTimeout time.Duration
	// CancelGrace is how long a cancelled turn, with its sub-agents, may take to end. 0: 10 s.
	CancelGrace time.Duration
	// ReconcileAfter is how long to wait for the end of a turn that Codex says is not active, before its record is
	// read instead. 0: 2 s.
	ReconcileAfter time.Duration
	// CloseGrace is how long Close waits for the thread to be let go before it closes Codex's input. 0: 1 s.
	CloseGrace time.Duration
	// Version is Baton's own, as Codex shows it in its logs. "": "dev".
	Version string
	// Logger gets what is no event: ignored and unknown notifications. nil: nothing is logged.
	Logger *zerolog.Logger
	// Redact takes secrets out of what is cut before it is told; what is told whole passes as it is. nil: there are none.
	Redact sessions.Redactor
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.RequestTimeout, 30 * time.Second}, {&o.CancelGrace, 10 * time.Second},
		{&o.ReconcileAfter, 2 * time.Second}, {&o.CloseGrace, time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Logger == nil {
		nop := zerolog.Nop()
		o.Logger = &nop
	}
	return o
}

// Agent is one Codex process with one thread of ours. Make it with New.
//
// One goroutine, the loop, owns all state below "loop-owned" and is the only one that sends, so that what is decided
// about a message and what is sent because of it cannot come apart. Public methods give it functions to run.
type Agent struct {
	// Fixed by New.
	conn  *wire.Conn
	sink  sessions.Sink
	o     Options
	notes map[string]note
	ops   chan func()
	life  context.Context // ends with the loop
	end   context.CancelCauseFunc
	done  chan struct{}

	helpers sync.WaitGroup // goroutines of spawn

	mu       sync.Mutex
	err      error
	standing [][]string         // command lines that Codex keeps running for itself
	running  map[itemKey]string // scripts of the commands that run

	// Loop-owned.
	calls    map[*wire.Call]*call
	alarms   alarms
	root     string // our thread, "" before it is known
	opened   bool
	gone     *sessions.Error // why the thread cannot be used any more
	models   catalog
	version  version
	sel      selection
	turn     *turn // ours: being prepared, running, or being cleaned up after
	foreign  *turn // one that Codex began by itself
	past     history
	subs     map[string]*subAgent
	items    map[itemKey]*item
	deltas   deltaIDs
	told     map[itemKey]string // turns of tools whose end was told, while they run
	requests map[string]*request
	asked    int // requests so far, for their handles
	usage    usageMeter
	budget   budget
	goal     string // status of the thread's goal, "" without one
	warned   map[string]bool
}

var _ sessions.Agent = (*Agent)(nil)

// New makes an Agent on a link, which it owns from then on: it is closed when the Agent is done.
func New(conn *wire.Conn, sink sessions.Sink, o Options) *Agent {
	a := &Agent{
		conn: conn, sink: sink, o: o.withDefaults(), notes: notes(),
		ops: make(chan func()), done: make(chan struct{}),
		calls: map[*wire.Call]*call{}, subs: map[string]*subAgent{}, items: map[itemKey]*item{}, told: map[itemKey]string{}, running: map[itemKey]string{},
		budget:   budget{threads: map[string]int64{}},
		requests: map[string]*request{}, warned: map[string]bool{},
	}
	a.life, a.end = context.WithCancelCause(context.Background()) // outlives every caller's context
	go a.loop()
	return a
}

func (a *Agent) loop() {
	inbox := a.conn.Inbox()
	for open := true; open; {
		select {
		case m, ok := <-inbox:
			if open = ok; ok {
				a.receive(m)
				open = a.receiveMore(inbox)
			}
		case fn := <-a.ops:
			fn()
		case <-a.alarms.next():
			a.alarms.fire(time.Now())
		}
	}
	a.finish()
}

// receiveMore takes what came with a message, up to so many that nobody who wants the loop has to wait for long. It reports
// false at the end of the inbox.
func (a *Agent) receiveMore(inbox <-chan wire.Message) bool {
	for range 16 {
		select {
		case m, ok := <-inbox:
			if !ok {
				return false
			}
			a.receive(m)
		default:
			return true
		}
	}
	return true
}

// finish is the end of the loop, after the last event.
func (a *Agent) finish() {
	a.alarms.stop()
	if a.gone != nil {
		a.abandonText(a.root) // what was being said as the session was closed, in a turn that nobody could cancel too
	}
	a.mu.Lock()
	if a.err == nil {
		if a.err = a.conn.Err(); a.err == nil {
			a.err = io.EOF
		}
	}
	lost := a.lost(a.err)
	a.mu.Unlock()

	a.end(lost)
	for id, c := range a.calls {
		delete(a.calls, id)
		c.then(nil, lost)
	}
	if t := a.turn; t != nil {
		a.drop(t, notWritten(lost))
	}
	a.conn.Close()
	a.helpers.Wait()
	close(a.done)
}

// lost is what a caller is told when the link has ended.
func (a *Agent) lost(why error) *sessions.Error {
	var e *sessions.Error
	if errors.As(why, &e) {
		return e
	}
	if errors.Is(why, io.EOF) {
		return sessions.Errorf(sessions.CodeAgentExited, "Codex ended").Do("resume the session")
	}
	code, action := wire.Lost(why)
	return sessions.Errorf(code, "the link to Codex ended: %w", why).Do("%s", action)
}

// fail ends the link for a reason of ours. The bridge then stops the process.
func (a *Agent) fail(why *sessions.Error) {
	a.mu.Lock()
	if a.err == nil {
		a.err = why
	}
	a.mu.Unlock()
	a.emit(sessions.Event{Kind: sessions.EventError, Code: why.Code, Text: why.Error()})
	a.conn.Close()
}

// receive takes one message of Codex.
func (a *Agent) receive(m wire.Message) {
	switch m.Kind {
	case wire.Response:
		a.answered(m)
	case wire.Request:
		a.requested(m)
	case wire.Notification:
		a.notified(m)
	}
}

// do runs fn in the loop and waits for it. It fails only when fn was not and will not be run.
func (a *Agent) do(ctx context.Context, fn func()) error {
	ran := make(chan struct{})
	select {
	case a.ops <- func() { defer close(ran); fn() }:
		<-ran
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-a.life.Done():
		return context.Cause(a.life)
	}
}

// spawn runs fn beside the loop, for work that waits for several answers. Done waits for it.
func (a *Agent) spawn(fn func(ctx context.Context)) {
	a.helpers.Add(1)
	go func() {
		defer a.helpers.Done()
		fn(a.life)
	}()
}

// Done is closed after the link ended and the last event was emitted.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Err tells why the link ended, io.EOF when Codex just ended; nil while it lives.
func (a *Agent) Err() error {
	select {
	case <-a.done:
		return a.err
	default:
		return nil
	}
}

func (a *Agent) emit(e sessions.Event) { a.sink.Emit(e) }

func (a *Agent) warn(e sessions.Event, format string, args ...any) {
	e.Kind, e.Text = sessions.EventWarning, fmt.Sprintf(format, args...)
	a.emit(e)
}

func notWritten(why error) error { return fmt.Errorf("%w: %w", sessions.ErrNotWritten, why) }

// decode reads the agent's JSON, which may leave members out and carry more than we know.
func decode(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return errors.New("no value")
	}
	return json.Unmarshal(raw, into)
}

// unreadable is why JSON cannot be read, without Go's types.
func unreadable(err error) string {
	var e *json.UnmarshalTypeError
	if errors.As(err, &e) {
		return fmt.Sprintf("%s is of the JSON type %s", cmp.Or(e.Field, "it"), e.Value)
	}
	return err.Error()
}
