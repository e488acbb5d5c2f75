package main

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// TestI10_EveryCrashOnEveryRung: whatever is killed, the session ends with the strongest claim that its rung has left, and
// what it left behind is found and ended on every rung: here nothing hides.
func TestI10_EveryCrashOnEveryRung(t *testing.T) {
	best := sandbox.Probe(t.Context())
	for _, rung := range sandbox.Rungs {
		if !best.Offers(rung) {
			continue
		}
		for _, c := range []struct {
			name         string
			host, bridge bool
			reboot       bool
			confirmed    []sandbox.Rung
		}{
			{name: "none", confirmed: []sandbox.Rung{sandbox.PIDNamespace, sandbox.Subreaper}},
			{name: "host", host: true, confirmed: []sandbox.Rung{sandbox.PIDNamespace, sandbox.Subreaper}},
			{name: "bridge", bridge: true, confirmed: []sandbox.Rung{sandbox.PIDNamespace}},
			{name: "both", host: true, bridge: true, confirmed: []sandbox.Rung{sandbox.PIDNamespace}},
			{name: "reboot", host: true, bridge: true, reboot: true, confirmed: sandbox.Rungs},
		} {
			t.Run(string(rung)+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				w := recordedWorld(t)
				w.env = append(w.env, sandbox.ForceEnv+"="+string(rung))
				f := w.open()
				defer f.close()
				s := w.create(f, "codexlike", nil)
				if s.Containment.Rung != string(rung) {
					t.Fatalf("on rung %s", s.Containment.Rung)
				}
				call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": scattering, "wait_seconds": 50})
				await(t, "the scattered processes", func() bool { return len(w.asleep("4321")) == 2 })
				if c.host {
					w.killHost()
				}
				if c.bridge {
					w.kill("baton bridge")
				}
				if c.reboot { // nothing lives through one, and the boot is another
					for _, p := range append(w.find(" agent "), w.find("sleep 4321")...) {
						syscall.Kill(p.PID, syscall.SIGKILL)
					}
					w.alter("UPDATE generations SET record = json_set(record, '$.boot_id', 'another')")
				}
				closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
				want, proof := "unconfirmed", "none"
				if slices.Contains(c.confirmed, rung) {
					want, proof = "confirmed", string(rung)
				}
				if c.reboot {
					proof = "reboot"
				}
				if closed.Stopped != want || !strings.HasPrefix(closed.Proof, proof) {
					t.Errorf("closed: %s, %s", closed.Stopped, closed.Proof)
				}
				if left := append(w.find("sleep 4321"), w.find("baton bridge")...); len(left) != 0 {
					t.Errorf("left: %v", left)
				}
				if want == "unconfirmed" {
					refused(f, sessions.CodeStopUnconfirmed, "session_resume", args{"session_id": s.SessionID})
				} else if back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 50}); back.Session.State != sessions.SessionIdle {
					t.Errorf("taken up again: %+v", back.Session)
				}
			})
		}
	}
}

// TestI10_WhatOutlivedItsSessionIsFoundLater: a host that starts looks for what still carries the mark of a session whose
// end could not be proven.
func TestI10_WhatOutlivedItsSessionIsFoundLater(t *testing.T) {
	w := recordedWorld(t)
	w.env = append(w.env, sandbox.ForceEnv+"="+string(sandbox.Subreaper))
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	w.kill("baton bridge")
	if closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID}); closed.Stopped != "unconfirmed" {
		t.Errorf("closed: %+v", closed)
	}
	w.stopHost()
	late := exec.Command("/bin/sleep", "4323")
	late.Env = []string{sandbox.MarkerEnv + "=" + w.alter("SELECT json_extract(record, '$.marker') FROM generations")}
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		late.Wait()
	}()
	defer func() {
		late.Process.Kill()
		<-ended
	}()
	if got := f.look(s.SessionID); got.State == sessions.SessionIdle {
		t.Errorf("it is %s", got.State)
	}
	await(t, "the end of what outlived its session", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

// TestToldToEndWithoutAHost: a bridge whose host is gone ends when it is told to, and the next host has its last words.
func TestToldToEndWithoutAHost(t *testing.T) {
	for _, rung := range sandbox.Rungs {
		if !sandbox.Probe(t.Context()).Offers(rung) {
			continue
		}
		t.Run(string(rung), func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			w.env = append(w.env, sandbox.ForceEnv+"="+string(rung))
			f := w.open()
			defer f.close()
			s := w.create(f, "codexlike", nil)
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "c", "text": "[say 3][wait]"})
			f.streaming(s.SessionID, "c")
			bridge := w.find("baton bridge")
			w.killHost()
			if err := syscall.Kill(bridge[0].PID, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			await(t, "the end of the bridge", func() bool { return len(w.find("baton bridge")) == 0 })
			if left := w.find(" agent "); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 50})
			got := f.look(s.SessionID)
			if got.State != sessions.SessionFailed || got.Error == nil || !strings.Contains(got.Error.Message, "SIGTERM") {
				t.Errorf("the session: %+v", got)
			}
			all := f.events(s.SessionID)
			if n := count(all, sessions.EventGap, ""); n > 0 || count(all, sessions.EventCommandSettled, "c") != 1 {
				t.Errorf("%s", kinds(all))
			}
		})
	}
}
