// Command baton is an MCP server, a host of native coding-agent sessions, and the bridge between both, in one binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// version is the release, set by the linker (-X main.version=...).
var version = "0.1.0-dev"

// Exit codes, as scripts rely on them.
const (
	exitError   = 1 // failed turn or error
	exitUsage   = 2
	exitInput   = 3 // needs input
	exitMissing = 4 // not found
	exitUnknown = 5 // outcome unknown
	exitTime    = 6 // time limit
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
		fmt.Fprintln(os.Stderr, "baton: "+err.Error())
		return exitCode(err)
	}
	return 0
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func exitCode(err error) int {
	var u usageError
	var c codedError
	switch {
	case errors.As(err, &u):
		return exitUsage
	case errors.As(err, &c):
		return c.code
	}
	switch sessions.CodeOf(err) {
	case sessions.CodeInvalidParams:
		return exitUsage
	case sessions.CodeNotFound:
		return exitMissing
	case sessions.CodeOutcomeUnknown:
		return exitUnknown
	case sessions.CodeTimeout:
		return exitTime
	}
	return exitError
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
	root.AddCommand(newMCP(), newHost(), newRunners(), newDoctor(), newDemo(), newJournal(), newBench())
	return root
}
