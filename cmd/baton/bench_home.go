package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host"
	"github.com/batonmcp/baton/sessions/host/remote"
)

// The runners of a bench. Full access is theirs because one of the protocols knows no sandbox.
const (
	benchCodex  = "codex-like"
	benchCursor = "cursor-like"

	benchConfig = `[host]
idle_exit = "5m"
allow_unconfined_full_access = true

[runners.` + benchCodex + `]
protocol = "app-server"
command = ["baton:agent", "app-server"]

[runners.` + benchCursor + `]
protocol = "acp"
command = ["baton:agent", "acp"]
`
)

// benchHome is a Baton of its own: folders, a host that starts with the first call, and a client.
type benchHome struct {
	dir    string
	places place.Places
	env    []string
	*remote.Client
}

var benchCaller = sessions.Caller{Principal: sessions.DefaultPrincipal}

func (b *bench) home(name string) (*benchHome, error) {
	h := &benchHome{dir: filepath.Join(b.dir, name)}
	for _, d := range []string{h.dir, h.work(), filepath.Join(h.dir, "home"), filepath.Join(h.dir, "baton")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	vars := map[string]string{"BATON_HOME": filepath.Join(h.dir, "baton"), "HOME": filepath.Join(h.dir, "home"), "PATH": os.Getenv("PATH")}
	for k, v := range vars {
		h.env = append(h.env, k+"="+v)
		if err := os.Setenv(k, v); err != nil { // the host that a client starts gets this process's
			return nil, err
		}
	}
	benchCaller.Env = h.env
	var err error
	if h.places, err = place.Find(func(name string) string { return vars[name] }); err != nil {
		return nil, err
	}
	if err := os.WriteFile(h.places.Config, []byte(benchConfig), 0o600); err != nil {
		return nil, err
	}
	h.Client = remote.New(remote.At(h.places, "host", "run"))
	return h, nil
}

// work is where the agents work.
func (h *benchHome) work() string { return filepath.Join(h.dir, "work") }

// create starts a session and waits until it is idle.
func (h *benchHome) create(ctx context.Context, runner string) (sessions.Session, error) {
	wait := 50
	res, err := h.Create(ctx, benchCaller, sessions.CreateArgs{Runner: runner, Cwd: h.work(), WaitSeconds: &wait,
		Settings: sessions.Settings{Sandbox: sessions.SandboxFullAccess}})
	if err == nil && res.Session.State != sessions.SessionIdle {
		err = fmt.Errorf("session %s is %s", res.Session.SessionID, res.Session.State)
	}
	return res.Session, err
}

// end closes the sessions that are given, stops the host and waits for its end.
func (h *benchHome) end(ctx context.Context, ids ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 60*time.Second)
	defer cancel()
	var errs []error
	for _, id := range ids {
		_, err := h.Close(ctx, benchCaller, sessions.CloseArgs{SessionID: id})
		errs = append(errs, err)
	}
	s, err := h.Stop(ctx)
	if errors.Is(err, remote.ErrNoHost) {
		return errors.Join(errs...)
	}
	if err == nil {
		err = benchGone(ctx, s.PID)
	}
	return errors.Join(append(errs, err)...)
}

// serve runs the home's host in this process until end is called.
func (h *benchHome) serve(ctx context.Context, committed func([]string)) (end func() error, err error) {
	cfg, err := config.Load(h.places.Config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan error, 1)
	go func() {
		over <- host.Serve(ctx, host.Options{Places: h.places, Config: cfg, Version: version, Log: zerolog.Nop(), Committed: committed})
	}()
	for {
		if _, err := h.Status(ctx); err == nil {
			return func() error { stop(); return <-over }, nil
		}
		select {
		case err := <-over:
			stop()
			return nil, err
		case <-time.After(time.Millisecond):
		}
	}
}

// kill ends the host as a crash would.
func (h *benchHome) kill(ctx context.Context) error {
	s, err := h.Status(ctx)
	if err != nil {
		return err
	}
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		return err
	}
	return benchGone(ctx, s.PID)
}

// benchGone waits for the end of a process that may be this one's child.
func benchGone(ctx context.Context, pid int) error {
	for syscall.Kill(pid, 0) == nil {
		var status syscall.WaitStatus
		if got, _ := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); got == pid {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
