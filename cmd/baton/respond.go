package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

func newRespond() *cobra.Command {
	var v verb
	var a sessions.RespondArgs
	var approve, deny bool
	var answers []string
	var form string
	c := &cobra.Command{
		Use:   "respond ID [REQUEST]",
		Short: "Answer an approval or a question of a session",
		Long: "Answers a request; where the session has only one, REQUEST can be left out. --approve allows this one operation. Anything\n" +
			"wider is an option of the request, chosen by --option and its exact id, or --approve --scope session. An --answer to a\n" +
			"question is the id or the label of one of its options, or a text of your own where the question takes one; the question\n" +
			"can be left out where the request has only one. baton wait says what is asked and what is offered.",
		Example:           "  baton respond 3f2a --approve\n  baton respond 3f2a --answer color=blue\n  baton respond 3f2a --answer blue",
		Args:              exactly(1, 2, "a session and a request"),
		ValidArgsFunction: completeSessions(false, 1),
	}
	v.add(c, "id")
	guardFlags(c, &a.Guard)
	keyFlag(c, &a.Key)
	c.Flags().BoolVar(&approve, "approve", false, "allow it")
	c.Flags().BoolVar(&deny, "deny", false, "refuse it")
	c.Flags().StringVar(&a.OptionID, "option", "", "choose exactly this option")
	c.Flags().StringArrayVar(&answers, "answer", nil, "[QUESTION=]ANSWER: an option's id or label, or text; again for another question, or for a further answer to one")
	c.Flags().StringVar(&form, "form", "", "a JSON object, for an elicitation")
	c.Flags().StringVar(&a.Scope, "scope", "", "once (default) or session, with --approve")
	complete(c, "scope", func() []string { return []string{"once", "session"} })
	c.RunE = v.run(func(ctx context.Context, f *cli.Front, args []string) (err error) {
		given := 0
		for _, flag := range []string{"approve", "deny", "option", "answer", "form"} {
			if c.Flags().Changed(flag) {
				given++
			}
		}
		switch {
		case given != 1:
			return cli.Usage("%d answers were given; give exactly one of --approve, --deny, --option, --answer and --form", given)
		case approve:
			a.Decision = "approve"
		case deny:
			a.Decision = "deny"
		case form != "":
			if a.Form = json.RawMessage(form); !json.Valid(a.Form) {
				return cli.Usage("--form is no JSON")
			}
		}
		if a.Answers, err = cli.Answers(answers); err != nil {
			return err
		}
		if a.SessionID, err = f.Session(ctx, args[0]); err != nil {
			return err
		}
		if len(args) > 1 {
			a.RequestID = args[1]
		}
		return f.Respond(ctx, a)
	})
	return c
}
