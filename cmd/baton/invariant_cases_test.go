package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// TestCA05_ACancelReachesItsOwnSession: of two sessions with a running turn one is cancelled, and the other ends first.
func TestCA05_ACancelReachesItsOwnSession(t *testing.T) {
	for _, runner := range scripted {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			a, b := w.create(f, runner, nil).SessionID, w.create(f, runner, nil).SessionID
			call[sessions.SendResult](f, "session_send", args{"session_id": a, "command_id": "a", "text": "[say 2][wait]"})
			call[sessions.SendResult](f, "session_send", args{"session_id": b, "command_id": "b", "text": "[slow 20][say 30]"})
			f.streaming(a, "a")
			f.streaming(b, "b")
			cancelled := call[sessions.CancelResult](f, "session_cancel", args{"session_id": a})
			if c := cancelled.Command; c == nil || c.CommandID != "a" || c.State != sessions.CommandInterrupted {
				t.Errorf("cancelled: %+v", c)
			}
			if c := f.ended(b, "b"); c.State != sessions.CommandCompleted {
				t.Errorf("the other one: %+v", c)
			}
			if got := len(strings.Fields(words(f.events(b), "b"))); got != 30 {
				t.Errorf("the other one said %d words of 30", got)
			}
			if n := len(w.noted("cancel")); n != 1 {
				t.Errorf("%d cancels were given", n)
			}
		})
	}
}

// outside is an agent that somebody runs beside Baton, on the same account.
type outside struct {
	t   *testing.T
	cmd *exec.Cmd
	in  *bufio.Writer
	out *bufio.Reader
}

func (w *world) outside() *outside {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	o := &outside{t: w.t, cmd: exec.Command(exe, agentCommand, "app-server")}
	o.cmd.Env, o.cmd.Dir = w.env, w.work
	in, err := o.cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	o.in, o.out = bufio.NewWriter(in), bufio.NewReader(out)
	if err := o.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(o.kill)
	return o
}

func (o *outside) kill() {
	if o.cmd.ProcessState == nil {
		o.cmd.Process.Kill()
		o.cmd.Wait() // a process that was killed
	}
}

// ask makes a request and wants it to succeed.
func (o *outside) ask(id int, method string, params any) {
	o.t.Helper()
	line, err := json.Marshal(args{"id": id, "method": method, "params": params})
	if err != nil {
		o.t.Fatal(err)
	}
	if _, err := o.in.Write(append(line, '\n')); err != nil {
		o.t.Fatal(err)
	}
	if err := o.in.Flush(); err != nil {
		o.t.Fatal(err)
	}
	for {
		text, err := o.out.ReadBytes('\n')
		if err != nil {
			o.t.Fatal(err)
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Error  json.RawMessage
		}
		if err := json.Unmarshal(text, &m); err != nil {
			o.t.Fatalf("%v in %s", err, text)
		}
		if m.Method == "" && string(m.ID) == fmt.Sprint(id) {
			if m.Error != nil {
				o.t.Fatalf("%s: %s", method, m.Error)
			}
			return
		}
	}
}

// TestRE02_AnotherHoldsTheThread: while a program beside Baton writes a conversation, Baton takes it up in no parallel, says
// who is in the way, changes nothing, and goes on once the other has ended.
func TestRE02_AnotherHoldsTheThread(t *testing.T) {
	t.Parallel()
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 2]", "wait_seconds": 50})
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	o := w.outside()
	o.ask(1, "initialize", args{"clientInfo": args{"name": "other", "version": "1"}, "capabilities": args{"experimentalApi": true}})
	o.ask(2, "thread/resume", args{"threadId": s.NativeID})
	for range 2 {
		e := refused(f, sessions.CodeBusy, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 50})
		if !strings.Contains(e.Message, s.NativeID) || !strings.Contains(e.Message+e.Action, "another process") {
			t.Errorf("it says %v", e)
		}
		got := f.look(s.SessionID)
		if got.State != sessions.SessionFailed || got.NativeID != s.NativeID {
			t.Errorf("it is %s, bound to %s", got.State, got.NativeID)
		}
		refused(f, sessions.CodeNotRunning, "session_send", args{"session_id": s.SessionID, "text": "[say 1]"})
	}
	if left := w.find("baton bridge"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	o.kill()
	back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 50}).Session
	if back.State != sessions.SessionIdle || back.NativeID != s.NativeID {
		t.Errorf("afterwards: %s, bound to %s", back.State, back.NativeID)
	}
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 3]", "wait_seconds": 50})
	if sent.Command.State != sessions.CommandCompleted || len(w.noted("prompt")) != 2 {
		t.Errorf("%+v, %d prompts were given", sent.Command, len(w.noted("prompt")))
	}
}

