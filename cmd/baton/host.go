package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host"
	"github.com/batonmcp/baton/sessions/host/remote"
)

func newHost() *cobra.Command {
	c := &cobra.Command{Use: "host", Short: "The daemon behind every front end; it starts by itself when it is needed", Example: "  baton host status"}
	c.AddCommand(newHostRun(), newHostStatus(), newHostStop())
	return c
}

func newHostRun() *cobra.Command {
	var web webFlags
	var idleClose time.Duration
	c := &cobra.Command{
		Use:     "run",
		Short:   "Be the host of this state directory, until it is stopped or idle",
		Example: "  baton host run\n  baton host run --http 127.0.0.1:8765",
		Args:    exactly(0, 0, "no argument beside its flags"),
		RunE: func(c *cobra.Command, _ []string) error {
			return remote.Reported(func() error { return runHost(c.Context(), web, idleClose) })
		},
	}
	web.add(c.Flags())
	c.Flags().DurationVar(&idleClose, "idle-close", 0, "close sessions in which nothing happened for this time, as in 2h; in place of idle_close of the configuration")
	return c
}

func runHost(ctx context.Context, web webFlags, idleClose time.Duration) error {
	if idleClose < 0 {
		return usageError{fmt.Errorf("--idle-close is %s; give a time above 0", idleClose)}
	}
	places, err := place.Find(os.Getenv)
	if err != nil {
		return err
	}
	cfg, err := config.Load(places.Config)
	if err != nil {
		return err
	}
	if idleClose > 0 {
		cfg.Host.IdleClose = config.Duration(idleClose)
	}
	level := zerolog.InfoLevel
	if l := logLevel(); l < level {
		level = l
	}
	log := zerolog.New(os.Stderr).Level(level).With().Timestamp().Str("part", "host").Int("pid", os.Getpid()).Logger()
	return web.serve(ctx, places, cfg, log, func(ctx context.Context, serving func()) error {
		return host.Serve(ctx, host.Options{Serving: serving, Places: places, Config: cfg, Version: version, Log: log, Rung: sandbox.Rung(os.Getenv(sandbox.ForceEnv))})
	})
}

func newHostStatus() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "status",
		Short:   "Say whether a host runs, and what it holds",
		Example: "  baton host status --json",
		Args:    exactly(0, 0, "no argument beside its flags"),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := client()
			if err != nil {
				return err
			}
			s, err := api.Status(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(os.Stdout).Encode(s)
			}
			fmt.Printf("host %s, pid %d, %d live sessions, state in %s\n", s.Version, s.PID, s.Live, s.State)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func newHostStop() *cobra.Command {
	return &cobra.Command{
		Use:     "stop",
		Short:   "Say what keeps running, and stop the host; the next host adopts live sessions",
		Example: "  baton host stop",
		Args:    exactly(0, 0, "no argument beside its flags"),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := client()
			if err != nil {
				return err
			}
			status, err := api.Status(c.Context()) // listing sessions would start one
			if err != nil {
				return err
			}
			known := map[string]bool{}
			keeps := func(id, what string) {
				if len(known) == 0 {
					fmt.Println("without a host these go on until the next one adopts them, or their grace is over (baton stop --all ends them):")
				}
				known[id] = true
				fmt.Printf("keeps running: session %s%s\n", id, what)
			}
			for _, principal := range slices.Sorted(maps.Keys(status.Owners)) {
				whose := ""
				if principal != sessions.DefaultPrincipal {
					whose = ", of " + principal
				}
				if err := everySession(c.Context(), api, principal, func(s *sessions.Session) {
					if s.State.Live() {
						keeps(s.SessionID, fmt.Sprintf(", %s, %s in %s%s", s.State, s.Runner, s.Cwd, whose))
					}
				}); err != nil {
					return err
				}
			}
			s, err := api.Stop(c.Context())
			if err != nil {
				return err
			}
			for _, id := range s.Keeps {
				if !known[id] {
					keeps(id, "")
				}
			}
			fmt.Printf("host %d is stopping\n", s.PID)
			return nil
		},
	}
}

// everySession calls see with each session of a principal that is not closed, newest first.
func everySession(ctx context.Context, api sessions.API, principal string, see func(*sessions.Session)) error {
	for after := ""; ; {
		list, err := api.List(ctx, caller(principal), sessions.ListArgs{Limit: 200, After: after})
		if err != nil {
			return err
		}
		for i := range list.Sessions {
			see(&list.Sessions[i])
		}
		if after = list.Cursor; after == "" {
			return nil
		}
	}
}
