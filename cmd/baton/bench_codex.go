package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sessions"
)

// Where the Codex is that is measured: an installed one, named as for sessions, or the one of the tests. What is not named
// is not measured: a Codex that happens to be on PATH is somebody's, with a home of theirs.
const (
	benchRunnerCodex = "BATON_RUNNER_CODEX"
	benchTestCodex   = "BATON_TEST_CODEX"
)

// codex measures what Baton adds to the real Codex, with a scripted model provider on loopback in place of the network:
// to a turn, to a stream, to the start and the memory of a session, and to many sessions at once. The floor is the same
// program started by hand, driven by a reader that does not even decode.
func (b *bench) codex(ctx context.Context) error {
	program := cmp.Or(os.Getenv(benchRunnerCodex), os.Getenv(benchTestCodex))
	if program == "" {
		b.report.remark("Codex is not measured: neither " + benchRunnerCodex + " nor " + benchTestCodex + " names its native program")
		return nil
	}
	provider, err := responses.New()
	if err != nil {
		return err
	}
	defer provider.Close()
	for _, m := range []struct {
		name string
		run  func(*codexBench, context.Context) error
	}{{"turns", (*codexBench).turns}, {"streams", (*codexBench).streams}, {"starts", (*codexBench).starts}, {"crowd", (*codexBench).crowd}} {
		c, err := b.openCodex(m.name, program, provider.URL)
		if err != nil {
			return err
		}
		if err := errors.Join(m.run(c, ctx), c.end(ctx, c.ids...)); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// codexBench is a Baton with a Codex home of its own, and another for the Codex that is started by hand.
type codexBench struct {
	*bench
	*benchHome
	program string
	raw     []string // the environment of what is started by hand
	ids     []string // sessions to close at the end
}

func (b *bench) openCodex(name, program, url string) (*codexBench, error) {
	h, err := b.home("codex-" + name)
	if err != nil {
		return nil, err
	}
	c := &codexBench{bench: b, benchHome: h, program: program}
	ours, theirs := filepath.Join(h.dir, "codex"), filepath.Join(h.dir, "codex-by-hand")
	for _, dir := range []string{ours, theirs} {
		if err := responses.WriteHome(dir, url); err != nil {
			return nil, err
		}
	}
	// Codex makes its helpers only in a home that does not lie below its TMPDIR.
	tmp := filepath.Join(h.dir, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return nil, err
	}
	base := append(slices.Clone(h.env), "TMPDIR="+tmp)
	c.raw = append(slices.Clone(base), "CODEX_HOME="+theirs)
	h.env = append(base, "CODEX_HOME="+ours, benchRunnerCodex+"="+program)
	benchCaller.Env = h.env
	return c, nil
}

// session starts one through Baton.
func (c *codexBench) session(ctx context.Context) (string, error) {
	wait := 50
	res, err := c.Create(ctx, benchCaller, sessions.CreateArgs{Runner: "codex", Cwd: c.work(), WaitSeconds: &wait,
		Settings: sessions.Settings{Model: responses.Model, Sandbox: sessions.SandboxReadOnly}})
	if err == nil && res.Session.State != sessions.SessionIdle {
		err = fmt.Errorf("session %s is %s", res.Session.SessionID, res.Session.State)
	}
	if err != nil {
		return "", err
	}
	c.ids = append(c.ids, res.Session.SessionID)
	return res.Session.SessionID, nil
}

// byHand starts a Codex and a thread of it.
func (c *codexBench) byHand(ctx context.Context) (a *benchAgent, thread string, err error) {
	a = &benchAgent{cmd: exec.CommandContext(ctx, c.program, "app-server")}
	a.cmd.Env, a.cmd.Dir = c.raw, c.work()
	if err := a.begin(); err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.end())
		}
	}()
	if _, err = a.call("initialize", map[string]any{"clientInfo": map[string]any{"name": "bench", "version": version}}); err != nil {
		return nil, "", err
	}
	if err = a.write(map[string]any{"method": "initialized"}); err != nil {
		return nil, "", err
	}
	res, err := a.call("thread/start", map[string]any{"cwd": c.work(), "model": responses.Model, "sandbox": "read-only"})
	if err != nil {
		return nil, "", err
	}
	var r struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	err = json.Unmarshal(res, &r)
	return a, r.Thread.ID, err
}

