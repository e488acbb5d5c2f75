package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

func newClose() *cobra.Command {
	var v verb
	var a sessions.CloseArgs
	var all bool
	c := &cobra.Command{
		Use:     "close ID...",
		Aliases: []string{"stop"},
		Short:   "End sessions with all their processes, and say whether that is proven",
		Long: "Ends the agent of each session and everything that it started. A closed session can be resumed, unless --delete forgets it\n" +
			"for good. --all ends every live session of the principal, and says first what that is and what keeps running.",
		Example:           "  baton close 3f2a\n  baton stop --all",
		Args:              exactly(0, -1, "sessions"),
		ValidArgsFunction: completeSessions(false, 0),
	}
	v.add(c, "id")
	guardFlags(c, &a.Guard)
	keyFlag(c, &a.Key)
	c.Flags().BoolVar(&a.Delete, "delete", false, "forget the session and its events for good")
	c.Flags().BoolVar(&all, "all", false, "every live session of the principal")
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) error {
		switch {
		case all && len(args) > 0:
			return cli.Usage("either --all or sessions by name")
		case all:
			return f.CloseAll(ctx, a)
		}
		return closeNamed(ctx, f, args, a)
	})
	return c
}

func closeNamed(ctx context.Context, f *cli.Front, args []string, a sessions.CloseArgs) error {
	switch {
	case len(args) == 0:
		return cli.Usage("no session was named")
	case len(args) > 1 && a.Key != "":
		return cli.Usage("a key is that of one session, and %d were named", len(args))
	}
	var ids []string
	for _, arg := range args {
		id, err := f.Session(ctx, arg)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	return f.Close(ctx, ids, a)
}

func newRemove() *cobra.Command {
	var v verb
	a := sessions.CloseArgs{Delete: true}
	c := &cobra.Command{
		Use:               "rm ID...",
		Short:             "End sessions and forget them for good, as close --delete does",
		Example:           "  baton rm 3f2a",
		Args:              exactly(1, -1, "sessions"),
		ValidArgsFunction: completeSessions(true, 0),
	}
	v.add(c, "id")
	guardFlags(c, &a.Guard)
	keyFlag(c, &a.Key)
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) error { return closeNamed(ctx, f, args, a) })
	return c
}
