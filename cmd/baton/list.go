package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

func newList() *cobra.Command {
	var v verb
	var a sessions.ListArgs
	var state string
	var foreign, everyone bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ps", "ls"},
		Short:   "Show sessions, newest first",
		Long: "Shows the sessions of the principal that are live, or with --all closed and failed ones too. A session whose processes died\n" +
			"is shown as what it is. On a terminal of less than 120 columns ids are cut to what tells them apart.\n\n" +
			"--foreign shows something else: the conversations that the agents themselves keep, and that are no sessions of Baton's,\n" +
			"with the process that holds one where that can be seen. baton read --native and baton resume --native take their ids.\n\n" +
			"--all-principals is for the owner of the machine: the sessions of everybody, tokens of HTTP among them.",
		Example: "  baton list --all -o wide\n  baton ps --json\n  baton list --foreign -r codex",
		Args:    exactly(0, 0, "no argument beside its flags"),
	}
	v.add(c, "wide", "id")
	c.Flags().BoolVarP(&a.All, "all", "a", false, "closed and failed ones too")
	c.Flags().StringVarP(&a.Cwd, "cwd", "C", "", "only those that work in this directory")
	c.Flags().StringVarP(&a.Runner, "runner", "r", "", "only those of this runner")
	c.Flags().StringVar(&state, "state", "", "only those in this state")
	c.Flags().IntVarP(&a.Limit, "limit", "n", 0, "at most so many (default: all)")
	c.Flags().BoolVar(&foreign, "foreign", false, "instead: conversations of the agents' own, which are no sessions")
	c.Flags().BoolVar(&everyone, "all-principals", false, "those of every principal")
	must(c.MarkFlagDirname("cwd"))
	completeRunners(c)
	complete(c, "state", func() (all []string) {
		for _, s := range sessions.SessionStates() {
			all = append(all, string(s))
		}
		return all
	})
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, _ []string) (err error) {
		if a.Cwd != "" {
			if a.Cwd, err = absoluteDir(a.Cwd); err != nil {
				return err
			}
		}
		if everyone && (foreign || c.Flags().Changed("principal")) {
			return cli.Usage("--all-principals does not go with --principal and --foreign")
		}
		if foreign {
			if a.All || state != "" {
				return cli.Usage("--foreign does not go with --all and --state: what is no session has no state")
			}
			return f.ListForeign(ctx, sessions.ForeignArgs{Runner: a.Runner, Cwd: a.Cwd, Limit: a.Limit})
		}
		a.State = sessions.SessionState(state)
		if everyone {
			return f.ListAll(ctx, a)
		}
		return f.List(ctx, a)
	})
	return c
}
