package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// process is a Process made with os/exec.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) Status() (int, string) {
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return -1, map[syscall.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGKILL: "SIGKILL"}[ws.Signal()]
	}
	return ws.ExitStatus(), ""
}

func (p *process) SignalGroup(sig syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, sig) }

func startProcess(p Program) (Process, error) {
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, p.Env, p.Output, p.Output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	q := &process{cmd, make(chan struct{})}
	go func() {
		defer close(q.done)
		_ = cmd.Wait()
	}()
	return q, nil
}

// openedTerminals is an agent that may have programs started, with a turn running.
func openedTerminals(t *testing.T) (f *fixture, prompt message, dir string) {
	t.Helper()
	dir = t.TempDir()
	o := Options{Start: startProcess, Env: []string{"PATH=" + os.Getenv("PATH"), "BASE=base"}}
	f = opened(t, o, sessions.OpenParams{Cwd: dir, BridgeSandbox: sessions.SandboxWorkspaceWrite})
	return f, f.prompt("c1"), dir
}

// terminal asks for a terminal; params are its members without braces.
func (f *fixture) terminal(id, params string) message {
	f.Helper()
	f.peer.request(id, methodTermCreate, `{"sessionId":"s1",`+params+`}`)
	return f.peer.reply(id)
}

func (f *fixture) create(id, params string) (terminal string) {
	f.Helper()
	var r struct{ TerminalID string }
	m := f.terminal(id, params)
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.TerminalID == "" {
		f.Fatalf("terminal/create: %+v", m)
	}
	return r.TerminalID
}

func (f *fixture) about(id, method, terminal string) {
	f.peer.request(id, method, fmt.Sprintf(`{"sessionId":"s1","terminalId":%q}`, terminal))
}

type terminalState struct {
	Output    string
	Truncated bool
	ExitCode  *int
	Signal    *string
	Exit      *struct {
		ExitCode *int
		Signal   *string
	} `json:"exitStatus"`
}

func (f *fixture) state(id string) (s terminalState) {
	f.Helper()
	m := f.peer.reply(id)
	if m.Error != nil || json.Unmarshal(m.Result, &s) != nil {
		f.Fatalf("answer %s: %+v", id, m)
	}
	return s
}

func TestTerminal(t *testing.T) {
	f, prompt, dir := openedTerminals(t)
	term := f.create("1", `"command":"sh","args":["-c","echo $BASE $MORE; pwd; echo e >&2; exit 3"],"env":[{"name":"MORE","value":"more"}]`)
	f.about("2", methodTermWait, term)
	if s := f.state("2"); s.ExitCode == nil || *s.ExitCode != 3 || s.Signal != nil {
		t.Errorf("exit %+v", s)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	f.about("3", methodTermOutput, term)
	if s := f.state("3"); s.Output != "base more\n"+real+"\ne\n" || s.Truncated || s.Exit == nil || *s.Exit.ExitCode != 3 {
		t.Errorf("output %+v", s)
	}
	f.about("4", methodTermWait, term)
	if s := f.state("4"); *s.ExitCode != 3 {
		t.Errorf("exit again %+v", s)
	}
	f.about("5", methodTermRelease, term)
	if m := f.peer.reply("5"); m.Error != nil {
		t.Errorf("release %+v", m)
	}
	f.about("6", methodTermOutput, term)
	if m := f.peer.reply("6"); m.Error == nil || m.Error.Code != codeNoResource {
		t.Errorf("output of a released terminal: %+v", m)
	}

	// A line for the shell, and a limit in mid-character.
	term = f.create("7", `"command":"echo one; echo äöü","outputByteLimit":6`)
	f.about("8", methodTermWait, term)
	f.state("8")
	f.about("9", methodTermOutput, term)
	if s := f.state("9"); s.Output != "öü\n" || !s.Truncated {
		t.Errorf("cut output %+v", s)
	}
	f.peer.result(prompt, `{"stopReason":"end_turn"}`)
	f.settled()
	if m := f.terminal("10", `"command":"true"`); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
		t.Errorf("a terminal without a turn: %+v", m)
	}
}