// TestRE04_AgentKilledWhileIdle: the session says so by itself, a send behind it is refused at once with what to do, and a
// resume takes the conversation up with a new agent.
func TestRE04_AgentKilledWhileIdle(t *testing.T) {
	for _, runner := range scripted {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			s := w.create(f, runner, nil)
			sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 2]", "wait_seconds": 50})
			w.kill(" agent ")
			got := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "until": "event",
				"after": args{s.SessionID: sent.Session.Cursor}, "wait_seconds": 50})
			for !got.TimedOut && got.Sessions[0].Session.State.Live() {
				got = call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "until": "event",
					"after": args{s.SessionID: got.Sessions[0].Cursor}, "wait_seconds": 50})
			}
			if got.TimedOut {
				t.Fatal("nothing is said of it")
			}
			if v := got.Sessions[0].Session; v.State != sessions.SessionFailed || v.Error == nil || v.Error.Code != sessions.CodeAgentExited ||
				!strings.Contains(v.Error.Message, "SIGKILL") || v.Recovery == "" {
				t.Errorf("it is %s: %v, %q", v.State, v.Error, v.Recovery)
			}
			began := time.Now()
			e := refused(f, sessions.CodeNotRunning, "session_send", args{"session_id": s.SessionID, "command_id": "late", "text": "[say 1]", "wait_seconds": 40})
			if !strings.Contains(e.Action, "session_resume") {
				t.Errorf("it says %v", e)
			}
			t.Logf("refused after %v", time.Since(began).Round(time.Millisecond))
			back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 50}).Session
			if back.State != sessions.SessionIdle || back.Generation == s.Generation || back.NativeID != s.NativeID {
				t.Errorf("afterwards: %+v", back)
			}
			again := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "late", "text": "[say 1]", "wait_seconds": 50})
			if again.Command.State != sessions.CommandCompleted || w.times("[say 1]") != 1 {
				t.Errorf("%+v, given %d times", again.Command, w.times("[say 1]"))
			}
		})
	}
}

