package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

func newResume() *cobra.Command {
	var v verb
	var a sessions.ResumeArgs
	var s settings
	c := &cobra.Command{
		Use:   "resume ID",
		Short: "Take a closed or failed session up again, with its history",
		Long: "Starts the agent of a session again, under the same id, with every selection confirmed anew; what is not given is as it was.\n" +
			"Commands whose outcome was unknown are settled by the agent's own record where there is one.",
		Example:           "  baton resume 3f2a\n  baton resume --acknowledge-unknown 3f2a",
		Args:              exactly(1, 1, "a session"),
		ValidArgsFunction: completeSessions(true, 1),
	}
	v.add(c, "id")
	s.add(c)
	guardFlags(c, &a.Guard)
	keyFlag(c, &a.Key)
	c.Flags().BoolVar(&a.RunQueue, "run-queue", false, "send what was still queued")
	c.Flags().BoolVar(&a.AcceptUnconfirmed, "accept-unconfirmed", false, "start although the end of the old processes is not proven")
	c.Flags().BoolVar(&a.AcknowledgeUnknown, "acknowledge-unknown", false, "free the session from a command whose outcome is unknown")
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) (err error) {
		if a.Settings, err = s.read(); err != nil {
			return err
		}
		if a.SessionID, err = f.Session(ctx, args[0]); err != nil {
			return err
		}
		return f.Resume(ctx, a)
	})
	return c
}
