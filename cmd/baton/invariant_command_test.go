package main

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/fixtures/record"
	"github.com/batonmcp/baton/sessions"
)

// recordedWorld is a world whose agents note what they are given.
func recordedWorld(t *testing.T) *world {
	w := newWorld(t)
	w.env = append(w.env, "BATON_FIXTURE_RECORD="+w.path("record"))
	return w
}

// noted is what the agents of a world were given, of one kind.
func (w *world) noted(kind string) []record.Entry {
	w.t.Helper()
	all, err := record.Read(w.path("record"))
	if err != nil {
		w.t.Fatal(err)
	}
	var some []record.Entry
	for _, e := range all {
		if e.Kind == kind {
			some = append(some, e)
		}
	}
	return some
}

// times is how often a text was given to an agent of the world.
func (w *world) times(text string) (n int) {
	w.t.Helper()
	for _, e := range append(w.noted("prompt"), w.noted("steer")...) {
		if strings.Contains(e.Text, text) {
			n++
		}
	}
	return n
}

// create makes a session of a scripted agent.
func (w *world) create(f *front, runner string, more args) sessions.Session {
	w.t.Helper()
	a := args{"runner": runner, "cwd": w.work, "wait_seconds": 40}
	if runner == "cursorlike" {
		a["sandbox"] = sessions.SandboxFullAccess
	}
	for k, v := range more {
		a[k] = v
	}
	s := call[sessions.CreateResult](f, "session_create", a).Session
	if s.State != sessions.SessionIdle {
		w.t.Fatalf("created: %+v", s)
	}
	return s
}

// look is a session as it is now.
func (f *front) look(session string) sessions.Session {
	f.t.Helper()
	return call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{session}, "wait_seconds": 0}).Sessions[0].Session
}

// kill ends the only process of the world whose command line holds a word, and waits until it is gone.
func (w *world) kill(word string) {
	w.t.Helper()
	found := w.find(word)
	if len(found) != 1 {
		w.t.Fatalf("%q: %v", word, found)
	}
	if err := syscall.Kill(found[0].PID, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	await(w.t, "the end of what was killed", func() bool { return !alive(found[0].PID) })
}

var scripted = []string{"codexlike", "cursorlike"}

// TestI02_NeverResend: whatever dies after a prompt may have left, and whoever comes back, nobody gives it again.
func TestI02_NeverResend(t *testing.T) {
	for _, runner := range scripted {
		for _, victim := range []string{"baton bridge", " agent "} {
			t.Run(runner+strings.TrimRight(" "+victim, " "), func(t *testing.T) {
				t.Parallel()
				w := recordedWorld(t)
				f := w.open()
				defer f.close()
				s := w.create(f, runner, nil)
				a := args{"session_id": s.SessionID, "command_id": "once", "text": "#once [say 2][wait]"}
				call[sessions.SendResult](f, "session_send", a)
				f.streaming(s.SessionID, "once")
				w.kill(victim)
				lost := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 50})
				if got := lost.Sessions[0].Session; got.State != sessions.SessionFailed || got.Last == nil || got.Last.State != sessions.CommandUnknown || got.Recovery == "" {
					t.Fatalf("after the kill: %+v", got)
				}
				w.killHost()
				if again := call[sessions.SendResult](f, "session_send", a); again.Command.State != sessions.CommandUnknown {
					t.Errorf("the repetition says %+v", again.Command)
				}
				refused(f, sessions.CodeNotRunning, "session_cancel", args{"session_id": s.SessionID})
				refused(f, sessions.CodeOutcomeUnknown, "session_send", args{"session_id": s.SessionID, "text": "[say 1]"})
				call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "acknowledge_unknown": true, "run_queue": true, "wait_seconds": 50})
				w.killHost()
				call[sessions.SendResult](f, "session_send", a)
				next := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 1]", "wait_seconds": 50})
				if next.Command.State != sessions.CommandCompleted {
					t.Errorf("the next command: %+v", next.Command)
				}
				if n := w.times("#once"); n != 1 {
					t.Errorf("the prompt was given %d times", n)
				}
			})
		}
	}
}

