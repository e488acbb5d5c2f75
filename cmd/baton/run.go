package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
)

func newRun() *cobra.Command {
	v := verb{signals: true}
	var r cli.Run
	var s settings
	var detach bool
	c := &cobra.Command{
		Use:   "run -r RUNNER [-C DIR] PROMPT",
		Short: "Give an agent one prompt in a session of its own, and watch it",
		Long: "Creates a session, shows its turn as it happens, asks at the terminal what the agent asks, and closes the session. What the\n" +
			"agent says goes to standard output, everything else to standard error. Ctrl-C interrupts the turn, a second one leaves it\n" +
			"to itself. Without a terminal nobody is asked: the status is 3, and how to answer is said. --detach returns at once with\n" +
			"the session's id; the agent works on without any terminal.",
		Example:           "  baton run -r codex -C ~/project 'Run the tests and fix what fails.'\n  baton run --detach -r codex 'Update the dependencies.'",
		Args:              exactly(0, -1, "a prompt"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	v.add(c, "id")
	s.add(c)
	createFlags(c, &r.CreateArgs)
	c.Flags().BoolVarP(&detach, "detach", "d", false, "start it and return; the work goes on")
	c.Flags().BoolVar(&r.Keep, "keep", false, "leave the session open")
	c.Flags().BoolVarP(&r.Quiet, "quiet", "q", false, "print what the agent says and nothing else")
	c.Flags().BoolVar(&r.Reasoning, "reasoning", false, "also what the agent thinks")
	c.Flags().DurationVar(&r.Limit, "timeout", 0, "cancel the turn when it takes longer than this, as in 90s or 2h")
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) (err error) {
		if r.Limit < 0 || detach && (r.Limit > 0 || r.Keep || r.Quiet) {
			return cli.Usage("--timeout wants a time above 0; --timeout, --keep and --quiet do not go with --detach")
		}
		if r.Prompt, err = f.Text(args); err != nil {
			return err
		}
		if err := createArgs(&r.CreateArgs, &s); err != nil {
			return err
		}
		if detach {
			return f.Create(ctx, r.CreateArgs, cli.Wait{})
		}
		return f.Run(ctx, r)
	})
	return c
}
