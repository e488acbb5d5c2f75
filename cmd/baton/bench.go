package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// bench is one run of measurements in a folder of its own.
type bench struct {
	quick  bool
	dir    string
	report *benchReport
}

// benches are the measurements by name, in the order in which they run.
var benches = []struct {
	name  string
	about string
	run   func(*bench, context.Context) error
}{
	{"intents", "durable intents a second, against a file that is opened, written, synced and closed for each", (*bench).intents},
	{"stream", "a fast agent's updates through bridge, journal and a reader, against the pipe of the same agent", (*bench).stream},
	{"latency", "receipts of sends, and wake-ups of waits, against a pipe and one sync", (*bench).latency},
	{"mcp", "the MCP server: other calls beside 130 slow ones, calls a second against a bare tool, its start against a process that does nothing", (*bench).mcp},
	{"acp", "prompts, updates and memory of an ACP agent's session, against its pipe and, where they are named, other programs", (*bench).acp},
	{"sandbox", "what containment costs: a session's start against the agent's alone, and a bridge that has nothing to do", (*bench).sandbox},
	{"codex", "the real Codex, where it is named: turns, updates, start and memory of sessions, against the same program started by hand", (*bench).codex},
	{"cli", "commands of the shell against a process that does nothing, the agent alone and, where it is named, acpx", (*bench).cli},
	{"history", "starting a host, and reading the last page, with much history against little", (*bench).history},
}

func newBench() *cobra.Command {
	var quick, asJSON bool
	var dir string
	var about strings.Builder
	names := make([]string, len(benches))
	for i, b := range benches {
		names[i] = b.name
		fmt.Fprintf(&about, "  %-8s  %s\n", b.name, b.about)
	}
	c := &cobra.Command{
		Use:   "bench [NAME...]",
		Short: "Measure this machine: every figure beside the floor it is compared with",
		Long: "Measures with the scripted agents that are part of this program, in a temporary folder, and leaves nothing behind. Floors are\n" +
			"taken in the same run, in turn with what they are compared with: trust the ratios, not the figures of a shared machine.\n" +
			"A figure that misses what is wanted is marked; what is lost or unreadable is an error.\n\n" + about.String(),
		Example:   "  baton bench\n  baton bench stream --json\n  baton bench --quick",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			for _, a := range args {
				if !slices.Contains(names, a) {
					return usageError{fmt.Errorf("there is no measurement %q; there are %s", a, strings.Join(names, ", "))}
				}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return runBench(c.Context(), args, &bench{quick: quick, report: &benchReport{out: os.Stdout, json: asJSON, quick: quick}}, dir)
		},
	}
	c.Flags().BoolVar(&quick, "quick", false, "small numbers, to see that it works; nothing is compared with what is wanted")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one figure a line")
	c.Flags().StringVar(&dir, "dir", "", "where the temporary folder is made (default: that of the system); it should be a disk, not memory")
	return c
}

func runBench(ctx context.Context, names []string, b *bench, parent string) (err error) {
	if b.dir, err = os.MkdirTemp(parent, "baton-bench-"); err != nil {
		return err
	}
	defer func() {
		if e := os.RemoveAll(b.dir); err == nil {
			err = e
		}
	}()
	b.report.head(b.dir)
	for _, m := range benches {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		b.report.begin(m.name, m.about)
		if err := m.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return b.report.end()
}

// pick is the number of a full run, or of a quick one.
func (b *bench) pick(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}
