package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/sessions"
)

// demoHeld is a command that goes on until the file demoGo is there, however slow the machine is.
const (
	demoHeld = "until test -e " + demoGo + "; do sleep 0.05; done; echo ran >> effect.txt"
	demoGo   = "killed.txt"
)

// crash kills the host while both agents stream, and goes on with the same front end: nothing may be lost, nothing may
// happen twice, and the agents must not notice.
func (d *demo) crash(ctx context.Context) error {
	const words = 120
	turns := map[*demoSession]*demoTurn{}
	prompt := fmt.Sprintf("[slow 20][say %d][run %s]", words, demoHeld)
	if err := d.both(func(s *demoSession) (err error) {
		turns[s], err = s.send(ctx, d.mcp, prompt)
		return err
	}); err != nil {
		return err
	}
	if err := d.both(func(s *demoSession) error {
		t := turns[s]
		if err := s.follow(ctx, d.mcp, t, func() bool { return t.words() > 10 }); err != nil {
			return err
		}
		if t.settled != nil {
			return fmt.Errorf("the turn ended before the kill, as %s", t.settled.State)
		}
		d.say(s, "streams: %d words so far, event %d", t.words(), s.seq)
		return nil
	}); err != nil {
		return err
	}
	before, err := d.seen.look(d.mcp.pid(), d.host)
	if err != nil {
		return err
	}
	bridges := demoChildren(before, d.host, "bridge")
	if err := d.kill(ctx); err != nil {
		return err
	}
	if err := d.both(func(s *demoSession) error { return os.WriteFile(filepath.Join(s.work, demoGo), nil, 0o600) }); err != nil {
		return err
	}
	if err := d.both(func(s *demoSession) error { return d.intact(ctx, s, turns[s], words) }); err != nil {
		return err
	}
	after, err := d.seen.look(d.mcp.pid(), d.host)
	if err != nil {
		return err
	}
	alive := map[string]bool{}
	for _, p := range after {
		alive[p.id()] = !p.ended
	}
	for _, b := range bridges {
		if !alive[b.id()] {
			return fmt.Errorf("bridge %d did not outlive the host", b.pid)
		}
	}
	n, err := d.home.received("prompt", prompt)
	if err != nil {
		return err
	}
	if n != 2 {
		return fmt.Errorf("the two prompts reached the agents %d times", n)
	}
	d.say(nil, "each prompt reached its agent once; bridges and agents are the same processes as before")
	return nil
}

// kill ends the host as a crash would and makes the next call, of the same front end.
func (d *demo) kill(ctx context.Context) error {
	killed := d.host
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		return err
	}
	began := time.Now()
	list, err := demoCall[sessions.ListResult](ctx, d.mcp, "session_list", sessions.ListArgs{})
	if err != nil {
		return fmt.Errorf("the call after the kill: %w", err)
	}
	took := time.Since(began)
	status, err := d.home.client().Status(ctx)
	if err != nil {
		return err
	}
	d.host = status.PID
	if d.host == killed || len(list.Sessions) != 2 {
		return fmt.Errorf("host %d was killed, host %d answers and lists %d sessions", killed, d.host, len(list.Sessions))
	}
	for _, s := range list.Sessions {
		if s.State != sessions.SessionRunning || s.Running == nil {
			return fmt.Errorf("%s is %s after the kill, its turn was to go on", s.Runner, s.State)
		}
	}
	d.say(nil, "kill -9 of host %d; the next tool call is answered by host %d, %.2f s later; both turns run on", killed, d.host, took.Seconds())
	return nil
}

// intact follows a turn that a host's crash cut in two, and checks that it is whole.
func (d *demo) intact(ctx context.Context, s *demoSession, t *demoTurn, words int) error {
	if err := s.settle(ctx, d.mcp, t, sessions.CommandCompleted); err != nil {
		return err
	}
	if want := directive.Words(words) + "ran " + demoHeld + ": exit 0"; t.text.String() != want || t.settles != 1 {
		return fmt.Errorf("%d ends, and the text is %q, not %q", t.settles, t.text.String(), want)
	}
	effect, err := os.ReadFile(filepath.Join(s.work, "effect.txt"))
	if err != nil || string(effect) != "ran\n" {
		return fmt.Errorf("the command's effect is %q: %w", effect, err)
	}
	// The journal itself, from the beginning: what was read with the cursor of the first host is what is there.
	again := &demoSession{Session: s.Session}
	whole := &demoTurn{command: t.command}
	events, err := again.read(ctx, d.mcp)
	if err != nil {
		return err
	}
	whole.take(events)
	if again.seq != s.seq || whole.text.String() != t.text.String() || whole.settles != 1 {
		return errors.New("reading from the beginning gives something else than reading on")
	}
	list, err := demoCall[sessions.ListResult](ctx, d.mcp, "session_list", sessions.ListArgs{Runner: s.runner})
	if err != nil {
		return err
	}
	if len(list.Sessions) != 1 || list.Sessions[0].Generation != s.Generation || list.Sessions[0].Last.CommandID != t.command {
		return fmt.Errorf("after the crash the session is %+v", list.Sessions)
	}
	d.say(s, "%s: all %d words; events 1 to %d without hole or double; its command ran once", t.settled.State, words, s.seq)
	return nil
}