// turn is the time from a prompt to the line that ends its turn, and how many pieces of text came between.
func (a *benchAgent) turn(thread, text string) (took time.Duration, pieces int, err error) {
	began := time.Now()
	a.n++
	if err := a.write(map[string]any{"id": fmt.Sprintf("bench-%d", a.n), "method": "turn/start",
		"params": map[string]any{"threadId": thread, "input": []any{map[string]any{"type": "text", "text": text}}}}); err != nil {
		return 0, 0, err
	}
	for {
		line, err := a.out.ReadBytes('\n')
		if err != nil {
			return 0, 0, err
		}
		switch head := line[:min(len(line), 200)]; {
		case bytes.Contains(head, []byte(`"item/agentMessage/delta"`)):
			pieces++
		case bytes.Contains(head, []byte(`"turn/completed"`)):
			if !bytes.Contains(line, []byte(`"status":"completed"`)) {
				return 0, 0, fmt.Errorf("the turn ended as %.300s", line)
			}
			return time.Since(began), pieces, nil
		}
	}
}

// turns are short ones, sent when the one before has ended: through Baton, where the prompt is durable before it is sent and
// the answer before it is told, and by hand.
func (c *codexBench) turns(ctx context.Context) (err error) {
	id, err := c.session(ctx)
	if err != nil {
		return err
	}
	hand, thread, err := c.byHand(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hand.end()) }()
	var through, bare []float64
	for range c.pick(60, 3) {
		took, _, err := hand.turn(thread, benchPrompt)
		if err != nil {
			return err
		}
		bare = append(bare, milliseconds(took))
		began := time.Now()
		if err := c.sendAndWait(ctx, id); err != nil {
			return err
		}
		through = append(through, milliseconds(time.Since(began)))
	}
	c.report.add(benchFigure{Case: "turn, p50", Value: percentile(through, 50), Floor: percentile(bare, 50), Unit: "ms", atMost: 1.2})
	c.report.add(benchFigure{Case: "turn, p95", Value: percentile(through, 95), Floor: percentile(bare, 95), Unit: "ms"})
	return nil
}

// streams are turns of many pieces of text, until a reader has read the last by cursor.
func (c *codexBench) streams(ctx context.Context) (err error) {
	id, err := c.session(ctx)
	if err != nil {
		return err
	}
	hand, thread, err := c.byHand(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hand.end()) }()
	n := c.pick(20_000, 300)
	prompt := fmt.Sprintf("[say %d %d]", n, benchSize)
	r := &codexReader{h: c.benchHome, session: id}
	var through, bare []float64
	for range c.pick(5, 1) {
		took, pieces, err := hand.turn(thread, prompt)
		if err != nil {
			return err
		}
		if pieces != n {
			return fmt.Errorf("by hand %d pieces of %d arrived", pieces, n)
		}
		bare = append(bare, float64(n)/took.Seconds())
		if took, err = r.turn(ctx, prompt, n*benchSize); err != nil {
			return err
		}
		through = append(through, float64(n)/took.Seconds())
	}
	c.report.add(benchFigure{Case: fmt.Sprintf("%d updates", n), Value: median(through), Floor: median(bare), Unit: "updates/s", atLeast: 0.75, Note: "none lost"})
	return nil
}