// TestPR02_GrandchildHoldsThePipe: neither a program whose child holds its output open, nor one that leaves such a child
// behind, keeps a start or a question waiting for longer than its limit, and nothing of it is left.
func TestPR02_GrandchildHoldsThePipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("holds", "#!/bin/sh\nsleep 4321 &\necho hi\nwait\n")
	w.write("leaves", "#!/bin/sh\nsleep 4321 &\necho hi\nexit 0\n")
	for _, name := range []string{"holds", "leaves"} {
		if err := os.Chmod(w.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f := w.open()
	defer f.close()
	for _, c := range []struct {
		name, limit string // whose moment comes with its limit, and long before it
		code        sessions.Code
	}{{"holds", "5s", sessions.CodeTimeout}, {"leaves", "60s", sessions.CodeAgentExited}} {
		w.write("baton/config.toml", `
[host]
idle_exit = "20s"
handshake_timeout = "`+c.limit+`"
allow_unconfined_full_access = true
`+runnerOf(c.name, "app-server", w.path(c.name))+runnerOf(c.name+"-acp", "acp", w.path(c.name)))
		atOnce(t, 2, func(n int) error {
			runner, began := c.name+[]string{"", "-acp"}[n], time.Now()
			_, e := try[sessions.CreateResult](f, "session_create", args{"runner": runner, "cwd": w.work, "sandbox": sessions.SandboxFullAccess, "wait_seconds": 40})
			if e == nil || e.Code != c.code {
				return fmt.Errorf("%s: %v, want %s", runner, e, c.code)
			}
			t.Logf("%s after %v: %v", runner, time.Since(began).Round(time.Millisecond), e)
			return nil
		})
		if left := append(w.find("sleep 4321"), w.find("baton bridge")...); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func runnerOf(name, protocol, program string) string {
	return fmt.Sprintf("\n[runners.%s]\nprotocol = %q\ncommand = [%q]\n", name, protocol, program)
}

// TestPR05_DescriptorsComeBack: sessions that were created, used and closed, and starts that failed, leave no descriptor
// open in the host, and fit under a low limit. BATON_FULL=1 makes 200 of each.
func TestPR05_DescriptorsComeBack(t *testing.T) {
	t.Parallel()
	rounds := 4
	if os.Getenv("BATON_FULL") != "" {
		rounds = 200
	}
	var ended sync.WaitGroup
	t.Cleanup(ended.Wait) // behind the end of the world, which stops the host
	w := newWorld(t)
	host := w.limited(128, &ended)
	f := w.open()
	defer f.close()
	quits := w.path("quits")
	w.write("quits", "#!/bin/sh\nexit 3\n")
	if err := os.Chmod(quits, 0o700); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(w.path("baton/config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("baton/config.toml", string(config)+runnerOf("quits", "app-server", quits)+runnerOf("missing", "app-server", w.path("none")))
	round := func(n int) {
		runner := scripted[n%2]
		s := w.create(f, runner, nil)
		sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 1]", "wait_seconds": 50})
		if sent.Command.State != sessions.CommandCompleted {
			t.Fatalf("round %d: %+v", n, sent.Command)
		}
		if closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID, "delete": n%4 < 2}); closed.Stopped != "confirmed" {
			t.Fatalf("round %d: %+v", n, closed)
		}
		refused(f, sessions.CodeRunnerMissing, "session_create", args{"runner": "missing", "cwd": w.work})
		refused(f, sessions.CodeAgentExited, "session_create", args{"runner": "quits", "cwd": w.work, "wait_seconds": 40})
	}
	round(0)
	round(1)
	before := descriptors(t, host)
	for n := range rounds {
		round(n)
	}
	var after []string
	await(t, "the host's descriptors to come back", func() bool {
		after = descriptors(t, host)
		return len(after) <= len(before)
	})
	if len(after) > len(before) {
		t.Errorf("after %d rounds %d descriptors are open, %d were:\n%s", rounds, len(after), len(before), strings.Join(after, "\n"))
	}
	if log, err := os.ReadFile(w.path("baton/state/logs/host.log")); err == nil && strings.Contains(string(log), "too many open files") {
		t.Error("the limit was reached")
	}
}

// limited starts the world's host with a limit of open files and returns its pid.
func (w *world) limited(files int, ended *sync.WaitGroup) int {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("ulimit -n %d && exec \"$0\" host run", files), exe)
	cmd.Env = w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended.Go(func() { cmd.Wait() }) // it is told to stop
	pid := cmd.Process.Pid
	await(w.t, "the host", func() bool {
		status := exec.Command(exe, "host", "status")
		status.Env = w.env
		return status.Run() == nil
	})
	return pid
}

// descriptors are what a process has open, sockets and pipes without their numbers.
func descriptors(t *testing.T, pid int) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, e := range entries {
		if to, err := os.Readlink(dir + "/" + e.Name()); err == nil {
			open = append(open, to)
		}
	}
	return open
}

// TestPR06_AgentThatReadsNothing: a prompt that is longer than a pipe holds, to an agent that stands still, is neither sent
// nor unsent. Its session can be looked at and closed meanwhile, and says that it does not know.
func TestPR06_AgentThatReadsNothing(t *testing.T) {
	if testing.Short() {
		return // the close takes the graces of an agent that does not leave
	}
	t.Parallel()
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	for _, p := range w.find(" agent ") {
		if err := syscall.Kill(p.PID, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Repeat("a long prompt ", 60_000)
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "c", "text": text, "wait_seconds": 1})
	if sent.Command.State != sessions.CommandSubmitted || sent.Session.State != sessions.SessionRunning {
		t.Errorf("%s in a session that is %s", sent.Command.State, sent.Session.State)
	}
	if e := refused(f, sessions.CodeBusy, "session_send", args{"session_id": s.SessionID, "text": "[say 1]"}); e.Details["running_command"] != "c" {
		t.Errorf("it says %v", e)
	}
	closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	if closed.Stopped != "confirmed" || closed.Session.State != sessions.SessionClosed {
		t.Errorf("closed: %s, %s: %s", closed.Session.State, closed.Stopped, closed.Proof)
	}
	again := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "c", "text": text})
	if again.Command.State != sessions.CommandUnknown {
		t.Errorf("it is %s: %s", again.Command.State, again.Command.Reason)
	}
	if n := len(w.noted("prompt")); n != 0 {
		t.Errorf("%d prompts were read", n)
	}
}
