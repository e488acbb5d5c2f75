package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
)

func newAttach() *cobra.Command {
	v := verb{signals: true}
	var a cli.Attach
	var tail string
	c := &cobra.Command{
		Use:   "attach ID",
		Short: "Look at a session and talk to its agent",
		Long: "Shows the session's history, then what happens. Each line is a prompt, queued while the agent is busy; what it asks is\n" +
			"answered in place. Ctrl-C interrupts the turn, a second one detaches, as the end of the input does; the session goes on.\n" +
			"Several may look at one session. :help tells what else a line can be.",
		Example:           "  baton attach 3f2a\n  baton attach --watch --tail all 3f2a",
		Args:              exactly(1, 1, "a session"),
		ValidArgsFunction: completeSessions(false, 1),
	}
	v.addPrincipal(c)
	c.Flags().BoolVar(&a.Watch, "watch", false, "only look: nothing is read from the terminal")
	c.Flags().StringVar(&tail, "tail", "50", "how many messages, tools and answers of its history are shown, or all")
	c.Flags().BoolVarP(&a.Times, "timestamps", "t", false, "say when each thing happened")
	c.Flags().BoolVar(&a.Reasoning, "reasoning", false, "also what the agent thinks")
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) (err error) {
		if a.Tail = -1; tail != "all" {
			if a.Tail, err = strconv.Atoi(tail); err != nil || a.Tail < 0 {
				return cli.Usage("--tail %q is neither a number nor all", tail)
			}
		}
		if a.ID, err = f.Session(ctx, args[0]); err != nil {
			return err
		}
		return f.Attach(ctx, a)
	})
	return c
}
