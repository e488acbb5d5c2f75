package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// agentProcess is the agent: its process, its link and its adapter.
type agentProcess struct {
	spec   Spec
	child  *sandbox.Child
	conn   *wire.Conn
	agent  sessions.Agent // nil for a probe
	stderr *tail
	hide   sessions.Redactor
	spoke  chan struct{} // closed when nobody can write to stderr any more
	opened bool
	asked  chan struct{} // closed when the open has an answer, whichever
	begun  time.Time     // before the first turn of all; guarded by the bridge's mu
}

// start runs the agent's program with pipes of ours.
func (b *Bridge) start(s Spec) (*agentProcess, error) {
	b.veil.learn(s)
	in, err := enterable(s)
	if err != nil {
		return nil, err
	}
	if in != nil {
		defer in.Close()
	}
	var files []*os.File
	closeAll := func() {
		for _, f := range files {
			f.Close()
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, sessions.Errorf(sessions.CodeInternal, "no pipe for the agent: %w", err).
				Do("close sessions that are no longer needed, or raise the limit of open files (ulimit -n), then try again")
		}
		files = append(files, r, w)
	}
	inR, inW, outR, outW, errR, errW := files[0], files[1], files[2], files[3], files[4], files[5]
	child, err := b.o.Reaper.Spawn(sandbox.Spawn{Argv: s.Argv, Dir: s.Dir, In: in, Env: s.Env, Stdin: inR, Stdout: outW, Stderr: errW})
	if err != nil {
		closeAll()
		e := sessions.Errorf(sessions.CodeRunnerMissing, "%s could not be started: %w", s.Argv[0], err)
		return nil, e.Do("install the agent, or name its executable in BATON_RUNNER_%s", strings.ToUpper(s.Open.Runner))
	}
	inR.Close()
	outW.Close()
	errW.Close()
	p := &agentProcess{spec: s, child: child, hide: b.veil.redact, stderr: &tail{max: maxSaid, set: b.veil.set.Load}, spoke: make(chan struct{}), asked: make(chan struct{})}
	p.conn = wire.New(outR, inW, wire.Options{Generation: s.Open.Generation})
	b.wg.Go(func() {
		defer errR.Close()
		defer close(p.spoke)
		io.Copy(p.stderr, errR)
	})
	b.wg.Go(func() { // a grandchild that holds stderr must not hold the bridge
		<-b.ended
		errR.Close()
	})
	return p, nil
}

// open starts the agent and lets its adapter do the handshake.
func (b *Bridge) open(s Spec) {
	b.mu.Lock()
	b.grace = orphanGrace
	if s.OrphanSeconds > 0 {
		b.grace = time.Duration(s.OrphanSeconds) * time.Second
	}
	b.mu.Unlock()
	adapter, ok := b.o.Adapters[s.Protocol]
	if !ok {
		b.fail(sessions.Errorf(sessions.CodeUnsupported, "this bridge (%s) has no adapter for protocol %q", b.o.Version, s.Protocol).
			Do("name one of app-server and acp as the runner's protocol"))
		return
	}
	if err := b.confirmFiles(&s.Open); err != nil {
		b.fail(err)
		return
	}
	b.watchPlanting(s.Open.Files)
	p, err := b.start(s)
	if err != nil {
		b.fail(sessions.AsError(err))
		return
	}
	s.Spawn, s.Redact = b.o.Reaper.Spawn, b.veil.redact
	p.agent = adapter.New(p.conn, b, s, &b.o.Log)
	b.own(p)
	b.wg.Go(func() { b.watch(p) })
	handshake := time.Duration(s.HandshakeSeconds) * time.Second
	ctx, cancel := context.WithTimeout(b.stopping.ctx, handshake)
	defer cancel()
	defer close(p.asked)
	failpoint.Hit("bridge.agent.started")
	opened, err := p.agent.Open(ctx, s.Open)
	if err == nil {
		opened, err = opened.Bounded(b.veil.redact)
	}
	failpoint.Hit("bridge.agent.answered")
	if err != nil {
		b.fail(p.explain(ctx, err, handshake))
		return
	}
	b.rec.Flush()
	b.mu.Lock()
	p.opened = true
	b.mu.Unlock()
	opened.Evidence = b.withFiles(opened.Evidence)
	b.put(OutOpened, opened)
	failpoint.Hit("bridge.opened")
	b.retell(opened.History)
}

