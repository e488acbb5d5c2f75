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
	var n native
	var dir, title, id string
	c := &cobra.Command{
		Use:   "resume ID",
		Short: "Take a closed or failed session up again, with its history",
		Long: "Starts the agent of a session again, under the same id, with every selection confirmed anew; what is not given is as it was.\n" +
			"Commands whose outcome was unknown are settled by the agent's own record where there is one.\n\n" +
			"--native adopts a conversation of an agent's own instead, one that baton list --foreign shows: a new session takes it up in\n" +
			"the directory of its own record, with its history as the agent tells it, and with every selection confirmed. It is refused\n" +
			"while another process has it open, which Codex tells; no ACP agent tells of other processes.",
		Example:           "  baton resume 3f2a\n  baton resume --acknowledge-unknown 3f2a\n  baton resume --native 019a... -r codex",
		Args:              n.or(1, "a session"),
		ValidArgsFunction: completeSessions(true, 1),
	}
	v.add(c, "id")
	s.add(c)
	guardFlags(c, &a.Guard)
	keyFlag(c, &a.Key)
	c.Flags().BoolVar(&a.RunQueue, "run-queue", false, "send what was still queued")
	c.Flags().BoolVar(&a.AcceptUnconfirmed, "accept-unconfirmed", false, "start although the end of the old processes is not proven")
	c.Flags().BoolVar(&a.AcknowledgeUnknown, "acknowledge-unknown", false, "free the session from a command whose outcome is unknown")
	n.add(c)
	c.Flags().StringVarP(&dir, "cwd", "C", "", "with --native: refuse a conversation of another directory")
	c.Flags().StringVar(&title, "title", "", "with --native: one line that tells people what it is about (default: the conversation's own)")
	c.Flags().StringVar(&id, "id", "", "with --native: reserve this lowercase UUID for the session")
	must(c.MarkFlagDirname("cwd"))
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) (err error) {
		if a.Settings, err = s.read(); err != nil {
			return err
		}
		switch {
		case n.given():
			if err := n.alone(c, "run-queue", "accept-unconfirmed", "acknowledge-unknown", "lease", "generation"); err != nil {
				return err
			}
			if dir != "" {
				if dir, err = absoluteDir(dir); err != nil {
					return err
				}
			}
			return f.Adopt(ctx, sessions.AdoptArgs{Runner: n.runner, NativeID: n.id, Cwd: dir, SessionID: id, Title: title, Settings: a.Settings, Key: a.Key})
		case dir != "" || title != "" || id != "":
			return cli.Usage("--cwd, --title and --id go with --native: a session has its own")
		}
		if a.SessionID, err = f.Session(ctx, args[0]); err != nil {
			return err
		}
		return f.Resume(ctx, a)
	})
	return c
}
