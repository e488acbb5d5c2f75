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

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions/bridge"
)

// version is the release, set by the linker (-X main.version=...).
var version = "0.1.0-dev"

// Exit codes, as scripts rely on them.
const (
	exitError   = cli.ExitFailed
	exitUsage   = cli.ExitUsage
	exitMissing = cli.ExitMissing
)

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) > 1 {
		switch os.Args[1] { // hidden processes: before anything else of the program runs
		case bridge.Command:
			return bridge.Main(version, adapters())
		case agentCommand:
			return runAgent(os.Args[2:])
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "baton: "+cli.Spoken(err.Error()))
		return exitCode(err)
	}
	return 0
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
	group(root)
	for _, c := range root.Commands() {
		if c.HasSubCommands() && !c.Runnable() {
			group(c)
		}
	}
	return root
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
