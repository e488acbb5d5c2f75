package main

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batonmcp/baton/sessions"
)

// TestI10_ABridgeThatCannotBeKilled: while a process of a pid namespace is traced from outside, the end of the namespace
// waits for the tracer, whatever kills it. Its session ends all the same, as unconfirmed, with an exit.
func TestI10_ABridgeThatCannotBeKilled(t *testing.T) {
	if os.Getenv("BATON_FULL") == "" {
		t.Skip("SKIPPED: it takes half a minute of waiting; BATON_FULL=1 runs it")
	}
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	if s.Containment.Rung != "pid_namespace" {
		t.Skip("SKIPPED: without a pid namespace a bridge can be killed")
	}
	runtime.LockOSThread() // what traces is a thread
	defer runtime.UnlockOSThread()
	agent := w.find(" agent ")[0].PID
	if err := unix.PtraceSeize(agent); err != nil {
		t.Skipf("SKIPPED: this user may not trace its own process: %v", err)
	}
	w.kill("baton bridge")
	res := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "until": "event", "after": args{s.SessionID: s.Cursor}, "wait_seconds": 50})
	if len(res.Sessions) != 1 || res.Sessions[0].Session.State != sessions.SessionFailed {
		t.Errorf("it is %+v", res)
	}
	closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	if closed.Stopped != "unconfirmed" || closed.Proof == "" {
		t.Errorf("closed: %s (%s)", closed.Stopped, closed.Proof)
	}
	refused(f, sessions.CodeStopUnconfirmed, "session_resume", args{"session_id": s.SessionID})
	var status syscall.WaitStatus
	for { // its tracer takes the exit status, and with that the namespace can end
		pid, err := syscall.Wait4(agent, &status, syscall.WALL, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid != agent || !status.Signaled() {
			t.Fatalf("%d, %v, %v", pid, status, err)
		}
		break
	}
	await(t, "the end of the bridge", func() bool { return len(w.find("baton bridge")) == 0 })
	back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "accept_unconfirmed": true, "wait_seconds": 50})
	if back.Session.State != sessions.SessionIdle {
		t.Errorf("taken up again: %+v", back.Session)
	}
}