// TestI03_ThreeWayTruth: after a crash a command is not sent, unknown, or done; evidence settles an unknown one, and
// nothing else does.
func TestI03_ThreeWayTruth(t *testing.T) {
	for _, c := range []struct {
		runner  string
		state   sessions.CommandState // after a resume without acknowledgement
		settled bool
	}{{"codexlike", sessions.CommandInterrupted, true}, {"cursorlike", sessions.CommandUnknown, false}} {
		t.Run(c.runner, func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			s := w.create(f, c.runner, nil)
			// Done, although the host is not there when it is.
			done := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "done", "text": "[slow 10][say 40]"})
			f.streaming(s.SessionID, done.Command.CommandID)
			w.killHost()
			got := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "done", "text": "[slow 10][say 40]", "wait_seconds": 50})
			if got.Command.State != sessions.CommandCompleted || got.Text != directive.Words(40) {
				t.Errorf("through a killed host: %+v %q", got.Command, got.Text)
			}
			// Unknown, and settled by the agent's own record where it keeps one.
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "lost", "text": "[say 2][wait]"})
			f.streaming(s.SessionID, "lost")
			w.kill(" agent ")
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "lost", "text": "[say 2][wait]", "wait_seconds": 50})
			back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 50})
			lost := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "lost", "text": "[say 2][wait]"})
			if lost.Command.State != c.state || len(back.Settled) == 1 != c.settled {
				t.Errorf("after the resume: %+v, settled %+v", lost.Command, back.Settled)
			}
			if c.settled {
				return
			}
			refused(f, sessions.CodeOutcomeUnknown, "session_send", args{"session_id": s.SessionID, "text": "[say 1]"})
			call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "acknowledge_unknown": true})
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 1]", "wait_seconds": 50})
		})
	}
}

