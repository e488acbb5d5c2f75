package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// demoProcess is one process of this machine. pid and started together are never used twice.
type demoProcess struct {
	pid, ppid int
	started   int64 // in the system's unit
	argv      string
	ended     bool // a zombie: nobody has reaped it
}

func (p demoProcess) id() string { return fmt.Sprintf("%d/%d", p.pid, p.started) }

// demoCensus is every process that the demo saw below its own, by identity.
type demoCensus map[string]demoProcess

// look adds what lives below the roots and below what was seen before, and returns the whole machine.
func (c demoCensus) look(roots ...int) ([]demoProcess, error) {
	all, err := demoProcesses()
	if err != nil {
		return nil, err
	}
	ours := map[int]bool{}
	for _, pid := range roots {
		ours[pid] = true
	}
	for _, p := range all {
		if _, known := c[p.id()]; known {
			ours[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if ours[p.ppid] && !ours[p.pid] {
				ours[p.pid], grown = true, true
			}
		}
	}
	for _, p := range all {
		if ours[p.pid] && p.pid != os.Getpid() && !p.ended {
			c[p.id()] = p
		}
	}
	return all, nil
}

// left returns what still lives of all that was seen, and whatever else carries the folder in its environment.
func (c demoCensus) left(folder string) ([]demoProcess, error) {
	all, err := demoProcesses()
	if err != nil {
		return nil, err
	}
	var left []demoProcess
	for _, p := range all {
		if p.ended || p.pid == os.Getpid() {
			continue
		}
		if _, known := c[p.id()]; known || folder != "" && strings.Contains(demoEnviron(p.pid), folder) {
			left = append(left, p)
		}
	}
	return left, nil
}

// await waits until none of the processes lives, of those that were seen or carry the folder ("": the former alone).
func (c demoCensus) await(ctx context.Context, limit time.Duration, folder string, which func(demoProcess) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		all, err := c.left(folder)
		if err != nil {
			return err
		}
		var left []string
		for _, p := range all {
			if which(p) {
				left = append(left, fmt.Sprintf("%d %s", p.pid, p.argv))
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("still there after %s: %s", limit, strings.Join(left, ", "))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends processes that should have ended by themselves. It is for a demo that has failed.
func (c demoCensus) kill(ctx context.Context, left []demoProcess) error {
	var errs []error
	for _, p := range left {
		if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("kill %d %s: %w", p.pid, p.argv, err))
		}
	}
	return errors.Join(append(errs, c.await(ctx, 5*time.Second, "", func(demoProcess) bool { return true }))...)
}

// demoChildren are the children of a process whose command line has a word, the oldest first: pids begin anew now and then.
func demoChildren(all []demoProcess, parent int, argv string) (out []demoProcess) {
	for _, p := range all {
		if p.ppid == parent && !p.ended && strings.Contains(p.argv, argv) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b demoProcess) int { return cmp.Compare(a.started, b.started) })
	return out
}
