package main

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/mcpserver"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sandbox/env"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host/remote"
)

func newMCP() *cobra.Command {
	var principal, elicit, compat string
	c := &cobra.Command{
		Use:     "mcp",
		Short:   "Serve MCP on standard input and output",
		Example: "  baton mcp\n  claude mcp add baton --scope user -- baton mcp",
		Args:    exactly(0, 0, "no argument beside its flags"),
		RunE: func(c *cobra.Command, _ []string) error {
			log := stderrLog("mcp")
			if elicit != "auto" && elicit != "off" {
				return usageError{sessions.Errorf(sessions.CodeInvalidParams, "--elicit is %q", elicit).Do("use auto or off")}
			}
			if compat != "" && compat != mcpserver.CompatCodex {
				return usageError{sessions.Errorf(sessions.CodeInvalidParams, "--compat is %q", compat).Do("use codex, or leave it out")}
			}
			api, err := client()
			if errors.Is(err, errInside) { // an agent gets a server that offers nothing, and no host is started for it
				log.Warn().Msg(err.Error())
				return mcpserver.New(nil, mcpserver.Options{Version: version, Logger: &log}).ServeStdio(c.Context(), os.Stdin, os.Stdout)
			}
			if err != nil {
				return err
			}
			s := mcpserver.New(api, mcpserver.Options{Caller: caller(principal), Version: version, Logger: &log, Elicit: elicit == "auto", Compat: compat})
			return s.ServeStdio(c.Context(), os.Stdin, os.Stdout)
		},
	}
	c.Flags().StringVar(&principal, "principal", sessions.DefaultPrincipal, "whose sessions these are; keeps programs of one user apart, it is no wall")
	c.Flags().StringVar(&compat, "compat", "", "codex: offer the tools codex and codex-reply of the withdrawn codex mcp-server, on top of sessions")
	c.Flags().StringVar(&elicit, "elicit", "auto", "auto: what agents ask is put to the user of a host that can do that (MCP elicitation); off: it only stands in the results")
	return c
}

// errInside refuses to steer sessions from inside of one.
var errInside = sessions.Errorf(sessions.CodeUnsupported, "this is inside a session of Baton, from where no session can be steered").
	Do("call baton from outside of the agent")

// client is the API of the host of this environment, which is started when it is needed.
func client() (*remote.Client, error) {
	_, o, err := hostOptions()
	if err != nil {
		return nil, err
	}
	return remote.New(o), nil
}

// looking is client for a command line, whose commands that only look make no home where there is none.
func looking() (*remote.Client, error) {
	places, o, err := hostOptions()
	if err != nil {
		return nil, err
	}
	o.Fresh = func() bool {
		_, noHost := os.Lstat(places.Lock()) // there ever was
		_, nothing := os.Lstat(places.Journal())
		return errors.Is(noHost, fs.ErrNotExist) && errors.Is(nothing, fs.ErrNotExist)
	}
	return remote.New(o), nil
}

func hostOptions() (places place.Places, o remote.Options, err error) {
	if os.Getenv(sandbox.MarkerEnv) != "" {
		return places, o, errInside
	}
	if places, err = place.Find(os.Getenv); err != nil {
		return places, o, err
	}
	log := stderrLog("client")
	o = remote.At(places, "host", "run")
	o.Logger, o.Version = &log, version
	return places, o, nil
}

// caller is this front end, with the part of its environment that agents may get or that names runners.
func caller(principal string) sessions.Caller {
	environ := env.Allowed(os.Environ())
	further := config.Passed()
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "BATON_RUNNER_") || slices.Contains(further, name) {
			environ = append(environ, e)
		}
	}
	return sessions.Caller{Principal: principal, Env: environ}
}

// stderrLog is where a front end says what its user may want to know; standard output belongs to the protocol.
func stderrLog(part string) zerolog.Logger {
	return zerolog.New(os.Stderr).Level(logLevel()).With().Timestamp().Str("part", part).Logger()
}

func logLevel() zerolog.Level {
	if l, err := zerolog.ParseLevel(os.Getenv("BATON_LOG")); err == nil && l != zerolog.NoLevel {
		return l
	}
	return zerolog.WarnLevel
}
