package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// How long a bridge is left alone before it is looked at: until it has given its memory back, and is asked as rarely as it
// ever is; and how long it is then watched.
const (
	benchRest  = 8 * time.Second
	benchPeace = 70 * time.Second
	benchWatch = 10 * time.Second
)

// sandbox measures what containment costs: the start of a session, and a bridge that has nothing to do.
func (b *bench) sandbox(ctx context.Context) (err error) {
	h, err := b.home("sandbox")
	if err != nil {
		return err
	}
	var ids []string
	defer func() { err = errors.Join(err, h.end(ctx, ids...)) }()
	if _, err := h.List(ctx, benchCaller, sessions.ListArgs{}); err != nil { // starts the host
		return err
	}
	var started, bare []float64
	for range b.pick(30, 2) {
		began := time.Now()
		pipe, err := startBenchAgent(ctx, h, agentCommand, "acp")
		if err != nil {
			return err
		}
		_, err = pipe.converse(h.work())
		bare = append(bare, milliseconds(time.Since(began)))
		if err := errors.Join(err, pipe.end()); err != nil {
			return err
		}
		began = time.Now()
		s, err := h.create(ctx, benchCursor)
		if err != nil {
			return err
		}
		started = append(started, milliseconds(time.Since(began)))
		if len(ids) > 0 { // the last one stays, to be looked at
			if _, err := h.Close(ctx, benchCaller, sessions.CloseArgs{SessionID: ids[0]}); err != nil {
				return err
			}
		}
		ids = []string{s.SessionID}
	}
	b.report.add(benchFigure{Case: "a session's start, p50", Value: percentile(started, 50), Floor: percentile(bare, 50), Unit: "ms",
		Note: "the floor is the agent, started by hand until it has a conversation"})
	return b.idleBridge(ctx, h)
}

// idleBridge looks at the bridge of a session whose agent is silent.
func (b *bench) idleBridge(ctx context.Context, h *benchHome) error {
	host, err := h.Status(ctx)
	if err != nil {
		return err
	}
	all, err := demoProcesses()
	if err != nil {
		return err
	}
	bridges := demoChildren(all, host.PID, " bridge")
	if len(bridges) != 1 {
		return fmt.Errorf("%d bridges serve one session", len(bridges))
	}
	pid := bridges[0].pid
	if b.quick {
		return nil
	}
	if err := benchSleep(ctx, benchRest); err != nil {
		return err
	}
	kib, err := benchMemory(pid)
	if err != nil {
		return err
	}
	b.report.add(benchFigure{Case: "memory of an idle bridge", Value: kib / 1024, Unit: "MiB", atMost: 12})
	if err := benchSleep(ctx, benchPeace-benchRest); err != nil {
		return err
	}
	before, err := benchSwitches(pid)
	if err != nil {
		b.report.remark("nothing tells here how often a process is woken: " + err.Error())
		return nil
	}
	if err := benchSleep(ctx, benchWatch); err != nil {
		return err
	}
	after, err := benchSwitches(pid)
	if err != nil {
		return err
	}
	b.report.add(benchFigure{Case: "its wake-ups in 10 s", Value: after - before, Unit: "times", atMost: 10,
		Note: "0 but for the question whether it lives, once a minute"})
	return nil
}

func benchSleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// benchSwitches counts how often the threads of a process gave up the processor by themselves, to be woken again.
func benchSwitches(pid int) (n float64, err error) {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/status"))
	if err != nil || len(files) == 0 {
		return 0, errors.Join(err, errors.ErrUnsupported)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		for line := range strings.Lines(string(text)) {
			if count, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				v, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
				if err != nil {
					return 0, err
				}
				n += v
			}
		}
	}
	return n, nil
}
