package host

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sandbox/env"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// probeLimit bounds one look at a runner. What it said is believed for probeKept, and that it could not be asked for
// problemKept: long enough for callers that come together, short enough for a person who just logged in.
const (
	probeLimit  = 20 * time.Second
	probeKept   = 5 * time.Minute
	problemKept = 10 * time.Second
)

// probed is what a runner said about itself.
type probed struct {
	executable, account string
	at                  time.Time
	runner              sessions.Runner
}

// good tells whether it still answers a question about the same runner.
func (p probed) good(executable, account string) bool {
	kept := probeKept
	if p.runner.Problem != "" {
		kept = problemKept
	}
	return p.executable == executable && p.account == account && time.Since(p.at) < kept
}

// RunnerList shows every runner: whether it is installed, and what it said of itself when it was asked, in a bridge
// without a session.
func (h *Host) RunnerList(ctx context.Context, who sessions.Caller, a sessions.RunnerListArgs) (sessions.RunnerListResult, error) {
	if err := named(who); err != nil {
		return sessions.RunnerListResult{}, err
	}
	cfg, err := h.config()
	if err != nil {
		return sessions.RunnerListResult{}, err
	}
	names := cfg.Shown(lookup(who.Env))
	out := make([]sessions.Runner, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { out[i] = h.runner(ctx, who, cfg, name, a.Refresh) })
	}
	wg.Wait()
	return sessions.RunnerListResult{Runners: out}, ctx.Err()
}

func (h *Host) runner(ctx context.Context, who sessions.Caller, cfg *config.Config, name string, refresh bool) sessions.Runner {
	r := sessions.Runner{Name: name, Login: "unknown", Models: []sessions.Model{}, Modes: []string{}, Capability: map[string]any{}}
	cwd := lookup(who.Env)("HOME")
	if !filepath.IsAbs(cwd) {
		cwd = "/"
	}
	found, err := cfg.Resolve(name, cwd, lookup(who.Env))
	r.Protocol = found.Protocol
	if err != nil {
		r.Problem = sessions.AsError(err).Error()
		return r
	}
	r.Installed, r.Executable = true, found.Executable
	key, asked := account(who.Env), time.Now()
	// One question at a time: who comes meanwhile takes the answer.
	h.mu.Lock()
	turn := h.asking[name]
	if turn == nil {
		turn = make(chan struct{}, 1)
		h.asking[name] = turn
	}
	h.mu.Unlock()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		r.Problem = sessions.AsError(context.Cause(ctx)).Error()
		return r
	}
	h.mu.Lock()
	was, ok := h.probes[name]
	h.mu.Unlock()
	if ok && was.good(found.Executable, key) && (!refresh || was.at.After(asked)) {
		return was.runner
	}
	r = h.asked(ctx, who, cfg, found, r)
	if ctx.Err() == nil {
		h.mu.Lock()
		h.probes[name] = probed{executable: found.Executable, account: key, at: time.Now(), runner: r}
		h.mu.Unlock()
	}
	return r
}

// asked fills in what an installed runner says of itself, or why it could not be asked.
func (h *Host) asked(ctx context.Context, who sessions.Caller, cfg *config.Config, found config.Runner, r sessions.Runner) sessions.Runner {
	spec, err := h.sessionless(cfg, who, found, r.Name, probeLimit)
	if err != nil {
		r.Problem = sessions.AsError(err).Error()
		return r
	}
	p, err := h.ask(ctx, spec)
	if err != nil {
		r.Problem = sessions.AsError(err).Error()
		if sessions.CodeOf(err) == sessions.CodeNotLoggedIn {
			r.Login = "no"
		}
		return r
	}
	r.Version, r.Login = p.Version, p.Login
	if p.Models != nil {
		r.Models = p.Models
	}
	for _, m := range found.Models {
		r.Models = append(r.Models, sessions.Model{ID: m})
	}
	if p.Modes != nil {
		r.Modes = p.Modes
	}
	if p.Capability != nil {
		r.Capability = p.Capability
	}
	return r
}

// sessionless is how an agent is started to be asked something.
func (h *Host) sessionless(cfg *config.Config, who sessions.Caller, found config.Runner, name string, limit time.Duration) (bridge.Spec, error) {
	hidden, err := h.hidden(cfg, who, found)
	return bridge.Spec{Protocol: found.Protocol, Argv: found.Argv, Dir: "/", HandshakeSeconds: int(limit.Seconds()),
		Env:  env.Build(env.Allowed(who.Env), found.Variables(lookup(who.Env)), nil, filepath.Dir(found.Executable)),
		Open: sessions.OpenParams{Runner: name, Generation: sessions.NewID(), Cwd: "/", Hidden: hidden}}, err
}

// probe asks an agent about itself.
func (h *Host) probe(ctx context.Context, spec bridge.Spec) (p sessions.Probe, err error) {
	return p, h.question(ctx, spec, bridge.InProbe, spec, bridge.OutProbed, &p)
}

// question runs an agent in a bridge of its own, without a session, asks it one thing, and stops both.
func (h *Host) question(ctx context.Context, spec bridge.Spec, kind bridge.Kind, body any, answer bridge.Kind, into any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(spec.HandshakeSeconds)*time.Second+5*time.Second)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	generation := spec.Open.Generation
	socket := h.o.Places.BridgeSocket(generation)
	ln, err := local.Listen(socket)
	if err != nil {
		return err
	}
	defer ln.Remove()
	defer ln.Close()
	lf, err := ln.File()
	if err != nil {
		return err
	}
	defer lf.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	proc, err := sandbox.Start(ctx, sandbox.Launch{Args: append([]string{bridge.Command}, failpoint.Args()...), Files: []*os.File{lf, null}, Log: null, Rung: h.can.Rung, Mask: slices.Concat(h.masks(), spec.Open.Hidden), Dir: "/"})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		proc.Stop(ctx)
		proc.Release()
	}()
	conn, err := local.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	link, err := bridge.NewLink(conn, bridge.Attach{Version: h.o.Version, Generation: generation, Epoch: h.epoch})
	if err != nil {
		return err
	}
	if !slices.Contains(link.Hello.Inputs, kind) { // the program was replaced by another version while this host runs
		return sessions.Errorf(sessions.CodeUnsupported, "the installed baton (%s) does not know the question %q", link.Hello.Version, kind).
			Do("stop the host (baton host stop), so that one of the installed version starts")
	}
	stop := context.AfterFunc(ctx, func() { link.Close() })
	defer stop()
	if err := link.Send(1, kind, body); err != nil {
		return err
	}
	for {
		f, err := link.Recv()
		if err != nil {
			if ctx.Err() != nil {
				return sessions.Errorf(sessions.CodeTimeout, "%s did not say anything about itself within %d s", spec.Argv[0], spec.HandshakeSeconds).
					Do("run it by hand in a terminal to see what it waits for, then ask again with refresh")
			}
			return err
		}
		switch f.Kind {
		case answer:
			return json.Unmarshal(f.Body, into)
		case bridge.OutFailed:
			var e bridge.Failure
			if err := json.Unmarshal(f.Body, &e); err != nil {
				return err
			}
			return e.Error
		}
	}
}
