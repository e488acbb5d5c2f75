package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
)

func newWait() *cobra.Command {
	var v verb
	var w cli.WaitFor
	var after []string
	var until string
	c := &cobra.Command{
		Use:   "wait [ID...]",
		Short: "Wait until sessions are settled or ask something",
		Long: "Waits until every session named is settled, and prints what each said last. One that asks ends the wait with status 3.\n" +
			"With --any the first that is settled or asks ends it; without an ID, any session of the principal,\n" +
			"closed ones too, until --ack has said that its end was seen.\n" +
			"The status is that of the worst end: 1 a failed turn, 3 needs input, 5 outcome unknown, 6 time limit.",
		Example:           "  baton wait --any --timeout 10m 3f2a 77c1",
		Args:              exactly(0, -1, "sessions"),
		ValidArgsFunction: completeSessions(false, 0),
	}
	v.add(c, "id")
	c.Flags().BoolVar(&w.Any, "any", false, "the first of them will do")
	c.Flags().BoolVar(&w.Ack, "ack", false, "without an ID: what is printed now is not told by the next wait")
	c.Flags().DurationVar(&w.Limit, "timeout", 0, "wait no longer than this, as in 90s or 2h; the work goes on")
	c.Flags().StringArrayVar(&after, "after", nil, "CURSOR where one session is named, else ID=CURSOR: only what is newer counts")
	c.Flags().StringVar(&until, "until", "settled_or_input", "settled_or_input, or event for any event")
	complete(c, "until", func() []string { return []string{"settled_or_input", "event"} })
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) error {
		switch until {
		case "settled_or_input":
		case "event":
			w.Event = true
		default:
			return cli.Usage("--until %q is neither settled_or_input nor event", until)
		}
		if w.Ack && len(args) > 0 {
			return cli.Usage("--ack goes without an ID; use --after to tell what you have seen of the sessions named")
		}
		if err := settle(&w.Wait); err != nil {
			return err
		}
		for _, a := range args {
			id, err := f.Session(ctx, a)
			if err != nil {
				return err
			}
			w.IDs = append(w.IDs, id)
		}
		for _, a := range after {
			id, cursor, named := strings.Cut(a, "=")
			switch {
			case named:
				full, err := f.Session(ctx, id)
				if err != nil {
					return err
				}
				id = full
			case len(w.IDs) == 1:
				id, cursor = w.IDs[0], a
			default:
				return cli.Usage("--after %q names no session; give ID=CURSOR", a)
			}
			if w.After == nil {
				w.After = map[string]string{}
			}
			w.After[id] = cursor
		}
		return f.WaitFor(ctx, w)
	})
	return c
}
