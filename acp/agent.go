package acp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

var _ sessions.Agent = (*Agent)(nil)

// Agent is one agent process, seen through its link. It is made by New and lives as long as the link.
type Agent struct {
	// Fixed by New.
	conn   *wire.Conn
	sink   sessions.Sink
	o      Options
	log    zerolog.Logger
	tasks  chan func()   // for the loop; unbuffered, so that a task is either taken or known not to be
	ending chan struct{} // closed when the loop takes no more
	done   chan struct{} // closed after the last event
	err    error         // why it ended, set before done is closed

	helpers sync.WaitGroup            // goroutines beside the loop, which waits for them
	space   atomic.Pointer[workspace] // set by Open

	// Everything below belongs to the loop.
	phase              phase
	over               bool // the inbox is closed, or nothing more is wanted of it
	waiting            map[*wire.Call]*wire.Message
	profile            profile
	cursor             bool
	initial            initializeResult
	session            string // the agent's id of the conversation
	sandbox, sandboxBy string // what is enforced around it, and by whom
	resumed            bool
	replay             bool       // between session/load and its response: everything is history
	retelling          *retelling // of that history, where it is wanted
	settings           settings
	requests           requests
	turn               *turn
	turns              int
	lates              int    // late feeds so far
	last               string // the command of the last turn
	prepared           string // the command whose selections are being confirmed, before its prompt
	fenced             bool   // it was cancelled meanwhile
	grace              <-chan time.Time
	late               map[string]*feed
	past               past
	todos              todos
	cwd                string
	files              files
	terminals          terminals
	reported           map[string]bool // unknown kinds and methods that were reported once
}

// phase is how far the conversation is.
type phase uint8

const (
	phaseNew     phase = iota
	phaseOpening       // until Open has returned
	phaseOpen
	phaseFailed // Open failed: only Close is left
	phaseClosing
)

// New makes an agent of a link, and reads the link from then on. It ends with the link, which it closes then.
func New(conn *wire.Conn, sink sessions.Sink, o Options) *Agent {
	o = o.withDefaults()
	a := &Agent{
		conn: conn, sink: sink, o: o, log: *o.Log,
		tasks:    make(chan func()),
		ending:   make(chan struct{}),
		done:     make(chan struct{}),
		waiting:  map[*wire.Call]*wire.Message{},
		late:     map[string]*feed{},
		reported: map[string]bool{},
	}
	go a.loop()
	return a
}

// Done is closed after the link ended and the last event was emitted.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Err tells why the link ended; nil while it lives.
func (a *Agent) Err() error {
	select {
	case <-a.done:
		return a.err
	default:
		return nil
	}
}

// Open does the handshake and confirms every selection.
func (a *Agent) Open(ctx context.Context, p sessions.OpenParams) (opened sessions.Opened, err error) {
	err = a.do(ctx, func(reply func(error)) {
		var failed error
		opened, failed = a.open(ctx, p)
		reply(failed)
	})
	if err != nil {
		return sessions.Opened{}, err
	}
	return opened, nil
}

// Prompt writes one command.
func (a *Agent) Prompt(ctx context.Context, p sessions.Prompt) error {
	blocks, err := a.promptBlocks(p)
	if err != nil {
		return notWritten(err)
	}
	return a.do(ctx, func(reply func(error)) { a.prompt(ctx, p, blocks, reply) })
}

// Answer writes the answer of an open request. None is open once the link has ended.
func (a *Agent) Answer(ctx context.Context, answer sessions.Answer) error {
	err := a.do(ctx, func(reply func(error)) { reply(a.answer(ctx, answer)) })
	if sessions.CodeOf(err) == sessions.CodeAgentExited && a.Err() != nil {
		return notWritten(noLonger(answer.Handle))
	}
	return err
}

// Cancel asks the agent to end the running command. A command that is not running is left alone.
func (a *Agent) Cancel(ctx context.Context, command string) error {
	return a.do(ctx, func(reply func(error)) { reply(a.cancel(ctx, command)) })
}

// Close ends the conversation as far as the agent can, and closes its input.
func (a *Agent) Close(ctx context.Context) error {
	return a.do(ctx, func(reply func(error)) { reply(a.close(ctx)) })
}

// Standing tells whether a command line is a helper that an agent keeps from turn to turn.
func (a *Agent) Standing(argv []string) bool { return standing(argv) }

// Command knows no process of the agent's as a command: the protocol does not tell how one is started.
func (a *Agent) Command([]string) bool { return false }

// do has the loop run a task and waits for its reply. The context counts until the loop takes the task; what the task
// itself waits for is bounded by the task.
func (a *Agent) do(ctx context.Context, run func(reply func(error))) error {
	answer := make(chan error, 1)
	reply := func(err error) {
		select {
		case answer <- err:
		default: // it has replied before
		}
	}
	task := func() {
		defer reply(fmt.Errorf("%w: the adapter failed", sessions.ErrBroken)) // only a panic gets there first
		run(reply)
	}
	select {
	case a.tasks <- task:
		return <-answer
	case <-ctx.Done():
		return notWritten(sessions.Errorf(sessions.CodeTimeout, "the adapter did not get to it: %w", context.Cause(ctx)))
	case <-a.done:
		return notWritten(a.ended("it could be done"))
	}
}

