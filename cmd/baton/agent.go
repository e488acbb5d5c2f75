package main

import (
	"fmt"
	"os"

	"github.com/batonmcp/baton/fixtures/codexlike"
	"github.com/batonmcp/baton/fixtures/cursorlike"
)

// agentCommand is the hidden sub-command that makes a process one of the embedded scripted agents.
const agentCommand = "agent"

func runAgent(args []string) int {
	if len(args) > 0 {
		switch args[0] {
		case "app-server":
			return codexlike.Main(args[1:], os.Stdin, os.Stdout, os.Stderr)
		case "acp":
			return cursorlike.Main(args[1:], os.Stdin, os.Stdout, os.Stderr)
		case benchTool:
			return runBenchTool()
		}
	}
	fmt.Fprintln(os.Stderr, "baton agent: app-server or acp")
	return exitUsage
}
