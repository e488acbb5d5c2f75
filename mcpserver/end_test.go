package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// MC-01: the end of the input ends the wait and the server, and the client that still reads is told so.
func TestEndOfInputEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{wait: waitTheirTime})
		c.call("1", "session_wait", `{"wait_seconds":40}`, "")
		synctest.Wait()
		before := time.Now()
		if err := c.end(); err != nil {
			t.Errorf("ServeStdio returned %v", err)
		}
		if took := time.Since(before); took > time.Second {
			t.Errorf("the end took %s", took)
		}
		e := c.answer("1").failed(t)
		if e.Code != sessions.CodeIncomplete || !strings.Contains(e.Message, "goes on") || e.Action == "" {
			t.Errorf("the wait ended with %+v", e)
		}
	})
}

// MC-01: a call that was on its way when the input ended is finished and answered, also one without a line end.
func TestCallOnItsWayFinishesAfterTheInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{send: func(ctx context.Context, a sessions.SendArgs) (sessions.SendResult, error) {
			select {
			case <-time.After(200 * time.Millisecond):
				return sessions.SendResult{Command: sessions.Command{CommandID: a.CommandID, State: sessions.CommandSubmitted}}, nil
			case <-ctx.Done():
				return sessions.SendResult{}, context.Cause(ctx)
			}
		}}
		c := start(t, f)
		c.raw(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_send","arguments":{"session_id":"s","text":"x","command_id":"c1"}}}`)
		if err := c.end(); err != nil {
			t.Errorf("ServeStdio returned %v", err)
		}
		if r := c.answer("1").tool(t); r.IsError || !strings.Contains(r.Content[0].Text, "c1") {
			t.Errorf("the send ended with %s", r.Structured)
		}
	})
}

func TestEmptyInputEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		before := time.Now()
		if err := New(&fake{}, Options{}).ServeStdio(context.Background(), strings.NewReader(""), &out); err != nil || out.Len() > 0 {
			t.Errorf("%v, wrote %q", err, out.String())
		}
		if time.Since(before) != 0 {
			t.Errorf("the end took %s", time.Since(before))
		}
	})
}

// MC-01: a client that closes our output ends the server, whatever is open.
func TestEndOfOutputEndsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		f := &fake{wait: func(ctx context.Context, a sessions.WaitArgs) (sessions.WaitResult, error) {
			<-ctx.Done()
			close(ended)
			return sessions.WaitResult{}, context.Cause(ctx)
		}}
		c := start(t, f)
		c.call("1", "session_wait", "", "")
		synctest.Wait()
		c.out.Close()
		c.line(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		if err := <-c.served; err != nil {
			t.Errorf("ServeStdio returned %v", err)
		}
		<-ended
	})
}

func TestFailingOutputIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		err := New(&fake{}, Options{}).ServeStdio(context.Background(), strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"ping"}`), failing{full})
		if !errors.Is(err, full) {
			t.Errorf("ServeStdio returned %v", err)
		}
		inR, inW := io.Pipe()
		defer inW.Close()
		served := make(chan error, 1)
		go func() { served <- New(&fake{}, Options{}).ServeStdio(context.Background(), inR, failing{full}) }()
		io.WriteString(inW, `{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n")
		if err := <-served; !errors.Is(err, full) {
			t.Errorf("ServeStdio returned %v", err)
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// SIGTERM arrives as the end of the context.
func TestStopEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{wait: waitTheirTime})
		c.call("1", "session_wait", `{"wait_seconds":40}`, `{"progressToken":1}`)
		synctest.Wait()
		before := time.Now()
		c.stop()
		if err := <-c.served; err != nil {
			t.Errorf("ServeStdio returned %v", err)
		}
		if took := time.Since(before); took > time.Second {
			t.Errorf("the end took %s", took)
		}
		if e := c.answer("1").failed(t); e.Code != sessions.CodeIncomplete {
			t.Errorf("the wait ended with %+v", e)
		}
		if _, err := io.WriteString(c.in, "{}\n"); err != io.ErrClosedPipe {
			t.Errorf("somebody still reads the input: %v", err)
		}
	})
}

