package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/internal/httpd"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host/remote"
)

func newTokenRevoke() *cobra.Command {
	var end bool
	c := &cobra.Command{
		Use:   "revoke ID|NAME",
		Short: "Revoke a token; it is refused from then on",
		Long: "Revokes a token, and says which of its sessions are still alive: they go on, and nobody can reach them with it any more.\n" +
			"--close ends them, unless others share their principal.",
		Example: "  baton token revoke laptop --close",
		Args:    exactly(1, 1, "an id or a name"),
		RunE: func(c *cobra.Command, args []string) error {
			store, err := ownTokens()
			if err != nil {
				return err
			}
			if end {
				if err := aloneWithItsPrincipal(store, args[0]); err != nil {
					return err
				}
			}
			t, err := store.Revoke(args[0])
			if err != nil {
				return err
			}
			fmt.Printf("token %s (%s) is revoked\n", t.Name, t.ID)
			return leftBehind(c.Context(), t, end)
		},
	}
	c.Flags().BoolVar(&end, "close", false, "end its sessions too")
	return c
}

// aloneWithItsPrincipal refuses to end sessions that are not those of one token alone.
func aloneWithItsPrincipal(store httpd.Tokens, which string) error {
	all, err := store.List()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(t httpd.Token) bool { return t.ID == which || t.Name == which })
	if i < 0 {
		return nil // revoking says so
	}
	principal := all[i].Principal
	shared := slices.ContainsFunc(all, func(t httpd.Token) bool { return t.Principal == principal && t.ID != all[i].ID })
	if shared || principal == sessions.DefaultPrincipal {
		return sessions.Errorf(sessions.CodeInvalidParams, "the sessions of token %s are those of principal %s, which others have too; nothing was done", all[i].Name, principal).
			Do("revoke it without --close, and close what is to be closed by name: baton list --principal %s", principal)
	}
	return nil
}

// leftBehind says which sessions of a revoked token live, and ends them where that is asked for. No host is started to find
// out: what lives without one is found by the next.
func leftBehind(ctx context.Context, t httpd.Token, end bool) error {
	api, err := client()
	if err != nil {
		return err
	}
	if _, err := api.Status(ctx); errors.Is(err, remote.ErrNoHost) && !end {
		fmt.Printf("no host runs; sessions of it that still live are in baton list --principal %s\n", t.Principal)
		return nil
	}
	who := caller(t.Principal)
	if end {
		f := cli.New(cli.Options{API: api, Who: who, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv})
		return f.CloseAll(ctx, sessions.CloseArgs{})
	}
	list, err := api.List(ctx, who, sessions.ListArgs{Limit: 200})
	if err != nil {
		return err
	}
	for _, s := range list.Sessions {
		fmt.Printf("still alive: session %s, %s, %s in %s\n", s.SessionID, s.State, s.Runner, s.Cwd)
	}
	if len(list.Sessions) > 0 {
		fmt.Printf("baton stop --all --principal %s ends them\n", t.Principal)
	}
	return nil
}
