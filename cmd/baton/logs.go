package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/internal/transcript"
)

func newLogs() *cobra.Command {
	var v verb
	var l cli.Logs
	var since, tail string
	var n native
	c := &cobra.Command{
		Use:   "logs ID",
		Short: "Print what was asked, said and done in a session",
		Long: "Prints a session for people: prompts, answers, tools with the end of their output, approvals and outcomes. --raw prints\n" +
			"its events as JSON lines. With -f it goes on with what happens, until the session ends or you interrupt it; the work\n" +
			"notices neither. What can no longer be read is said.",
		Example:           "  baton logs -f --tail 20 3f2a\n  baton logs --since 10m 3f2a",
		Args:              n.or(1, "a session"),
		ValidArgsFunction: completeSessions(true, 1),
	}
	v.add(c)
	c.Flags().BoolVarP(&l.Follow, "follow", "f", false, "go on with what happens")
	c.Flags().BoolVar(&l.Raw, "raw", false, "print events, as --json does")
	c.Flags().StringVar(&since, "since", "", "what happened since a time ago, as in 10m, or a date")
	c.Flags().StringVar(&tail, "tail", "all", "the last so many messages, tools and answers")
	c.Flags().BoolVarP(&l.Times, "timestamps", "t", false, "say when each thing happened")
	c.Flags().BoolVar(&l.Reasoning, "reasoning", false, "also what the agent thought")
	c.Flags().BoolVar(&l.Pager, "pager", false, "show it in the pager, on a terminal")
	n.add(c)
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) (err error) {
		l.Raw = l.Raw || v.json || v.output == "json"
		if l.Tail = -1; tail != "all" {
			if l.Tail, err = strconv.Atoi(tail); err != nil || l.Tail < 0 {
				return cli.Usage("--tail %q is neither a number nor all", tail)
			}
		}
		if n.given() {
			if err := n.alone(c, "follow", "since", "pager"); err != nil {
				return err
			}
			return f.ForeignLogs(ctx, cli.ForeignLogs{ForeignReadArgs: n.args(), Raw: l.Raw, Tail: l.Tail, Options: l.Options})
		}
		if l.Since, err = cli.ParseSince(since, time.Now()); err != nil {
			return err
		}
		if l.ID, err = f.Session(ctx, args[0]); err != nil {
			return err
		}
		return f.Logs(ctx, l)
	})
	return c
}

func newTranscript() *cobra.Command {
	var principal verb
	var o transcript.Options
	var pager bool
	var n native
	c := &cobra.Command{
		Use:               "transcript ID",
		Short:             "Print a session as Markdown",
		Example:           "  baton transcript 3f2a >review.md",
		Args:              n.or(1, "a session"),
		ValidArgsFunction: completeSessions(true, 1),
	}
	principal.addPrincipal(c)
	c.Flags().BoolVarP(&o.Times, "timestamps", "t", false, "say when each prompt was given")
	c.Flags().BoolVar(&o.Reasoning, "reasoning", false, "also what the agent thought")
	c.Flags().BoolVar(&pager, "pager", false, "show it in the pager, on a terminal")
	n.add(c)
	c.RunE = principal.run(func(ctx context.Context, f *cli.Front, args []string) error {
		if n.given() {
			if err := n.alone(c, "pager"); err != nil {
				return err
			}
			return f.ForeignLogs(ctx, cli.ForeignLogs{ForeignReadArgs: n.args(), Markdown: true, Options: o})
		}
		id, err := f.Session(ctx, args[0])
		if err != nil {
			return err
		}
		return f.Transcript(ctx, id, o, pager)
	})
	return c
}