// TestI03_WhatWasNotGivenIsNotUnknown: a command that the bridge had not come to when its agent died was not delivered,
// and is said to be that.
func TestI03_WhatWasNotGivenIsNotUnknown(t *testing.T) {
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	bridge := w.find("baton bridge")
	if len(bridge) != 1 {
		t.Fatalf("bridges: %v", bridge)
	}
	// The bridge stands still, so that it sees the death of its agent and the prompt together.
	if err := syscall.Kill(bridge[0].PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.kill(" agent ")
	a := args{"session_id": s.SessionID, "command_id": "late", "text": "#late [say 1]"}
	call[sessions.SendResult](f, "session_send", a)
	if err := syscall.Kill(bridge[0].PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a["wait_seconds"] = 30
	got := call[sessions.SendResult](f, "session_send", a)
	if got.Command.State != sessions.CommandFailed || !strings.Contains(got.Command.Reason, "nothing was sent") {
		t.Errorf("told as %+v", got.Command)
	}
	if n := w.times("#late"); n != 0 {
		t.Errorf("given %d times", n)
	}
}

// TestI04_IdempotentByKey: the same call again is the same call, from whichever front end, at the same time, and after a
// crash; another call under its key is refused and does nothing.
func TestI04_IdempotentByKey(t *testing.T) {
	w := recordedWorld(t)
	fronts := []*front{w.open(), w.open(), w.open(), w.open()}
	for _, f := range fronts {
		defer f.close()
	}
	id := sessions.NewID()
	create := args{"runner": "codexlike", "cwd": w.work, "session_id": id, "wait_seconds": 40}
	atOnce(t, 8, func(n int) error {
		got, e := try[sessions.CreateResult](fronts[n%4], "session_create", create)
		return same(e, id, got.Session.SessionID)
	})
	if agents := w.find(" agent "); len(agents) != 1 {
		t.Errorf("%d agents of one creation: %v", len(agents), agents)
	}
	send := args{"session_id": id, "command_id": "c-1", "text": "#one [slow 10][say 60]"}
	var killed sync.WaitGroup
	atOnce(t, 20, func(n int) error {
		if n == 10 {
			killed.Go(w.killHost)
		}
		got, e := try[sessions.SendResult](fronts[n%4], "session_send", send)
		return same(e, "c-1", got.Command.CommandID)
	})
	killed.Wait()
	send["wait_seconds"] = 40
	if got := call[sessions.SendResult](fronts[0], "session_send", send); got.Command.State != sessions.CommandCompleted || got.Text != directive.Words(60) {
		t.Errorf("in the end: %+v %q", got.Command, got.Text)
	}
	if n := w.times("#one"); n != 1 {
		t.Errorf("twenty sends of one id were given %d times", n)
	}
	conflicts := []struct {
		tool string
		args args
	}{
		{"session_send", args{"session_id": id, "command_id": "c-1", "text": "#other [say 1]"}},
		{"session_send", args{"session_id": id, "command_id": "c-1", "text": "#one [slow 10][say 60]", "effort": "high"}},
		{"session_cancel", args{"session_id": id, "key": "c-1"}},
		{"session_close", args{"session_id": id, "key": "c-1"}},
		{"session_create", args{"runner": "cursorlike", "cwd": w.work, "session_id": id}},
	}
	for _, c := range conflicts {
		refused(fronts[0], sessions.CodeKeyConflict, c.tool, c.args)
	}
	if s := fronts[0].look(id); s.State != sessions.SessionIdle || w.times("#other") != 0 {
		t.Errorf("a conflict did something: %+v", s)
	}
	closed := args{"session_id": id, "key": "close-1"}
	resumed := args{"session_id": id, "key": "resume-1", "wait_seconds": 40}
	call[sessions.CloseResult](fronts[0], "session_close", closed)
	back := call[sessions.ResumeResult](fronts[1], "session_resume", resumed)
	w.killHost()
	if again := call[sessions.ResumeResult](fronts[2], "session_resume", resumed); again.Session.Generation != back.Session.Generation {
		t.Errorf("a resume that was made again made generation %s of %s", again.Session.Generation, back.Session.Generation)
	}
	if again := call[sessions.CloseResult](fronts[3], "session_close", closed); again.Session.State != sessions.SessionIdle {
		t.Errorf("a close that was made again, after the resume, closed: %+v", again)
	}
}

func same(e *sessions.Error, want, got string) error {
	if e != nil {
		return e
	}
	if want != got {
		return fmt.Errorf("got %s, want %s", got, want)
	}
	return nil
}

// atOnce does something n times at once.
func atOnce(t *testing.T, n int, do func(n int) error) {
	t.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			if err := do(i); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
}

// TestI05_OneTurnAtATime: of many sends to an idle session one runs, and of many resumes one starts an agent.
func TestI05_OneTurnAtATime(t *testing.T) {
	w := recordedWorld(t)
	f, g := w.open(), w.open()
	defer f.close()
	defer g.close()
	s := w.create(f, "codexlike", nil)
	var mu sync.Mutex
	taken := 0
	atOnce(t, 12, func(n int) error {
		_, e := try[sessions.SendResult]([]*front{f, g}[n%2], "session_send", args{"session_id": s.SessionID, "text": "#turn [say 2][wait]"})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e == nil:
			taken++
		case e.Code != sessions.CodeBusy || e.Details["running_command"] == nil:
			return e
		}
		return nil
	})
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	if n := w.times("#turn"); taken != 1 || n > 1 {
		t.Errorf("%d sends were taken, %d given", taken, n)
	}
	atOnce(t, 6, func(n int) error {
		_, e := try[sessions.ResumeResult]([]*front{f, g}[n%2], "session_resume", args{"session_id": s.SessionID, "wait_seconds": 40})
		if e != nil && e.Code != sessions.CodeNotRunning && e.Code != sessions.CodeBusy {
			return e
		}
		return nil
	})
	if got := f.look(s.SessionID); got.State != sessions.SessionIdle {
		t.Errorf("after the resumes: %+v", got)
	}
	if agents := w.find(" agent "); len(agents) != 1 {
		t.Errorf("agents: %v", agents)
	}
}
