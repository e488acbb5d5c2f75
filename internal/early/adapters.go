package early

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/acp"
	"github.com/batonmcp/baton/appserver"
	"github.com/batonmcp/baton/internal/release"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// adapters is what a bridge of this binary can speak, by protocol name.
func adapters() map[string]bridge.Adapter {
	return map[string]bridge.Adapter{
		"app-server": {
			New: func(c *wire.Conn, sink sessions.Sink, s bridge.Spec, log *zerolog.Logger) sessions.Agent {
				return appserver.New(c, sink, appserver.Options{Logger: log, Version: release.Version, Redact: s.Redact})
			},
			Probe: func(ctx context.Context, c *wire.Conn, s bridge.Spec, log *zerolog.Logger) (sessions.Probe, error) {
				return appserver.Probe(ctx, c, appserver.Options{Logger: log, Version: release.Version, Redact: s.Redact})
			},
			Foreign: func(ctx context.Context, c *wire.Conn, s bridge.Spec, ask sessions.ForeignAsk, log *zerolog.Logger) (sessions.ForeignSaid, error) {
				return appserver.Foreign(ctx, c, ask, appserver.Options{Logger: log, Version: release.Version, Redact: s.Redact})
			},
		},
		"acp": {
			New: func(c *wire.Conn, sink sessions.Sink, s bridge.Spec, log *zerolog.Logger) sessions.Agent {
				return acp.New(c, sink, acpOptions(s, log))
			},
			Probe: func(ctx context.Context, c *wire.Conn, s bridge.Spec, log *zerolog.Logger) (sessions.Probe, error) {
				return acp.Probe(ctx, c, acpOptions(s, log))
			},
			Foreign: func(ctx context.Context, c *wire.Conn, s bridge.Spec, ask sessions.ForeignAsk, log *zerolog.Logger) (sessions.ForeignSaid, error) {
				return acp.Foreign(ctx, c, ask, acpOptions(s, log))
			},
		},
	}
}

// scriptedAgent is the sub-command of the agents that are part of this binary.
const scriptedAgent = "agent"

// accountCommand begins the command lines of an agent that are none of its ACP server.
func accountCommand(argv []string) []string {
	if len(argv) > 1 && argv[1] == scriptedAgent { // the scripted agent takes its kind first
		return argv
	}
	if i := slices.Index(argv, "acp"); i > 0 {
		return argv[:i]
	}
	return nil
}

func acpOptions(s bridge.Spec, log *zerolog.Logger) acp.Options {
	key := slices.ContainsFunc(s.Env, func(e string) bool { return strings.HasPrefix(e, "CURSOR_API_KEY=") })
	// The bridge bounds the whole handshake by the configuration's time; a single step of it may use all of that: opencode
	// needs 40 s for its first start on a busy machine (1.18.33).
	patience := time.Duration(s.HandshakeSeconds) * time.Second
	return acp.Options{Log: log, ClientVersion: release.Version, APIKey: key, HandshakeTimeout: patience, LoadTimeout: patience, Files: true, Env: s.Env,
		AccountCommand: accountCommand(s.Argv), Redact: s.Redact,
		Start: func(p acp.Program) (acp.Process, error) {
			child, err := s.Spawn(sandbox.Spawn{Argv: p.Argv, Dir: p.Dir, Env: p.Env, Stdout: p.Output, Stderr: p.Output})
			if err != nil {
				return nil, err // and no nil child in an interface
			}
			return child, nil
		}}
}