// retell tells of the history of a conversation. Its events happen now, so that the session's are in the order of their
// time; when each really did is beside it.
func (b *Bridge) retell(history []sessions.Event) {
	for _, e := range history {
		if !e.At.IsZero() {
			data := map[string]any{"happened_at": e.At}
			maps.Copy(data, e.Data)
			e.At, e.Data = time.Time{}, data
		}
		b.Emit(e)
	}
	b.rec.Flush()
}

// own makes p the agent that the bridge ends with itself.
func (b *Bridge) own(p *agentProcess) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agent = p
	b.changed.Broadcast()
}

// probe asks an agent about itself, without a session, and ends the bridge.
func (b *Bridge) probe(s Spec) {
	b.ask(s, OutProbed, func(ctx context.Context, a Adapter, c *wire.Conn, s Spec) (any, error) {
		said, err := a.Probe(ctx, c, s, &b.o.Log)
		return said.Bounded(b.veil.redact), err
	})
}

// foreign asks an agent about its own conversations, without a session, and ends the bridge.
func (b *Bridge) foreign(in ForeignInput) {
	b.ask(in.Spec, OutForeign, func(ctx context.Context, a Adapter, c *wire.Conn, s Spec) (any, error) {
		said, err := a.Foreign(ctx, c, s, in.Ask, &b.o.Log)
		said = said.Bounded(b.veil.redact)
		said.Events = b.veil.events(said.Events)
		return said, err
	})
}

// ask starts an agent for one question.
func (b *Bridge) ask(s Spec, kind Kind, put func(context.Context, Adapter, *wire.Conn, Spec) (any, error)) {
	adapter, ok := b.o.Adapters[s.Protocol]
	if !ok {
		b.fail(sessions.Errorf(sessions.CodeUnsupported, "this bridge (%s) has no adapter for protocol %q", b.o.Version, s.Protocol).
			Do("name one of app-server and acp as the runner's protocol"))
		return
	}
	p, err := b.start(s)
	if err != nil {
		b.fail(sessions.AsError(err))
		return
	}
	b.own(p)
	limit := time.Duration(s.HandshakeSeconds) * time.Second
	ctx, cancel := context.WithTimeout(b.stopping.ctx, limit)
	defer cancel()
	b.wg.Go(func() { // what an agent that has ended had started may hold its output open
		select {
		case <-p.child.Done():
		case <-ctx.Done():
			return
		}
		select {
		case <-p.conn.Done():
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
			p.conn.Close()
		}
	})
	s.Spawn, s.Redact = b.o.Reaper.Spawn, b.veil.redact
	res, err := put(ctx, adapter, p.conn, s)
	if err != nil {
		b.fail(p.explain(ctx, err, limit))
		return
	}
	b.put(kind, res)
	b.wg.Go(func() { b.shutdown(errClosing, true) })
}

// endPatience is how long after the end of its link the end of an agent is waited for, which says more.
const endPatience = 2 * time.Second

// explain says why an open failed: an agent that ended is named as such, with its last words, unless its adapter knew
// better.
func (p *agentProcess) explain(ctx context.Context, err error, limit time.Duration) *sessions.Error {
	e := sessions.AsError(err)
	switch cause := context.Cause(ctx); { // an end of ours comes first: that the agent ends too follows from it
	case errors.Is(cause, errClosing):
		return sessions.Errorf(sessions.CodeFenced, "the session was closed while it was starting").Do("resume it if it is still wanted")
	case errors.Is(cause, errOrphan):
		return sessions.Errorf(sessions.CodeIncomplete, "%s was stopped before its handshake was over: %w", p.name(), cause).Do("resume the session")
	}
	switch e.Code {
	case sessions.CodeInternal, sessions.CodeAgentProtocol, sessions.CodeAgentExited, sessions.CodeTimeout, sessions.CodeNotRunning:
	case sessions.CodeLimitExceeded:
		if overLimit(p.conn.Err()) == "" {
			return e
		}
	default:
		return e
	}
	leaves := e.Code == sessions.CodeAgentExited // it takes no input any more
	select {
	case <-p.conn.Done():
		leaves = true
	default:
	}
	if leaves { // that it has ended may be known a moment later
		select {
		case <-p.child.Done():
		case <-time.After(endPatience):
		}
	}
	select {
	case <-p.child.Done():
		said, stray := p.lastWords(), p.stray()
		code, action := sessions.CodeAgentExited, "run it by hand in a terminal to see what it needs, then create or resume again"
		if overLimit(p.conn.Err()) != "" { // its end is what came of that
			code, action = wire.Lost(p.conn.Err())
		}
		e := sessions.Errorf(code, "%s ended during its handshake: %s%s", p.name(), overLimit(p.conn.Err()), p.ending())
		if said != "" {
			e = e.With("stderr", said)
		}
		if stray != "" {
			e = e.With("stdout", stray)
		}
		if last := cmp.Or(said, stray); last != "" {
			e.Message += "; it said: " + lastLine(last)
		}
		return e.Do("%s", action)
	default:
	}
	if ctx.Err() != nil {
		return sessions.Errorf(sessions.CodeTimeout, "%s did not finish its handshake within %s (%s)", p.name(), limit, e.Message).
			Do("check that it is installed whole and logged in, then create or resume again").With("stderr", p.stderr.String())
	}
	if e.Action == "" {
		return e.Do("run it by hand in a terminal to see what it needs, then create or resume again")
	}
	return e
}

