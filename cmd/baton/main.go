// Command baton is an MCP server, a host of native coding-agent sessions, and the bridge between both, in one binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	_ "github.com/batonmcp/baton/internal/early"        // a bridge goes no further than this
	_ "github.com/batonmcp/baton/internal/notonwindows" // what its name says, to who builds there
	"github.com/batonmcp/baton/internal/release"
	"github.com/batonmcp/baton/sessions"
)

var version = release.Version

// Exit codes, as scripts rely on them.
const (
	exitError   = cli.ExitFailed
	exitUsage   = cli.ExitUsage
	exitMissing = cli.ExitMissing
)

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) > 1 && os.Args[1] == agentCommand { // a hidden process; the other one, a bridge, never comes here
		return runAgent(os.Args[2:])
	}
	if err := readable(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "baton: "+err.Error())
		return exitCode(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "baton: "+cli.Spoken(err.Error()+cli.Said(err)))
		return exitCode(err)
	}
	return 0
}

// readable refuses words that no JSON could carry: what is not UTF-8 in them would reach the host, and an agent, altered.
func readable(args []string) error {
	for i, a := range args {
		if !utf8.ValidString(a) {
			return sessions.Errorf(sessions.CodeInvalidParams, "argument %d is not valid UTF-8: %.60q", i+1, a).Do("give it in UTF-8; nothing was done")
		}
	}
	return nil
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func exitCode(err error) int {
	var u usageError
	var c codedError
	var e *cli.Ended
	switch {
	case errors.As(err, &u):
		return exitUsage
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &e):
		return e.Status
	}
	return cli.Status(err)
}

// codedError ends the program with a code of its own.
type codedError struct {
	error
	code int
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "baton",
		Short:         "Native coding-agent sessions for assistants, IDEs and scripts",
		Long:          "Baton creates, steers, resumes and ends native coding-agent sessions (Codex, Cursor, any ACP agent) and tells the truth about them after any crash.",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newMCP(), newHost(), newRunners(), newDoctor(), newDemo(), newInstall(), newUninstall(), newToken(), newJournal(), newBench())
	root.AddCommand(newCreate(), newSend(), newWait(), newRead(), newRespond(), newCancel(), newClose(), newRemove(), newResume(), newList(),
		newLogs(), newTranscript(), newRun(), newAttach())
	root.InitDefaultCompletionCmd() // which cobra else makes only when the command line is read, and which takes any word
	root.SetHelpCommand(newHelp())
	group(root)
	for _, c := range root.Commands() {
		if c.HasSubCommands() && !c.Runnable() {
			group(c)
		}
	}
	return root
}

// newHelp is `baton help`, which refuses what it does not know.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Say what a command does",
		Example: "  baton help send",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			found, _, err := c.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, sub := range found.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Errorf("there is no command %.80q; see baton --help", strings.Join(args, " "))}
			}
			return found.Help()
		},
	}
}

// group makes a command that only holds others refuse what it does not know, and show its help when nothing is asked.
func group(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		text := fmt.Sprintf("there is no command %.80q of %s", args[0], c.CommandPath())
		c.SuggestionsMinimumDistance = 2
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			text += ", only " + strings.Join(near, ", ")
		}
		return usageError{fmt.Errorf("%s; see %s --help", text, c.CommandPath())}
	}
}