// loop owns the state until the link ends.
func (a *Agent) loop() {
	defer close(a.done)
	defer a.conn.Close()
	defer a.release()
	defer func() {
		// A fault of ours must cost this session only, not the bridge that reports it.
		if p := recover(); p != nil {
			a.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("adapter")
			a.err = sessions.Errorf(sessions.CodeInternal, "the ACP adapter failed: %v", p)
		}
	}()
	for !a.over {
		_ = a.step(context.Background(), nil) // an error is the link's end, which over says
	}
	a.linkEnded()
	if a.err == nil {
		a.err = a.conn.Err()
	}
}

// release ends what runs beside the loop.
func (a *Agent) release() {
	close(a.ending)
	a.endTerminals()
	a.helpers.Wait()
	a.files.close()
	if space := a.space.Load(); space != nil {
		space.close()
	}
}

var (
	errDeadline = errors.New("deadline")
	errLink     = errors.New("link ended")
)

// step does the next thing: one message, one task, or one deadline.
func (a *Agent) step(ctx context.Context, deadline <-chan time.Time) error {
	select {
	case m, ok := <-a.conn.Inbox():
		if !ok {
			a.over = true
			return errLink
		}
		a.dispatch(m)
	case run := <-a.tasks:
		run()
	case <-a.grace:
		a.graceOver()
	case <-deadline:
		return errDeadline
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if a.over {
		return errLink
	}
	return nil
}

// call makes a call and pumps until it is answered; everything else that happens meanwhile is handled as always. Its
// error is an *sessions.Error, or the agent's own *wire.ResponseError.
func (a *Agent) call(ctx context.Context, method string, params any, limit time.Duration) (wire.Message, error) {
	call, err := a.conn.Call(context.WithoutCancel(ctx), method, params)
	if err != nil {
		if why := a.conn.Err(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		code, action := wire.Lost(err)
		return wire.Message{}, sessions.Errorf(code, "%s could not be sent: %w", method, err).Do("%s", action)
	}
	a.waiting[call] = nil
	defer delete(a.waiting, call)
	if err := a.pump(ctx, method, limit, func() bool { return a.waiting[call] != nil }); err != nil {
		a.abandon(call)
		return wire.Message{}, err
	}
	m := *a.waiting[call]
	if m.Err != nil {
		return m, m.Err
	}
	return m, nil
}

// abandon tells the agent that a call's answer is no longer wanted. An agent that does not know the notification
// ignores it (OpenCode, Gemini, Qwen).
func (a *Agent) abandon(call *wire.Call) {
	if a.over {
		return
	}
	params := struct {
		ID string `json:"requestId"`
	}{call.ID()}
	if err := a.conn.Notify(context.Background(), methodCancelReq, params); err != nil {
		a.log.Debug().Err(err).Str("method", call.Method()).Msg("cancel request")
	}
}

// pump steps until something is so. what names it in the error.
func (a *Agent) pump(ctx context.Context, what string, limit time.Duration, until func() bool) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	closing := a.phase == phaseClosing
	for !until() {
		err := a.step(ctx, timer.C)
		switch {
		case until():
			return nil
		case errors.Is(err, errLink):
			return a.ended(what + " was answered")
		case errors.Is(err, errDeadline):
			return sessions.Errorf(sessions.CodeTimeout, "the agent did not answer %s within %s", what, limit).
				Do("try again; if it stays so, start the agent by hand and see what it waits for")
		case err != nil:
			return sessions.Errorf(sessions.CodeTimeout, "given up waiting for %s: %w", what, err).Do("try again with more time")
		case a.phase == phaseClosing && !closing:
			return sessions.Errorf(sessions.CodeNotRunning, "the session was closed before %s was answered", what)
		}
	}
	return nil
}

// ended says that the link has ended before something.
func (a *Agent) ended(before string) *sessions.Error {
	why := a.conn.Err()
	code, action := wire.Lost(why)
	return sessions.Errorf(code, "the agent's link ended before %s: %w", before, why).Do("%s", action)
}

// notWritten marks an error: no byte of the input left.
func notWritten(err error) error {
	if err == nil || errors.Is(err, sessions.ErrNotWritten) || errors.Is(err, sessions.ErrBroken) {
		return err
	}
	return fmt.Errorf("%w: %w", sessions.ErrNotWritten, err)
}

func (a *Agent) emit(e sessions.Event) { a.sink.Emit(e) }

// warn tells of something that a user may want to know and that changes nothing.
func (a *Agent) warn(text string, data map[string]any, raw []byte) {
	e := sessions.Event{Kind: sessions.EventWarning, Text: text, Data: data, Raw: kept(raw)}
	if a.turn != nil {
		e.Command = a.turn.command
	}
	a.emit(e)
}

// keepRaw is the longest raw message that goes along with an event.
const keepRaw = 64 << 10

func kept(raw []byte) []byte {
	if len(raw) > keepRaw {
		return nil
	}
	return raw
}