func (p *agentProcess) ending() string {
	code, sig := p.child.Status()
	if sig != "" {
		return "killed by " + sig
	}
	return fmt.Sprintf("exit status %d", code)
}

// watch waits for the end of the agent or of its link, whichever comes first, and ends the bridge.
func (b *Bridge) watch(p *agentProcess) {
	why := ""
	select {
	case <-p.child.Done():
		select { // what it had said is still in the pipe
		case <-p.agent.Done():
		case <-time.After(2 * time.Second): // somebody it started holds the pipe
			p.conn.Close()
			<-p.agent.Done()
		}
		why = p.givenUp() + "the agent ended: " + p.ending()
	case <-p.agent.Done():
		select {
		case <-p.child.Done():
			why = p.givenUp() + "the agent ended: " + p.ending()
		case <-time.After(endPatience):
			why = "the link to the agent ended"
			if err := p.agent.Err(); err != nil && !errors.Is(err, io.EOF) {
				why += ": " + err.Error()
			}
		}
	}
	<-p.asked // an end during the handshake is the handshake's to explain
	b.shutdown(errors.New(why), false)
}

// givenUp says why our side ended the link of an agent whose own end may follow from that alone, and is "" when it did not.
func (p *agentProcess) givenUp() string {
	err := p.agent.Err()
	if own := (*sessions.Error)(nil); errors.As(err, &own) {
		return own.Message + "; then "
	}
	return overLimit(err)
}

// overLimit says which limit of ours ended a link, "" when none did.
func overLimit(err error) string {
	if errors.Is(err, wire.ErrLineTooLong) || errors.Is(err, wire.ErrWriteTimeout) {
		return "its link was ended: " + err.Error() + "; then "
	}
	return ""
}

// lastWords is what an agent that has ended wrote to its standard error. The end of that may still be in the pipe, which
// what it started may hold open.
func (p *agentProcess) lastWords() string {
	select {
	case <-p.spoke:
	case <-time.After(time.Second):
	}
	return p.stderr.String()
}

// stray is the end of what the agent wrote to its standard output that is none of its protocol: some say there why they end.
func (p *agentProcess) stray() string {
	last := string(p.conn.Diagnostics().Last) // which may have lost its beginning
	from := max(0, len(last)-maxSaid)
	last, _ = p.stderr.set().Unfinished(p.hide.After(last[:from], last[from:]))
	return printable(last[max(0, len(last)-maxSaid):])
}

// name is how people know the agent.
func (p *agentProcess) name() string {
	return "runner " + p.spec.Open.Runner + " (" + p.spec.Argv[0] + ")"
}

// end stops the agent: its protocol's close, end of input, SIGTERM, and leaves the kill to the caller.
func (p *agentProcess) end(haste bool) {
	grace, term := 6*time.Second, 2*time.Second
	if p.spec.StopSeconds > 0 {
		grace = time.Duration(p.spec.StopSeconds) * time.Second
	}
	if haste {
		grace, term = hasteLimit, hasteLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if p.agent != nil {
		p.agent.Close(ctx) // an agent that cannot be asked gets the signals
	} else {
		p.conn.CloseInput()
	}
	select {
	case <-p.child.Done():
		return
	case <-ctx.Done():
	}
	p.child.Signal(syscall.SIGTERM)
	select {
	case <-p.child.Done():
	case <-time.After(term):
	}
}
