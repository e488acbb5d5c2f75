package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// benchListed is how many sessions there are to list.
const benchListed = 10

// cli measures commands of the shell, each a process of its own, while the host runs: list against a process that does
// nothing, and run, with an agent that answers at once, against that agent's own start, prompt and end through its pipe;
// and acpx doing the same, where it is there.
func (b *bench) cli(ctx context.Context) (err error) {
	h, err := b.home("cli")
	if err != nil {
		return err
	}
	var ids []string
	defer func() { err = errors.Join(err, h.end(ctx, ids...)) }()
	listed := b.pick(benchListed, 2)
	for range listed {
		s, err := h.create(ctx, benchCursor)
		if err != nil {
			return err
		}
		ids = append(ids, s.SessionID)
	}
	list := func() error {
		out, err := h.shell(ctx, "list", "--json")
		if err == nil && bytes.Count(out, []byte("\n")) != listed {
			err = fmt.Errorf("baton list shows %d lines for %d sessions", bytes.Count(out, []byte("\n")), listed)
		}
		return err
	}
	nothing := func() error { _, err := h.shell(ctx, "--version"); return err }
	ours, floor, err := inTurn(b.pick(30, 2), list, nothing)
	if err != nil {
		return err
	}
	b.report.add(benchFigure{Case: fmt.Sprintf("list --json, %d sessions", listed), Value: ours, Floor: floor, Unit: "ms", Note: "floor: a process of the same program that does nothing"})

	run := func() error {
		out, err := h.shell(ctx, "run", "--quiet", "-r", benchCursor, "--sandbox", sessions.SandboxFullAccess, "-C", h.work(), benchPrompt)
		if err == nil && !bytes.Contains(out, []byte(benchPrompt)) {
			err = fmt.Errorf("baton run said %.100q", out)
		}
		return err
	}
	ours, floor, err = inTurn(b.pick(20, 2), run, func() error { return benchBare(ctx, h) })
	if err != nil {
		return err
	}
	b.report.add(benchFigure{Case: "run, warm", Value: ours, Floor: floor, Unit: "ms", Note: "floor: the agent alone, from its start to its end"})
	return b.cliBeside(ctx, h, list, run)
}

// cliBeside has acpx do the same with the same agent.
func (b *bench) cliBeside(ctx context.Context, h *benchHome, list, run func() error) error {
	program := os.Getenv(benchAcpx)
	if program == "" {
		b.report.remark("acpx is not measured: " + benchAcpx + " does not name it")
		return nil
	}
	a, err := newAcpx(h, program)
	if err != nil {
		return err
	}
	n := b.pick(7, 2)
	ours, theirs, err := inTurn(n, run, func() error {
		out, err := a.run(ctx, "--format", "quiet", "exec", benchPrompt)
		if err == nil && !bytes.Contains(out, []byte(benchPrompt)) {
			err = fmt.Errorf("acpx answered %.100q", out)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.report.add(benchFigure{Case: "run, beside acpx exec", Value: ours, Floor: theirs, Unit: "ms", atMost: 0.1, Note: "Baton: a session that is durable, and its end proven"})
	ours, theirs, err = inTurn(n, list, func() error {
		out, err := a.run(ctx, "--format", "json", "sessions", "--local")
		if err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "{") && !strings.HasPrefix(strings.TrimSpace(string(out)), "[") {
			err = fmt.Errorf("acpx listed %.100q", out)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.report.add(benchFigure{Case: "list --json, beside acpx sessions", Value: ours, Floor: theirs, Unit: "ms", atMost: 0.1, Note: "acpx: its own records, without asking its agent"})
	return nil
}

// inTurn times two things in turn, and gives the median of each in milliseconds.
func inTurn(n int, ours, theirs func() error) (our, their float64, err error) {
	var a, b []float64
	for range n {
		for _, x := range []struct {
			do   func() error
			into *[]float64
		}{{ours, &a}, {theirs, &b}} {
			began := time.Now()
			if err := x.do(); err != nil {
				return 0, 0, err
			}
			*x.into = append(*x.into, milliseconds(time.Since(began)))
		}
	}
	return median(a), median(b), nil
}

// shell runs a command of this program to its end.
func (h *benchHome) shell(ctx context.Context, argv ...string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, argv...)
	cmd.Env, cmd.Dir = h.env, h.work()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("baton %s: %w", strings.Join(argv, " "), err)
	}
	return out, nil
}

// benchBare is one prompt of an agent that is started for it and ends with it.
func benchBare(ctx context.Context, h *benchHome) (err error) {
	pipe, err := startBenchAgent(ctx, h, agentCommand, "acp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pipe.end()) }()
	session, err := pipe.converse(h.work())
	if err != nil {
		return err
	}
	_, err = pipe.prompt(session, benchPrompt)
	return err
}
