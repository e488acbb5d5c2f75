package main

import (
	"os"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/sessions"
)

// TestHostEndsInGoodOrder: a host that is told to end does so with calls open and turns running, and waits for neither. The
// sessions run on, and the open calls are answered by the next host.
func TestHostEndsInGoodOrder(t *testing.T) {
	for name, end := range map[string]func(*world, int){
		"stop": func(w *world, _ int) { w.baton("host", "stop") },
		"SIGTERM": func(w *world, pid int) {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			s := w.create(f, "codexlike", nil)
			const text = "#held [say 2][run until test -e over; do sleep 0.02; done][say 150]" // runs until its host has ended
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "c", "text": text})
			f.streaming(s.SessionID, "c")
			pid := w.hostPID()
			waited := make(chan sessions.WaitResult, 1)
			go func() {
				waited <- call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 40})
			}()
			sent := make(chan sessions.SendResult, 1)
			go func() {
				sent <- call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "c", "text": text, "wait_seconds": 40})
			}()
			end(w, pid)
			await(t, "the end of the host", func() bool { return !alive(pid) })
			w.write("work/over", "")
			if got := <-waited; got.TimedOut || len(got.Sessions) != 1 || got.Sessions[0].Session.State != sessions.SessionIdle {
				t.Errorf("the wait: %+v", got)
			}
			if got := <-sent; got.Command.State != sessions.CommandCompleted || got.Text != directive.Words(150) || got.Session.Generation != s.Generation {
				t.Errorf("the send: %+v", got)
			}
			if n := w.times("#held"); n != 1 {
				t.Errorf("given %d times", n)
			}
		})
	}
}

// TestHostKeepsItsSocket: a runtime folder that is cleaned under a living host cuts nobody off for long.
func TestHostKeepsItsSocket(t *testing.T) {
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	pid := w.hostPID()
	if err := os.Remove(w.path("baton/run/host.sock")); err != nil {
		t.Fatal(err)
	}
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 1]", "wait_seconds": 50})
	if sent.Command.State != sessions.CommandCompleted {
		t.Errorf("%+v", sent.Command)
	}
	if now := w.hostPID(); now != pid {
		t.Errorf("host %d took the place of %d", now, pid)
	}
}
