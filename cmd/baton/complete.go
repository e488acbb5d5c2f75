package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host/remote"
)

// completionPatience is how long a shell waits for its completions. None is given for a fault: there is no place for it.
const completionPatience = 2 * time.Second

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// complete offers the values of a flag that are known.
func complete(c *cobra.Command, flag string, values func() []string) {
	must(c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	}))
}

// must is for what only a mistake in the program can break.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// asked calls the host that runs; a completion starts none.
func asked(c *cobra.Command, call func(context.Context, *remote.Client, sessions.Caller) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
	defer cancel()
	api, err := client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if _, err := api.Status(ctx); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	principal := sessions.DefaultPrincipal
	if f := c.Flags().Lookup("principal"); f != nil {
		principal = f.Value.String()
	}
	found, err := call(ctx, api, caller(principal))
	if err != nil {
		found = nil
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeSessions offers sessions with what they are; all tells whether closed ones are meant too.
func completeSessions(all bool, most int) completer {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return asked(c, func(ctx context.Context, api *remote.Client, who sessions.Caller) (found []string, err error) {
			res, err := api.List(ctx, who, sessions.ListArgs{All: all, Limit: 200})
			for _, s := range res.Sessions {
				found = append(found, cobra.CompletionWithDesc(s.SessionID, string(s.State)+" "+s.Runner+" "+s.Title))
			}
			return found, err
		})
	}
}

// completeRunners offers the runners, without a host those that the configuration names.
func completeRunners(c *cobra.Command) {
	must(c.RegisterFlagCompletionFunc("runner", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		found, how := asked(c, func(ctx context.Context, api *remote.Client, who sessions.Caller) (found []string, err error) {
			res, err := api.RunnerList(ctx, who, sessions.RunnerListArgs{})
			for _, r := range res.Runners {
				found = append(found, cobra.CompletionWithDesc(r.Name, r.Protocol+" "+r.Version))
			}
			return found, err
		})
		if len(found) == 0 {
			found = configuredRunners()
		}
		return found, how
	}))
}

func configuredRunners() []string {
	places, err := place.Find(os.Getenv)
	if err != nil {
		return nil
	}
	cfg, err := config.Load(places.Config)
	if err != nil {
		return nil
	}
	return cfg.Shown(os.Getenv)
}

// completeModels offers the models of the runner that is named, or of every one.
func completeModels(c *cobra.Command) {
	must(c.RegisterFlagCompletionFunc("model", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		runner := ""
		if f := c.Flags().Lookup("runner"); f != nil {
			runner = f.Value.String()
		}
		return asked(c, func(ctx context.Context, api *remote.Client, who sessions.Caller) (found []string, err error) {
			res, err := api.RunnerList(ctx, who, sessions.RunnerListArgs{})
			for _, r := range res.Runners {
				for _, m := range r.Models {
					if runner == "" || runner == r.Name {
						found = append(found, cobra.CompletionWithDesc(m.ID, m.Name))
					}
				}
			}
			return found, err
		})
	}))
}
