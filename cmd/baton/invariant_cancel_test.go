package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// TestI09_CancelNamesWhatItCancels: the target is resolved once; a repeated cancel touches nothing that came later, and
// one of a command that has ended says how that ended.
func TestI09_CancelNamesWhatItCancels(t *testing.T) {
	for _, runner := range scripted {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			s := w.create(f, runner, nil)
			send := func(id, text string, wait int) sessions.Command {
				return call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": id, "text": text, "wait_seconds": wait}).Command
			}
			send("first", "[say 2][wait]", 0)
			f.streaming(s.SessionID, "first")
			cancel := args{"session_id": s.SessionID, "key": "cancel-1"} // whatever runs
			got := call[sessions.CancelResult](f, "session_cancel", cancel)
			if got.Command == nil || got.Command.CommandID != "first" || got.Command.State != sessions.CommandInterrupted {
				t.Fatalf("cancelled: %+v", got.Command)
			}
			send("second", "[say 2][wait]", 0)
			f.streaming(s.SessionID, "second")
			for range 2 {
				again := call[sessions.CancelResult](f, "session_cancel", cancel)
				if again.Command == nil || again.Command.CommandID != "first" {
					t.Errorf("made again it names %+v", again.Command)
				}
				w.killHost()
			}
			ended := call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID, "command_id": "first"})
			if ended.Command == nil || ended.Command.State != sessions.CommandInterrupted {
				t.Errorf("of an ended command: %+v", ended.Command)
			}
			if now := f.look(s.SessionID); now.State != sessions.SessionRunning || now.Running == nil || now.Running.CommandID != "second" {
				t.Fatalf("a later turn was touched: %+v", now)
			}
			call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID, "command_id": "second"})
			if c := f.ended(s.SessionID, "second"); c.State != sessions.CommandInterrupted {
				t.Errorf("the second: %+v", c)
			}
			refused(f, sessions.CodeNotRunning, "session_cancel", args{"session_id": s.SessionID})
			if c := send("third", "[say 1]", 30); c.State != sessions.CommandCompleted {
				t.Errorf("afterwards: %+v", c)
			}
		})
	}
}

// TestI09_ACancelOutlivesTheHost: a cancel that comes before the agent has taken the prompt is not lost with the host.
func TestI09_ACancelOutlivesTheHost(t *testing.T) {
	w := recordedWorld(t)
	w.write("baton/config.toml", `
[host]
idle_exit = "20s"

[runners.slow]
protocol = "app-server"
command = ["baton:agent", "app-server", "--delay-start", "7000"]
`)
	f := w.open()
	defer f.close()
	s := w.create(f, "slow", nil)
	call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "c", "text": "[slow 50][say 200]"})
	await(t, "the prompt at the agent", func() bool { return w.times("[say 200]") == 1 })
	done := make(chan sessions.CancelResult, 1)
	go func() {
		done <- call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID, "command_id": "c"})
	}()
	await(t, "the cancel at the agent", func() bool { return len(w.noted("cancel")) > 0 })
	w.killHost()
	if got := <-done; got.Command == nil || got.Command.State != sessions.CommandInterrupted {
		t.Errorf("cancelled: %+v", got.Command)
	}
	if got := words(f.events(s.SessionID), "c"); got != "" {
		t.Errorf("it said %q", got)
	}
	if n := w.times("[say 200]"); n != 1 {
		t.Errorf("given %d times", n)
	}
	again := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 1]", "wait_seconds": 50})
	if again.Command.State != sessions.CommandCompleted {
		t.Errorf("afterwards: %+v", again.Command)
	}
}