// starts are sessions until they take a prompt, and what a process needs that has run a turn.
func (c *codexBench) starts(ctx context.Context) error {
	if _, err := c.List(ctx, benchCaller, sessions.ListArgs{}); err != nil { // starts the host
		return err
	}
	host, err := c.Status(ctx)
	if err != nil {
		return err
	}
	empty, err := benchMemory(host.PID)
	if err != nil {
		return err
	}
	var through, bare, memory []float64
	n := c.pick(8, 1)
	for i := range n + 1 {
		began := time.Now()
		hand, thread, err := c.byHand(ctx)
		if err != nil {
			return err
		}
		took := time.Since(began)
		_, _, err = hand.turn(thread, benchPrompt)
		kib, memErr := benchMemory(hand.cmd.Process.Pid)
		if err := errors.Join(err, memErr, hand.end()); err != nil {
			return err
		}
		began = time.Now()
		id, err := c.session(ctx)
		if err != nil {
			return err
		}
		if i > 0 { // the first start of a home makes its files
			bare, through, memory = append(bare, milliseconds(took)), append(through, milliseconds(time.Since(began))), append(memory, kib)
		}
		if err := c.sendAndWait(ctx, id); err != nil {
			return err
		}
	}
	c.report.add(benchFigure{Case: "start of a session", Value: median(through), Floor: median(bare), Unit: "ms",
		Note: "Baton: contained, and model, effort, mode and sandbox confirmed"})
	full, err := benchMemory(host.PID)
	if err != nil {
		return err
	}
	bridges, agents, err := codexMemory(host.PID)
	if err != nil {
		return err
	}
	if len(bridges) != n+1 || len(agents) != n+1 {
		return fmt.Errorf("%d bridges and %d agents serve %d sessions", len(bridges), len(agents), n+1)
	}
	own := median(bridges) + (full-empty)/float64(n+1)
	c.report.add(benchFigure{Case: "memory of a session", Value: (median(agents) + own) / 1024, Floor: median(memory) / 1024, Unit: "MiB",
		Note: fmt.Sprintf("of it %.1f MiB are Baton's", own/1024)})
	return nil
}

// codexMemory is that of the bridges of a host and of the agents below them, in KiB.
func codexMemory(host int) (bridges, agents []float64, err error) {
	all, err := demoProcesses()
	if err != nil {
		return nil, nil, err
	}
	for _, p := range demoChildren(all, host, " bridge") {
		kib, err := benchMemory(p.pid)
		if err != nil {
			return nil, nil, err
		}
		bridges = append(bridges, kib)
		for _, q := range demoChildren(all, p.pid, "app-server") {
			if kib, err = benchMemory(q.pid); err != nil {
				return nil, nil, err
			}
			agents = append(agents, kib)
		}
	}
	return bridges, agents, nil
}

// crowd is twenty sessions that all run a turn at once.
func (c *codexBench) crowd(ctx context.Context) (err error) {
	n, pieces := c.pick(20, 2), c.pick(500, 50)
	prompt := func(i int) string { return fmt.Sprintf("[say %d %d] for session %d", pieces, benchSize+i, i) }
	var hands []*benchAgent
	var threads []string
	defer func() {
		for _, a := range hands {
			err = errors.Join(err, a.end())
		}
	}()
	for range n {
		a, thread, err := c.byHand(ctx)
		if err != nil {
			return err
		}
		hands, threads = append(hands, a), append(threads, thread)
		if _, err := c.session(ctx); err != nil {
			return err
		}
	}
	var through, bare []float64
	readers := make([]*codexReader, n)
	for i, id := range c.ids {
		readers[i] = &codexReader{h: c.benchHome, session: id}
	}
	for range c.pick(3, 1) {
		began := time.Now()
		var g errgroup.Group
		for i, a := range hands {
			g.Go(func() error {
				_, got, err := a.turn(threads[i], prompt(i))
				if err == nil && got != pieces {
					err = fmt.Errorf("by hand %d pieces of %d arrived", got, pieces)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		bare = append(bare, time.Since(began).Seconds())
		began = time.Now()
		for i, r := range readers {
			g.Go(func() error {
				_, err := r.turn(ctx, prompt(i), pieces*(benchSize+i))
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		through = append(through, time.Since(began).Seconds())
	}
	c.report.add(benchFigure{Case: fmt.Sprintf("%d sessions at once", n), Value: median(through), Floor: median(bare), Unit: "s",
		Note: fmt.Sprintf("%d updates each; every session got its own", pieces)})
	return nil
}
