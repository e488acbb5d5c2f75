package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

func newCancel() *cobra.Command {
	var v verb
	var a sessions.CancelArgs
	c := &cobra.Command{
		Use:   "cancel ID [COMMAND]",
		Short: "Interrupt the running turn of a session, or cancel a queued command",
		Long: "Cancels the command that is named, or the one that runs; the session stays usable. A UUID that names nothing yet is fenced:\n" +
			"it can never start. So does the id of a session that was reserved and not created.",
		Example:           "  baton cancel 3f2a",
		Args:              exactly(1, 2, "a session and a command"),
		ValidArgsFunction: completeSessions(false, 1),
	}
	v.add(c, "id")
	guardFlags(c, &a.Guard)
	keyFlag(c, &a.Key)
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) (err error) {
		if a.SessionID, err = f.Session(ctx, args[0]); err != nil {
			return err
		}
		if len(args) > 1 {
			a.CommandID = args[1]
		}
		return f.Cancel(ctx, a)
	})
	return c
}
