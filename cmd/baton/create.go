package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

func newCreate() *cobra.Command {
	var v verb
	var a sessions.CreateArgs
	var s settings
	var w cli.Wait
	c := &cobra.Command{
		Use:   "create -r RUNNER [-C DIR]",
		Short: "Start an agent's session, which outlives this command and its terminal",
		Long: "Starts a session and returns once the agent itself has confirmed model, effort, mode and sandbox. With --prompt its first\n" +
			"turn begins as well, and goes on without any terminal. Prints the session; -o id prints its id alone.",
		Example: "  baton create -r codex -C ~/project --prompt 'Run the tests and fix what fails.' -o id",
		Args:    exactly(0, 0, "no argument beside its flags"),
	}
	v.add(c, "id")
	s.add(c)
	createFlags(c, &a)
	c.Flags().StringVar(&a.Prompt, "prompt", "", "the first command; - reads it from standard input")
	c.Flags().StringVar(&a.CommandID, "command-id", "", "id of the first command")
	waitFlags(c, &w, "the first turn")
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, _ []string) (err error) {
		if err = settle(&w); err != nil {
			return err
		}
		if a.Prompt == "-" {
			if a.Prompt, err = f.Text(nil); err != nil {
				return err
			}
		}
		if err := createArgs(&a, &s); err != nil {
			return err
		}
		return f.Create(ctx, a, w)
	})
	return c
}

// createFlags are what create and run take alike.
func createFlags(c *cobra.Command, a *sessions.CreateArgs) {
	c.Flags().StringVarP(&a.Runner, "runner", "r", "", "the agent: codex, cursor, or a runner of the configuration")
	c.Flags().StringVarP(&a.Cwd, "cwd", "C", ".", "the directory that the agent works in")
	c.Flags().StringVar(&a.Title, "title", "", "one line that tells people what it is about")
	c.Flags().StringVar(&a.SessionID, "id", "", "reserve this lowercase UUID: creating it again returns the same session")
	keyFlag(c, &a.Key)
	must(c.MarkFlagDirname("cwd"))
	completeRunners(c)
}

func createArgs(a *sessions.CreateArgs, s *settings) (err error) {
	if a.Runner == "" {
		return cli.Usage("no runner was named; give -r RUNNER, baton runners shows what is there")
	}
	if a.Cwd, err = absoluteDir(a.Cwd); err != nil {
		return err
	}
	a.Settings, err = s.read()
	return err
}
