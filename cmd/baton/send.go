package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

func newSend() *cobra.Command {
	var v verb
	var a sessions.SendArgs
	var w cli.Wait
	c := &cobra.Command{
		Use:   "send ID [PROMPT]",
		Short: "Give a session a prompt",
		Long: "Gives a session a prompt and returns; the turn goes on by itself. With --wait it prints what the agent said last, and the\n" +
			"status tells how the turn ended. The prompt is read from standard input where it is - or left out.",
		Example:           "  baton send --wait --key fix-the-tests 3f2a 'Run the tests and fix what fails.'",
		Args:              exactly(1, -1, "a session and a prompt"),
		ValidArgsFunction: completeSessions(false, 1),
	}
	v.add(c, "id")
	guardFlags(c, &a.Guard)
	waitFlags(c, &w, "the turn")
	c.Flags().StringVar(&a.CommandID, "key", "", "id of this command: sending it again never runs it twice")
	c.Flags().StringVar(&a.CommandID, "command-id", "", "the same as --key")
	c.Flags().StringVar(&a.WhenBusy, "when-busy", "", "refuse (default), queue or steer")
	c.Flags().StringVarP(&a.Model, "model", "m", "", "model from this turn on")
	c.Flags().StringVar(&a.Effort, "effort", "", "reasoning effort from this turn on")
	c.Flags().StringVar(&a.Mode, "mode", "", "default or plan, from this turn on")
	c.Flags().StringArrayVar(&a.Images, "image", nil, "path of an image in the workspace; may be given again")
	c.Flags().IntVar(&a.DeadlineSeconds, "deadline", 0, "cancel the turn when it runs longer than these seconds")
	complete(c, "when-busy", func() []string { return []string{"refuse", "queue", "steer"} })
	complete(c, "mode", func() []string { return []string{"default", "plan"} })
	completeModels(c)
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) (err error) {
		if err = settle(&w); err != nil {
			return err
		}
		if a.SessionID, err = f.Session(ctx, args[0]); err != nil {
			return err
		}
		if a.Text, err = f.Text(args[1:]); err != nil {
			return err
		}
		return f.Send(ctx, a, w)
	})
	return c
}
