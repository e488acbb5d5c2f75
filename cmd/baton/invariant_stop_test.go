package main

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// scattering is a turn that leaves processes behind which have nothing to do with their parents any more.
const scattering = "[run setsid sh -c 'sleep 4321 & setsid sleep 4321 &'][say 1]"

// TestI10_StoppedMeansProven: a close ends every process of its session, whatever they did to get away, and says what
// proves it; also when the host that started them is gone.
func TestI10_StoppedMeansProven(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("host killed %v", killed), func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			s := w.create(f, "codexlike", nil)
			if s.Containment.Rung != "pid_namespace" {
				t.Skip("SKIPPED: without a pid namespace nothing is proven")
			}
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": scattering, "wait_seconds": 50})
			await(t, "the scattered processes", func() bool { return len(w.asleep("4321")) == 2 })
			if killed {
				w.killHost()
			}
			closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
			if closed.Stopped != "confirmed" || closed.Proof == "" || closed.Session.State != sessions.SessionClosed {
				t.Errorf("closed: %+v", closed)
			}
			if left := append(w.find("sleep 4321"), w.find("baton bridge")...); len(left) != 0 {
				t.Errorf("confirmed, and there is %v", left)
			}
		})
	}
}

// TestI10_UnprovenBlocksTheNextGeneration: where nothing can prove the end, it is said, and no agent is started over it
// unless somebody takes that on.
func TestI10_UnprovenBlocksTheNextGeneration(t *testing.T) {
	w := recordedWorld(t)
	w.env = append(w.env, "BATON_SANDBOX_RUNG=process_group")
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	if closed.Stopped != "unconfirmed" || closed.Proof == "" {
		t.Errorf("closed: %+v", closed)
	}
	w.killHost()
	refused(f, sessions.CodeStopUnconfirmed, "session_resume", args{"session_id": s.SessionID})
	if agents := w.find(" agent "); len(agents) != 0 {
		t.Errorf("agents: %v", agents)
	}
	back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "accept_unconfirmed": true, "wait_seconds": 50})
	if back.Session.State != sessions.SessionIdle {
		t.Errorf("accepted: %+v", back.Session)
	}
	said := 0
	for _, e := range f.events(s.SessionID) {
		if e.Kind == sessions.EventWarning && e.Code == sessions.CodeStopUnconfirmed {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d events say that it was accepted", said)
	}
}

// TestI10_NothingProceedsOverALivingAgent: a session has one agent, whatever happened to those who look after it.
func TestI10_NothingProceedsOverALivingAgent(t *testing.T) {
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	bridge := w.find("baton bridge")
	if len(bridge) != 1 {
		t.Fatalf("bridges: %v", bridge)
	}
	// A bridge that stands still answers nobody, and is not gone.
	if err := syscall.Kill(bridge[0].PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.killHost()
	refused(f, sessions.CodeNotRunning, "session_resume", args{"session_id": s.SessionID})
	if err := syscall.Kill(bridge[0].PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 1]", "wait_seconds": 50})
	if sent.Command.State != sessions.CommandCompleted || sent.Session.Generation != s.Generation {
		t.Errorf("afterwards: %+v", sent)
	}
}