// TestI09_CancelFences: what does not exist yet can never begin; what belongs to somebody else is not there.
func TestI09_CancelFences(t *testing.T) {
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	command, session := sessions.NewID(), sessions.NewID()
	for _, a := range []args{{"session_id": s.SessionID, "command_id": command, "key": "fence-1"}, {"session_id": session, "key": "fence-2"}} {
		for range 2 {
			if got := call[sessions.CancelResult](f, "session_cancel", a); !got.Fenced {
				t.Errorf("%v: %+v", a, got)
			}
		}
	}
	w.killHost() // a fence outlives everything
	refused(f, sessions.CodeFenced, "session_send", args{"session_id": s.SessionID, "command_id": command, "text": "#fenced [say 1]"})
	refused(f, sessions.CodeFenced, "session_send", args{"session_id": s.SessionID, "command_id": command, "text": "#fenced [say 1]", "when_busy": "queue"})
	refused(f, sessions.CodeFenced, "session_create", args{"runner": "codexlike", "cwd": w.work, "session_id": session, "prompt": "#fenced"})
	if n := w.times("#fenced"); n != 0 || len(w.find(" agent ")) != 1 {
		t.Errorf("a fenced prompt was given %d times; agents %v", n, w.find(" agent "))
	}
	refused(f, sessions.CodeNotFound, "session_cancel", args{"session_id": s.SessionID, "command_id": "no-uuid"})
	other := *w
	other.more = []string{"--principal", "somebody"}
	g := other.open()
	defer g.close()
	mine := sessions.NewID()
	refused(g, sessions.CodeNotFound, "session_cancel", args{"session_id": s.SessionID, "command_id": mine})
	if c := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": mine, "text": "[say 1]", "wait_seconds": 50}); c.Command.State != sessions.CommandCompleted {
		t.Errorf("somebody else's cancel had an effect: %+v", c.Command)
	}
}

// TestI09_InterruptedMeansNothingIsLeft: a cancelled turn leaves no process of its own, and a queue behind it waits.
func TestI09_InterruptedMeansNothingIsLeft(t *testing.T) {
	for _, runner := range scripted {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			s := w.create(f, runner, nil)
			if s.Containment.Rung != "pid_namespace" {
				t.Skip("SKIPPED: without a pid namespace nothing is proven")
			}
			a := args{"session_id": s.SessionID, "command_id": "runs", "text": "[keep][say 1][run setsid sleep 4321 & setsid sleep 4321 & sleep 4321]"}
			call[sessions.SendResult](f, "session_send", a)
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "behind", "text": "[say 1]", "when_busy": "queue"})
			await(t, "the command", func() bool { return len(w.asleep("4321")) == 3 }) // out of its shell's group
			got := call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID, "command_id": "runs"})
			if got.Command.State != sessions.CommandInterrupted || !strings.Contains(got.Command.Reason, "killed") {
				t.Errorf("cancelled: %+v", got.Command)
			}
			if left := w.find("sleep 4321"); len(left) != 0 {
				t.Errorf("interrupted, and there is %v", left)
			}
			now := f.look(s.SessionID)
			if now.State != sessions.SessionIdle || len(now.Queued) != 1 || now.Recovery == "" {
				t.Errorf("the queue behind it: %+v", now)
			}
			call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "run_queue": true})
			if c := f.ended(s.SessionID, "behind"); c.State != sessions.CommandCompleted {
				t.Errorf("then: %+v", c)
			}
		})
	}
}

// I09: what hops from pid to pid is met by no single look at the process table. A turn that left it behind is told as
// interrupted only when it is gone.
func TestI09_InterruptedMeansNothingHops(t *testing.T) {
	t.Parallel()
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	s := w.create(f, scripted[0], nil)
	if s.Containment.Rung != "pid_namespace" {
		t.Skip("SKIPPED: without a pid namespace nothing is proven")
	}
	const hops = 20000 // bounds it, should it be left
	script := fmt.Sprintf("echo >>hops\n[ $1 -lt %d ] || exit 0\nsh hop.sh $(($1+1)) &\n", hops)
	if err := os.WriteFile(filepath.Join(s.Cwd, "hop.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	hopped := func() int64 {
		st, err := os.Stat(filepath.Join(s.Cwd, "hops"))
		if err != nil {
			return 0
		}
		return st.Size()
	}
	call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "hops", "text": "[keep][say 1][run setsid sh hop.sh 0 & sleep 4322]"})
	await(t, "the hops", func() bool { return hopped() > 20 && len(w.asleep("4322")) == 1 })
	got := call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID, "command_id": "hops"})
	before := hopped()
	for range 50 {
		w.find("hop.sh")
	}
	if after := hopped(); got.Command.State == sessions.CommandInterrupted && after > before || before >= hops {
		t.Errorf("%+v, and it hops on from %d to %d", got.Command, before, after)
	}
	t.Log(got.Command.State, got.Command.Reason, before)
}
