package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Where the programs are that Baton is compared with; .ci/agents installs them. What is not named is not measured.
const (
	benchAcpx         = "BATON_BENCH_ACPX"          // cli.js of acpx; node runs it
	benchSandboxAgent = "BATON_BENCH_SANDBOX_AGENT" // the program of sandbox-agent
	benchNode         = "BATON_TEST_NODE"           // "": the node of PATH
)

// rival is another program in front of the same agent.
type rival interface {
	// prompt sends one and waits for its answer.
	prompt(ctx context.Context) error
	// burst has the agent send updates, and tells how many of them a reader got who reads along.
	burst(ctx context.Context, updates int) (seen int, err error)
	// memory is what it needs for this one session, beside the agent, in KiB.
	memory() (float64, error)
	close() error
}

// rivals compares Baton with what others add to the same agent, in turn with it. Below 1x Baton is the faster one.
func (b *bench) rivals(ctx context.Context) error {
	for _, r := range []struct {
		name, variable string
		open           func(context.Context, *benchHome, string) (rival, error)
		fresh          bool // it is a command line: each prompt starts a process
	}{
		{"acpx", benchAcpx, openAcpx, true},
		{"sandbox-agent", benchSandboxAgent, openSandboxAgent, false},
	} {
		program := os.Getenv(r.variable)
		if program == "" {
			b.report.remark(r.name + " is not measured: " + r.variable + " does not name it")
			continue
		}
		if err := b.rival(ctx, r.name, program, r.open, r.fresh); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

func (b *bench) rival(ctx context.Context, name, program string, open func(context.Context, *benchHome, string) (rival, error), fresh bool) (err error) {
	h, err := b.home("beside-" + name)
	if err != nil {
		return err
	}
	s, err := h.create(ctx, benchCursor)
	if err != nil {
		return errors.Join(err, h.end(ctx))
	}
	defer func() { err = errors.Join(err, h.end(ctx, s.SessionID)) }()
	them, err := open(ctx, h, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, them.close()) }()

	if err := b.besideUpdates(ctx, name, h, s.SessionID, them, fresh); err != nil {
		return err
	}
	if err := b.besidePrompts(ctx, name, h, s.SessionID, them, fresh); err != nil {
		return err
	}
	kib, err := them.memory()
	if err != nil {
		return err
	}
	own, err := h.memory(ctx)
	if err != nil {
		return err
	}
	b.report.add(benchFigure{Case: "memory, beside " + name, Value: own / 1024, Floor: kib / 1024, Unit: "MiB", Note: "for one session; Baton: host and bridge"})
	return nil
}

// besideUpdates comes first: its reader wants to see nothing but updates.
func (b *bench) besideUpdates(ctx context.Context, name string, h *benchHome, session string, them rival, fresh bool) error {
	rounds := b.pick(3, 1)
	if fresh {
		rounds = 1 // one takes minutes (acpx 0.19.1)
	}
	reader := &benchReader{h: h, session: session}
	if err := reader.read(ctx); err != nil {
		return err
	}
	n, lost := b.pick(20_000, 500), 0
	var ours, theirs []float64
	for range rounds {
		took, err := reader.turn(ctx, n)
		if err != nil {
			return err
		}
		ours = append(ours, took.Seconds())
		began := time.Now()
		seen, err := them.burst(ctx, n)
		if err != nil {
			return err
		}
		theirs = append(theirs, time.Since(began).Seconds())
		lost = max(lost, n-seen)
	}
	b.report.add(benchFigure{Case: fmt.Sprintf("%d updates, beside %s", n, name), Value: median(ours), Floor: median(theirs), Unit: "s", atMost: 1,
		Note: fmt.Sprintf("Baton loses none, %s up to %d", name, lost)})
	return nil
}

func (b *bench) besidePrompts(ctx context.Context, name string, h *benchHome, session string, them rival, fresh bool) error {
	us, n, how := h.sendAndWait, b.pick(200, 2), "its answers are durable"
	if fresh {
		us, n, how = h.sendFresh, b.pick(7, 2), "a new process each, its answers are durable"
	}
	var ours, theirs []float64
	for range n {
		began := time.Now()
		if err := us(ctx, session); err != nil {
			return err
		}
		ours = append(ours, milliseconds(time.Since(began)))
		began = time.Now()
		if err := them.prompt(ctx); err != nil {
			return err
		}
		theirs = append(theirs, milliseconds(time.Since(began)))
	}
	b.report.add(benchFigure{Case: "prompt, beside " + name, Value: median(ours), Floor: median(theirs), Unit: "ms", atMost: 1, Note: "Baton: " + how})
	return nil
}

// sendAndWait sends a prompt and waits for its answer.
func (h *benchHome) sendAndWait(ctx context.Context, session string) error {
	wait := 20
	res, err := h.Send(ctx, benchCaller, sessions.SendArgs{SessionID: session, Text: benchPrompt, WaitSeconds: &wait})
	if err == nil && res.Command.State != sessions.CommandCompleted {
		err = fmt.Errorf("a prompt ended as %s", res.Command.State)
	}
	return err
}

// sendFresh does so with a front end that is started for it, as a command line is.
func (h *benchHome) sendFresh(ctx context.Context, session string) error {
	a, err := startBenchAgent(ctx, h, "mcp")
	if err != nil {
		return err
	}
	defer a.end() // what it was asked is answered, or told as an error
	if _, err = a.call("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "bench", "version": version}}); err != nil {
		return err
	}
	if err = a.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
		return err
	}
	_, err = a.call("tools/call", map[string]any{"name": "session_send", "arguments": map[string]any{"session_id": session, "text": benchPrompt, "wait_seconds": 20}})
	return err
}

// memory is that of the host and its bridges, in KiB.
func (h *benchHome) memory(ctx context.Context) (kib float64, err error) {
	host, err := h.Status(ctx)
	if err != nil {
		return 0, err
	}
	if kib, err = benchMemory(host.PID); err != nil {
		return 0, err
	}
	all, err := demoProcesses()
	if err != nil {
		return 0, err
	}
	for _, p := range demoChildren(all, host.PID, " bridge") {
		more, err := benchMemory(p.pid)
		if err != nil {
			return 0, err
		}
		kib += more
	}
	return kib, nil
}

// benchUpdate is the text of an update of a burst, wherever it stands.
var benchUpdate = regexp.MustCompile(`\b(\d{7}) x{50}`)

// benchSeen collects the updates in what a reader read.
type benchSeen map[string]bool

func (s benchSeen) line(line []byte) {
	for _, m := range benchUpdate.FindAllSubmatch(line, -1) {
		s[string(m[1])] = true
	}
}
