package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

// native names a conversation that is no session, in place of one.
type native struct {
	id, runner string
}

func (n *native) add(c *cobra.Command) {
	c.Flags().StringVar(&n.id, "native", "", "in place of a session: this conversation of an agent's own (baton list --foreign)")
	c.Flags().StringVarP(&n.runner, "runner", "r", "", "with --native: the agent whose conversation it is")
	completeRunners(c)
}

func (n *native) given() bool { return n.id != "" || n.runner != "" }

func (n *native) args() sessions.ForeignReadArgs {
	return sessions.ForeignReadArgs{Runner: n.runner, NativeID: n.id}
}

// or takes a number of arguments, or none where a conversation is named instead.
func (n *native) or(most int, what string) cobra.PositionalArgs {
	one := exactly(1, most, what)
	return func(c *cobra.Command, args []string) error {
		if !n.given() {
			return one(c, args)
		}
		if len(args) > 0 {
			return usageError{fmt.Errorf("%s takes either %s or --native, both were given", c.CommandPath(), what)}
		}
		return nil
	}
}

// alone refuses what a conversation of an agent's own does not have, and half of its name.
func (n *native) alone(c *cobra.Command, flags ...string) error {
	if n.id == "" || n.runner == "" {
		return cli.Usage("--native ID and -r RUNNER go together; baton list --foreign shows both")
	}
	for _, flag := range flags {
		if c.Flags().Changed(flag) {
			return cli.Usage("--%s does not go with --native", flag)
		}
	}
	return nil
}
