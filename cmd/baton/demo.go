package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/sandbox"
)

// demoLimit bounds a whole demo: a step that hangs is a step that fails.
const demoLimit = 3 * time.Minute

// demoTidyLimit bounds the tidying up after the demo, however it ended.
const demoTidyLimit = 45 * time.Second

func newDemo() *cobra.Command {
	var asJSON, keep bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job with two scripted agents, in a folder of its own, and check every step of it",
		Long: "Runs Baton as an assistant would, through MCP over stdio, with two scripted agents that are part of this program:\n" +
			"one speaks the protocol of Codex, one that of Cursor. It needs no agent, no login, no model and no network, uses a\n" +
			"temporary folder and leaves nothing behind. A step that does not end as promised fails the demo.",
		Example: "  baton demo\n  baton demo --json",
		Args:    exactly(0, 0, "no argument beside its flags"),
		RunE: func(c *cobra.Command, _ []string) error {
			if os.Getenv(sandbox.MarkerEnv) != "" {
				return errInside
			}
			return runDemo(c.Context(), &demoReport{out: os.Stdout, json: asJSON, began: time.Now()}, keep)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON: one object a step, and a summary as the last one")
	c.Flags().BoolVar(&keep, "keep", false, "keep the folder, with its journal and its logs")
	return c
}

// demo is one run. Its steps run one after the other on one goroutine.
type demo struct {
	report *demoReport
	home   *demoHome
	mcp    *demoClient
	codex  *demoSession
	cursor *demoSession
	host   int // the pid of the host that serves now
	seen   demoCensus

	rung, stopped, proof string // what closing proved
}

// errDemoEnded is the cause of a demo that its user, or the end of its output, ended.
var errDemoEnded = errors.New("interrupted")

func runDemo(ctx context.Context, report *demoReport, keep bool) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the demo took longer than %s", demoLimit))
	defer cancel()
	ctx, quit := context.WithCancelCause(ctx)
	defer quit(nil)
	// With SIGPIPE taken, a reader that goes away is a failed write, and what was started is still tidied up.
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE)
	defer signal.Stop(gone)
	report.broken = func(err error) { quit(fmt.Errorf("%w: the output cannot be written: %w", errDemoEnded, err)) }

	d := &demo{report: report, seen: demoCensus{}}
	if d.home, err = newDemoHome(keep); err != nil {
		return err
	}
	report.head(d.home)
	// Everything is ended and removed whatever happened, also after an interrupt or a panic.
	var failed *demoFailure
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), demoTidyLimit)
		defer cancel()
		left, tidyErr := d.tidy(ctx)
		if failed == nil && tidyErr != nil {
			failed = &demoFailure{"end", tidyErr}
		}
		d.report.summary(d, failed, left)
		switch {
		case failed == nil:
		case errors.Is(failed.err, errDemoEnded):
			err = codedError{errors.New("the demo was interrupted"), exitError}
		default:
			err = codedError{fmt.Errorf("the demo failed in step %s", failed.step), exitError}
		}
	}()
	failed = d.steps(ctx)
	return nil
}

// demoFailure is the step that failed and why.
type demoFailure struct {
	step string
	err  error
}

func (d *demo) steps(ctx context.Context) *demoFailure {
	for _, s := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"start", d.start},
		{"runners", d.runners},
		{"create", d.create},
		{"processes", d.processes},
		{"refuse", d.refuse},
		{"stream", d.stream},
		{"approve", d.approve},
		{"deny", d.deny},
		{"question", d.question},
		{"cancel", d.cancel},
		{"crash", d.crash},
		{"close", d.close},
		{"end", d.end},
	} {
		d.report.begin(s.name)
		err := context.Cause(ctx)
		if err == nil {
			err = s.do(ctx)
		}
		if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = context.Cause(ctx)
		}
		if errors.Is(err, context.Canceled) {
			err = errDemoEnded
		}
		d.report.end(err)
		if err != nil {
			return &demoFailure{s.name, err}
		}
	}
	return nil
}

// both runs a step for one session after the other.
func (d *demo) both(do func(*demoSession) error) error {
	for _, s := range []*demoSession{d.codex, d.cursor} {
		if err := do(s); err != nil {
			return fmt.Errorf("%s: %w", s.runner, err)
		}
	}
	return nil
}

// say prints one line about a session, or about none.
func (d *demo) say(s *demoSession, format string, args ...any) {
	who := ""
	if s != nil {
		who = s.runner
	}
	d.report.line(who, fmt.Sprintf(format, args...))
}