func TestTerminalRefuses(t *testing.T) {
	f, _, dir := openedTerminals(t)
	for i, params := range []string{`"command":""`, `"command":"no-such-program","args":["x"]`, `"command":"/dev/null","args":["x"]`, `"command":"sh","cwd":"/"`,
		`"command":"sh","cwd":"` + dir + `/../"`, `"command":"sh","env":[{"name":"A=B","value":""}]`, `"command":"sh","env":[{"name":"A","value":"a\u0000"}]`, `"command":7`} {
		if m := f.terminal(fmt.Sprint(i), params); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
			t.Errorf("%s: %+v", params, m)
		}
	}
	f.peer.request("90", methodTermCreate, `{"sessionId":"sub","command":"true"}`)
	if m := f.peer.reply("90"); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
		t.Errorf("another session's: %+v", m)
	}
	for i, method := range []string{methodTermOutput, methodTermWait, methodTermKill, methodTermRelease} {
		id := fmt.Sprint(100 + i)
		f.about(id, method, "term-99")
		if m := f.peer.reply(id); m.Error == nil || m.Error.Code != codeNoResource {
			t.Errorf("%s: %+v", method, m)
		}
	}
	for i := range maxTerminals {
		f.create(fmt.Sprint(200+i), `"command":"true"`)
	}
	if m := f.terminal("300", `"command":"true"`); m.Error == nil {
		t.Error("terminals without end")
	}
}

// sleeper starts a program that has a child and ignores being asked to leave. alive is closed when it runs.
func (f *fixture) sleeper(id, dir string) (terminal string) {
	f.Helper()
	fifo := filepath.Join(dir, "ready"+id)
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		f.Fatal(err)
	}
	terminal = f.create(id, fmt.Sprintf(`"command":"trap '' TERM; echo begun; echo ready > %s; sleep 600 & wait; sleep 600"`, fifo))
	if b, err := os.ReadFile(fifo); err != nil || string(b) != "ready\n" {
		f.Fatalf("%q %v", b, err)
	}
	return terminal
}

func TestTerminalKill(t *testing.T) {
	f, _, dir := openedTerminals(t)
	term := f.sleeper("1", dir)
	for n := 1000; ; n++ { // the program has written it, and the pipe is read in its own time
		id := fmt.Sprint(n)
		f.about(id, methodTermOutput, term)
		s := f.state(id)
		if s.Exit != nil || f.ctx.Err() != nil {
			t.Fatalf("running: %+v", s)
		}
		if s.Output == "begun\n" {
			break
		}
	}
	f.about("3", methodTermWait, term)
	f.about("4", methodTermKill, term)
	if m := f.peer.reply("4"); m.Error != nil {
		t.Errorf("kill: %+v", m)
	}
	if s := f.state("3"); s.Signal == nil || *s.Signal != "SIGKILL" || s.ExitCode != nil {
		t.Errorf("killed: %+v", s)
	}
	f.about("5", methodTermOutput, term)
	if s := f.state("5"); s.Exit == nil || s.Output != "begun\n" {
		t.Errorf("after: %+v", s)
	}
}

