package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// benchPrompt is answered by the scripted agent at once, with a few words.
const benchPrompt = "hello"

// acp measures what Baton adds to an ACP agent: to a prompt, to a stream of updates, and in memory; and what others that
// do as much, or less, add to the same agent, where they are there.
func (b *bench) acp(ctx context.Context) error {
	if err := b.acpPrompts(ctx); err != nil {
		return err
	}
	if err := b.streamOf(ctx, benchCursor, b.pick(20_000, 500), b.pick(5, 1)); err != nil {
		return err
	}
	if err := b.acpMemory(ctx); err != nil {
		return err
	}
	return b.rivals(ctx)
}

// acpPrompts times a prompt from its sending to its answer: through Baton, where it is durable before it is sent and its
// answer durable before it is told, against the agent's own pipe and one synced write. They are taken in turn.
func (b *bench) acpPrompts(ctx context.Context) (err error) {
	h, err := b.home("acp-prompts")
	if err != nil {
		return err
	}
	s, err := h.create(ctx, benchCursor)
	if err != nil {
		return errors.Join(err, h.end(ctx))
	}
	defer func() { err = errors.Join(err, h.end(ctx, s.SessionID)) }()
	pipe, err := startBenchAgent(ctx, h, agentCommand, "acp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pipe.end()) }()
	session, err := pipe.converse(h.work())
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(h.dir, "floor"))
	if err != nil {
		return err
	}
	defer file.Close()
	page, wait := make([]byte, 4096), 20
	var through, bare []float64
	for range b.pick(1000, 10) { // the first 200 of a host are slower: its log grows until it is brought in for the first time
		began := time.Now()
		if _, err := file.Write(page); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		if _, err := pipe.prompt(session, benchPrompt); err != nil {
			return err
		}
		bare = append(bare, milliseconds(time.Since(began)))

		began = time.Now()
		res, err := h.Send(ctx, benchCaller, sessions.SendArgs{SessionID: s.SessionID, Text: benchPrompt, WaitSeconds: &wait})
		if err != nil {
			return err
		}
		through = append(through, milliseconds(time.Since(began)))
		if res.Command.State != sessions.CommandCompleted || !strings.HasSuffix(res.Text, benchPrompt) {
			return fmt.Errorf("a prompt ended as %s, with %q", res.Command.State, res.Text)
		}
	}
	b.report.add(benchFigure{Case: "prompt to answer, p50", Value: percentile(through, 50), Floor: percentile(bare, 50), Unit: "ms", atMost: 3})
	b.report.add(benchFigure{Case: "prompt to answer, p95", Value: percentile(through, 95), Floor: percentile(bare, 95), Unit: "ms"})
	return nil
}

// acpMemory is what a session needs beside its agent: its bridge, and what the host keeps of it.
func (b *bench) acpMemory(ctx context.Context) (err error) {
	h, err := b.home("acp-memory")
	if err != nil {
		return err
	}
	var ids []string
	defer func() { err = errors.Join(err, h.end(ctx, ids...)) }()
	if _, err := h.List(ctx, benchCaller, sessions.ListArgs{}); err != nil { // starts the host
		return err
	}
	host, err := h.Status(ctx)
	if err != nil {
		return err
	}
	empty, err := benchMemory(host.PID)
	if err != nil {
		return err
	}
	n := b.pick(10, 2)
	for range n {
		s, err := h.create(ctx, benchCursor)
		if err != nil {
			return err
		}
		ids = append(ids, s.SessionID)
		wait := 20
		if _, err := h.Send(ctx, benchCaller, sessions.SendArgs{SessionID: s.SessionID, Text: "[burst 500 200]", WaitSeconds: &wait}); err != nil {
			return err
		}
	}
	full, err := benchMemory(host.PID)
	if err != nil {
		return err
	}
	all, err := demoProcesses()
	if err != nil {
		return err
	}
	var bridges []float64
	for _, p := range demoChildren(all, host.PID, " bridge") {
		kib, err := benchMemory(p.pid)
		if err != nil {
			return err
		}
		bridges = append(bridges, kib/1024)
	}
	if len(bridges) != n {
		return fmt.Errorf("%d bridges serve %d sessions", len(bridges), n)
	}
	b.report.add(benchFigure{Case: "memory of a session's bridge", Value: median(bridges), Unit: "MiB", atMost: 40,
		Note: fmt.Sprintf("the host grew by %.1f MiB a session", (full-empty)/1024/float64(n))})
	return nil
}