// A client that never reads holds back who writes, loses nothing, and cannot keep the server from ending.
func TestClientThatDoesNotReadCannotHoldTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSilent(t, New(&fake{}, Options{}))
		for i := range 500 {
			c.call(jsonOf(i), "runner_list", "", "")
		}
		synctest.Wait()
		before := time.Now()
		if err := c.end(); err == nil || !strings.Contains(err.Error(), "does not read") {
			t.Errorf("ServeStdio returned %v", err)
		}
		if took := time.Since(before); took > 15*time.Second {
			t.Errorf("the end took %s", took)
		}
	})
}

func TestBackPressureLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSilent(t, New(&fake{}, Options{}))
		for i := range 500 {
			c.call(jsonOf(i), "runner_list", "", "")
		}
		synctest.Wait() // everything that can be written is written
		go c.read()
		for i := range 500 {
			ok(t, c.answer(jsonOf(i)), "runner_list")
		}
	})
}

// A call that ignores its context is reported, not waited for without end.
func TestCallThatDoesNotEndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := &fake{wait: func(context.Context, sessions.WaitArgs) (sessions.WaitResult, error) {
			<-release
			return sessions.WaitResult{}, nil
		}}
		c := start(t, f)
		c.call("1", "session_wait", "", "")
		synctest.Wait()
		if err := c.end(); err == nil {
			t.Error("ServeStdio returned nil while a call was running")
		}
		close(release)
	})
}

func jsonOf(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// serveAsProcess is the test binary as a server on its own standard streams.
func serveAsProcess() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	f := &fake{wait: waitTheirTime}
	err := New(f, Options{}).ServeStdio(ctx, os.Stdin, os.Stdout)
	if err != nil {
		os.Stderr.WriteString("serve: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Stderr.WriteString("clean end\n")
	os.Exit(0)
}

// process is a server in a process of its own.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      io.ReadCloser
	lines    *bufio.Reader
	messages bytes.Buffer // standard error
}

func startProcess(t *testing.T) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), "BATON_TEST_STDIO=1")
	p.cmd.Stderr = &p.messages
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewReader(p.out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	io.WriteString(p.in, initialize+"\n")
	if line, err := p.lines.ReadString('\n'); err != nil || !strings.Contains(line, `"init-1"`) {
		t.Fatalf("initialize: %q, %v", line, err)
	}
	return p
}

// ended waits for the process and fails unless its own code ended it, with exit status 0.
func (p *process) ended(t *testing.T) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil || !strings.Contains(p.messages.String(), "clean end") {
		t.Errorf("process: %v, stderr %q", err, p.messages.String())
	}
}

// MC-01 in a real process: a Go program whose standard output is closed dies of SIGPIPE unless that is handled.
func TestProcessSurvivesAClosedOutput(t *testing.T) {
	p := startProcess(t)
	io.WriteString(p.in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_wait","arguments":{"wait_seconds":40}}}`+"\n")
	p.out.Close()
	io.WriteString(p.in, `{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n")
	p.ended(t)
}

func TestProcessEndsOnSIGTERM(t *testing.T) {
	p := startProcess(t)
	io.WriteString(p.in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_wait","arguments":{"wait_seconds":40}}}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n")
	if line, err := p.lines.ReadString('\n'); err != nil || !strings.Contains(line, `"id":2`) {
		t.Fatalf("ping: %q, %v", line, err)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	if line, err := p.lines.ReadString('\n'); err != nil || !strings.Contains(line, "incomplete") {
		t.Errorf("the open wait got %q, %v", line, err)
	}
	p.ended(t)
}

func TestProcessEndsWithItsInput(t *testing.T) {
	p := startProcess(t)
	p.in.Close()
	if rest, err := io.ReadAll(p.lines); err != nil || len(rest) > 0 {
		t.Errorf("after the end came %q, %v", rest, err)
	}
	p.ended(t)
}