// The end of a turn, and the end of the link, are the end of the programs; whoever waits for one is told.
func TestTerminalEndsWithItsTurn(t *testing.T) {
	for name, end := range map[string]func(*fixture, message){
		"cancelled": func(f *fixture, p message) {
			if err := f.Agent.Cancel(f.ctx, "c1"); err != nil {
				f.Fatal(err)
			}
			f.peer.next("session/cancel")
		},
		"ended": func(f *fixture, p message) {
			f.peer.result(p, `{"stopReason":"end_turn"}`)
			f.settled()
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, prompt, dir := openedTerminals(t)
			term := f.sleeper("1", dir)
			f.about("2", methodTermWait, term)
			end(f, prompt)
			if s := f.state("2"); s.Signal == nil || *s.Signal != "SIGKILL" {
				t.Errorf("%+v", s)
			}
		})
	}
	t.Run("link", func(t *testing.T) {
		var started []*process
		dir := t.TempDir()
		o := Options{Env: []string{"PATH=" + os.Getenv("PATH")}, Start: func(p Program) (Process, error) {
			q, err := startProcess(p)
			if err == nil {
				started = append(started, q.(*process))
			}
			return q, err
		}}
		f := opened(t, o, sessions.OpenParams{Cwd: dir})
		f.prompt("c1")
		f.sleeper("1", dir)
		f.peer.out.Close()
		<-f.Done()
		<-started[0].Done()
		if _, sig := started[0].Status(); sig != "SIGKILL" {
			t.Errorf("ended by %q", sig)
		}
	})
}

// The agent may give up waiting, as it may for any request of its own.
func TestTerminalWaitWithdrawn(t *testing.T) {
	f, _, dir := openedTerminals(t)
	term := f.sleeper("1", dir)
	f.about(`"w"`, methodTermWait, term)
	f.peer.notify("$/cancel_request", `{"requestId":"w"}`)
	if m := f.peer.reply(`"w"`); m.Error == nil || m.Error.Code != codeCancelled {
		t.Errorf("withdrawn: %+v", m)
	}
}

// What a tool shows of its terminal is the tool's output.
func TestToolShowsItsTerminal(t *testing.T) {
	f, prompt, _ := openedTerminals(t)
	term := f.create("1", `"command":"echo shown; exit 4"`)
	f.peer.update(`"sessionUpdate":"tool_call","toolCallId":"t1","title":"x","kind":"execute","status":"in_progress","content":[{"type":"terminal","terminalId":"` + term + `"}]`)
	f.about("2", methodTermWait, term)
	f.state("2")
	f.about("3", methodTermRelease, term)
	f.peer.reply("3")
	f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"failed"`)
	f.peer.result(prompt, `{"stopReason":"end_turn"}`)
	e := f.rec.await(sessions.EventToolCompleted)
	if e.Tool.Output != "shown\n" || e.Tool.Exit == nil || *e.Tool.Exit != 4 || e.Tool.Status != "failed" {
		t.Errorf("tool %+v", e.Tool)
	}
}

// What a program wrote before its end is its output, however late it is read, and whoever holds the pipe.
func TestOutputIsTakenBehindTheDeadline(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	o := &terminal{read: read, output: &output{max: 100}}
	o.output.mu.Lock() // who reads is late
	held := make(chan bool)
	go func() { held <- o.collect() }()
	for _, text := range []string{"one ", "two "} {
		if _, err := write.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := read.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	o.output.mu.Unlock()
	if !<-held {
		t.Error("nobody holds the pipe")
	}
	if text, _ := o.output.text(); text != "one two " {
		t.Errorf("%q", text)
	}
	go func() { held <- o.collect() }()
	if _, err := write.WriteString("three"); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if <-held {
		t.Error("somebody still holds the pipe")
	}
	if text, _ := o.output.text(); text != "one two three" {
		t.Errorf("and then %q", text)
	}
}

func TestOutputKeepsItsEnd(t *testing.T) {
	o := &output{max: 10}
	var all bytes.Buffer
	for i := range 5000 {
		fmt.Fprintf(&all, "%d ", i)
		fmt.Fprintf(o, "%d ", i)
	}
	text, cut := o.text()
	if !cut || len(text) != 10 || !strings.HasSuffix(all.String(), text) {
		t.Errorf("%q %v", text, cut)
	}
	if cap(o.buf) > 64<<10 {
		t.Errorf("%d bytes are held for 10", cap(o.buf))
	}
}
