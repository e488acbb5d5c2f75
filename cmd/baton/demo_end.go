package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// close closes both sessions. Where containment can prove the end of every process, the proof must be there; where it
// cannot, nothing may claim it.
func (d *demo) close(ctx context.Context) error {
	if _, err := d.seen.look(d.mcp.pid(), d.host); err != nil {
		return err
	}
	return d.both(func(s *demoSession) error {
		res, err := demoCall[sessions.CloseResult](ctx, d.mcp, "session_close", sessions.CloseArgs{SessionID: s.SessionID})
		if err != nil {
			return err
		}
		want := string(sandbox.Confirmed)
		if d.rung == string(sandbox.ProcessGroup) {
			want = string(sandbox.Unconfirmed)
		}
		d.stopped, d.proof = res.Stopped, res.Proof
		switch {
		case res.Session.State != sessions.SessionClosed:
			return fmt.Errorf("the session is %s", res.Session.State)
		case res.Stopped != want:
			return fmt.Errorf("on rung %s the end of the processes is %s, not %s: %s", d.rung, res.Stopped, want, res.Proof)
		case res.Proof == "":
			return fmt.Errorf("%s without a reason", res.Stopped)
		}
		d.say(s, "closed; its process tree: %s (%s)", res.Stopped, res.Proof)
		return nil
	})
}

// end looks for what the sessions left, then ends front end and host.
func (d *demo) end(ctx context.Context) error {
	if err := d.seen.await(ctx, 5*time.Second, d.home.dir, func(p demoProcess) bool {
		return p.pid != d.host && p.pid != d.mcp.pid()
	}); err != nil {
		return fmt.Errorf("processes of closed sessions: %w", err)
	}
	if err := d.mcp.close(); err != nil {
		return fmt.Errorf("baton mcp did not end well: %w", err)
	}
	stopped, err := d.home.client().Stop(ctx)
	if err != nil {
		return err
	}
	if len(stopped.Keeps) > 0 {
		return fmt.Errorf("the host says that it leaves sessions: %v", stopped.Keeps)
	}
	if err := d.seen.await(ctx, 10*time.Second, d.home.dir, func(demoProcess) bool { return true }); err != nil {
		return err
	}
	d.say(nil, "front end and host have ended; of %d processes none is left", len(d.seen))
	return nil
}

// tidy ends whatever a demo that did not reach its end has left, kills by pid what does not end, and removes the folder.
// After a whole demo it finds nothing to do. It returns what it had to kill.
func (d *demo) tidy(ctx context.Context) (left []demoProcess, err error) {
	defer func() { err = errors.Join(err, d.home.remove()) }()
	if d.mcp == nil {
		return nil, nil
	}
	if _, err := d.seen.look(d.mcp.pid()); err != nil {
		return nil, err
	}
	var errs []error
	if alive, err := d.seen.left(d.home.dir); err != nil || len(alive) > 0 {
		errs = append(errs, err, d.closeAll(ctx))
	}
	left, err = d.seen.left(d.home.dir)
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("%d processes were left", len(left)), d.seen.kill(ctx, left))
	}
	return left, errors.Join(append(errs, err)...)
}

// closeAll closes the sessions that live, and ends front end and host. What was still being created meanwhile, and a host that
// a front end started as it ended, are met by the next round.
func (d *demo) closeAll(ctx context.Context) error {
	for round := 1; ; round++ {
		err := d.closeLive(ctx)
		gone := d.seen.await(ctx, 2*time.Second, d.home.dir, func(demoProcess) bool { return true })
		if gone == nil {
			return err
		}
		if round == 5 || ctx.Err() != nil {
			return errors.Join(err, gone)
		}
		if d.mcp, err = openDemoClient(ctx, d.home); err != nil {
			return errors.Join(gone, err)
		}
	}
}

// closeLive does so once, through the front end that is there or another one.
func (d *demo) closeLive(ctx context.Context) error {
	list, err := demoCall[sessions.ListResult](ctx, d.mcp, "session_list", sessions.ListArgs{})
	if err != nil {
		d.mcp.close() // it may be what is wrong
		if d.mcp, err = openDemoClient(ctx, d.home); err != nil {
			return err
		}
		if list, err = demoCall[sessions.ListResult](ctx, d.mcp, "session_list", sessions.ListArgs{}); err != nil {
			return err
		}
	}
	var errs []error
	for _, s := range list.Sessions {
		_, err := demoCall[sessions.CloseResult](ctx, d.mcp, "session_close", sessions.CloseArgs{SessionID: s.SessionID})
		errs = append(errs, err)
	}
	if _, err := d.seen.look(d.mcp.pid()); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, d.mcp.close())
	if _, err := d.home.client().Stop(ctx); err != nil && sessions.CodeOf(err) != sessions.CodeNotRunning {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
