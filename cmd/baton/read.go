package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

func newRead() *cobra.Command {
	var v verb
	var a cli.ReadPage
	var kinds []string
	var n native
	c := &cobra.Command{
		Use:   "read ID",
		Short: "Print the numbered events of a session",
		Long: "Prints events from a cursor on: all there are, or a page of --limit. With --json each is an object on its line; --page prints\n" +
			"one page as a single object, with the cursor of what follows it. --native reads a conversation of an agent's own instead,\n" +
			"all of it, as the agent has it on record.",
		Example:           "  baton read --json --kinds text,command.settled 3f2a\n  baton read --native 019a... -r codex",
		Args:              n.or(1, "a session"),
		ValidArgsFunction: completeSessions(true, 1),
	}
	v.add(c)
	guardFlags(c, &a.Guard)
	c.Flags().StringVar(&a.After, "after", "", "cursor; left out: from the beginning")
	c.Flags().IntVarP(&a.Limit, "limit", "n", 0, "at most so many events, and no more than 500 (default: all)")
	c.Flags().StringSliceVar(&kinds, "kinds", nil, "only events of these kinds")
	c.Flags().IntVar(&a.MaxChars, "max-chars", sessions.MaxChars, "budget of all texts of a page")
	c.Flags().BoolVar(&a.Whole, "page", false, "print a page as one JSON object, as the tool does")
	complete(c, "kinds", func() (all []string) {
		for _, k := range sessions.EventKinds() {
			all = append(all, string(k))
		}
		return all
	})
	n.add(c)
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) (err error) {
		if n.given() {
			if err := n.alone(c, "after", "limit", "kinds", "max-chars", "page", "lease", "generation"); err != nil {
				return err
			}
			l := cli.ForeignLogs{ForeignReadArgs: n.args(), Events: true, Raw: v.json || v.output == "json", Tail: -1}
			l.Reasoning, l.Times = true, true
			return f.ForeignLogs(ctx, l)
		}
		for _, k := range kinds {
			a.Kinds = append(a.Kinds, sessions.EventKind(k))
		}
		if a.SessionID, err = f.Session(ctx, args[0]); err != nil {
			return err
		}
		return f.Read(ctx, a)
	})
	return c
}
