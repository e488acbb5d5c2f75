package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/batonmcp/baton/sessions"
)

// console is baton at a terminal of its own, and who types at it.
type console struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	done chan struct{} // the terminal says no more

	mu   sync.Mutex
	more *sync.Cond
	said string
	read int // how much of it was awaited
}

// terminal starts baton at a terminal of its own.
func (w *world) terminal(argv ...string) *console {
	w.t.Helper()
	return w.console(self(w.t), argv...)
}

// console starts a program at a terminal of 100 columns.
func (w *world) console(program string, argv ...string) *console {
	w.t.Helper()
	c := &console{t: w.t, cmd: exec.Command(program, argv...), done: make(chan struct{})}
	c.more = sync.NewCond(&c.mu)
	var err error
	c.cmd.Env, c.cmd.Dir = append([]string{"TERM=xterm-256color"}, w.env...), w.work
	if c.tty, err = pty.StartWithSize(c.cmd, &pty.Winsize{Rows: 40, Cols: 100}); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		b := make([]byte, 4096)
		for {
			n, err := c.tty.Read(b)
			c.mu.Lock()
			c.said += string(b[:n])
			c.mu.Unlock()
			c.more.Broadcast()
			if err != nil { // EIO: the other end is closed
				return
			}
		}
	}()
	w.t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
		_ = c.tty.Close()
		<-c.done
	})
	return c
}

// sees waits until the terminal shows a text that was not awaited before.
func (c *console) sees(text string) {
	c.t.Helper()
	late := false
	limit := time.AfterFunc(patience, func() {
		c.mu.Lock()
		late = true
		c.mu.Unlock()
		c.more.Broadcast()
	})
	defer limit.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if i := strings.Index(c.said[c.read:], text); i >= 0 {
			c.read += i + len(text)
			return
		}
		if late {
			c.t.Fatalf("the terminal does not show %q; since the last that was awaited it showed\n%q", text, c.said[c.read:])
		}
		c.more.Wait()
	}
}

// types writes as a person would.
func (c *console) types(text string) {
	c.t.Helper()
	if _, err := c.tty.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// ends waits for the end of the process and wants a status.
func (c *console) ends(status int) {
	c.t.Helper()
	limit := time.AfterFunc(90*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer limit.Stop()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if got := c.cmd.ProcessState.ExitCode(); got != status {
		c.t.Fatalf("status %d, want %d; the terminal shows\n%q", got, status, c.shown())
	}
	<-c.done
}

func (c *console) shown() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
)

// start makes a session and gives its id.
func (w *world) start(argv ...string) string {
	w.t.Helper()
	out, errs, status := w.verb(append([]string{"create", "-r", "codexlike", "-C", w.work, "-o", "id"}, argv...)...)
	if status != 0 {
		w.t.Fatalf("create: %d %s", status, errs)
	}
	return strings.TrimSpace(out)
}

// says runs a verb that must succeed.
func (w *world) says(argv ...string) string {
	w.t.Helper()
	out, errs, status := w.verb(argv...)
	if status != 0 {
		w.t.Fatalf("baton %v: %d %s", argv, status, errs)
	}
	return out
}

// At a terminal run shows the turn, asks in place, and closes the session; what was typed before a question answers
// nothing, and neither does what is no answer.
func TestTerminalRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.terminal("run", "-r", "codexlike", "[say 2][approve touch asked][ask][usage 3400]")
	c.sees("w1 w2")
	c.sees("? approval")
	c.sees("approve (y), deny (n)")
	c.types("maybe\n")
	c.sees("that is no answer")
	c.sees("approve (y), deny (n)")
	c.types("y\n")
	c.sees("color (Red / Blue / text; n denies)?")
	c.types("\n")
	c.sees("nothing was answered")
	c.sees("color (Red")
	c.types("Blue\n")
	c.sees("answered: [\"Blue\"]")
	c.sees("-- completed")
	c.sees("3.4k tokens")
	c.ends(0)
	if !exists(w.work + "/asked") {
		t.Error("what was approved was not done")
	}
	if out := w.says("list", "-o", "id"); out != "" {
		t.Errorf("run left %s open", out)
	}
}

// Ctrl-C interrupts the turn once; where that takes long, a second one leaves it to itself.
func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.terminal("run", "-r", "codexlike", "[say 2][wait]")
	c.sees("w1 w2")
	c.types(ctrlC)
	c.sees("interrupting")
	c.sees("-- interrupted")
	c.ends(exitError)
	if out := w.says("list", "-o", "id"); out != "" {
		t.Errorf("an interrupted run left %s open", out)
	}

	c = w.terminal("run", "-r", "codexlike", "[deaf][say 2][wait]")
	c.sees("w1 w2")
	c.types(ctrlC)
	c.sees("interrupting")
	c.types(ctrlC)
	c.sees("detached; the turn goes on: baton attach ")
	c.ends(exitError)
	if out := w.says("list", "-o", "id"); strings.Count(out, "\n") != 1 {
		t.Errorf("a run that was left is not there: %q", out)
	}

	c = w.terminal("run", "-r", "codexlike", "[approve touch never]")
	c.sees("approve (y)")
	c.types(ctrlC)
	c.sees("-- interrupted")
	c.ends(exitError)
	if exists(w.work + "/never") {
		t.Error("what was interrupted was done")
	}
}

// The progress line shows how long what takes, and is gone in the end.
func TestTerminalProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.terminal("run", "-r", "codexlike", "[run sleep 600]")
	c.sees("* command: ")
	c.sees("1s, command: ")
	c.types(ctrlC)
	c.sees("-- interrupted")
	c.ends(exitError)
	said := c.shown()
	if i, j := strings.LastIndex(said, "s, command: "), strings.LastIndex(said, "\r\x1b[K"); j < i {
		t.Errorf("the progress line stays: %q", said)
	}
}

// attach shows the history, takes lines as prompts and queues them, answers in place, interrupts once, and leaves.
func TestTerminalAttach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.start()
	w.says("send", "--wait", id, "[say 3]")
	c := w.terminal("attach", id[:8])
	c.sees("[say 3]")
	c.sees("w1 w2 w3")
	c.sees("Ctrl-D detaches")
	c.types("[say 4]\n")
	c.sees("w1 w2 w3 w4")
	c.sees("-- completed")

	// Lines while it is busy are queued, in their order; what steers goes into the turn that runs.
	c.types("[wait]\n")
	await(t, "the turn", func() bool { return strings.Contains(w.says("list", "--json"), `"state":"accepted"`) })
	c.types(":steer [say 2]\n")
	c.sees("w1 w2")
	c.sees("-- completed")
	c.types("[say 1][ask]\n")
	c.sees("color (Red")
	c.types("n\n")
	c.sees("denied by local")
	c.sees("-- completed")
	c.types(":nothing\n")
	c.sees(":steer TEXT")

	// One Ctrl-C interrupts the turn, the next detaches.
	c.types("[say 5][wait]\n")
	c.sees("w1 w2 w3 w4 w5")
	c.types(ctrlC)
	c.sees("-- interrupted")
	c.types(ctrlC)
	c.sees("detached; the session goes on")
	c.ends(0)

	// The end of the input detaches, and the work goes on.
	c = w.terminal("attach", "--tail", "2", id)
	c.sees("w1 w2 w3 w4 w5")
	c.sees("Ctrl-D detaches")
	if s := c.shown(); strings.Contains(s, "[say 3]") {
		t.Errorf("a short tail shows all: %q", s)
	}
	c.types("[slow 50][say 20]\n")
	c.sees("w1 ")
	c.types(ctrlD)
	c.ends(0)
	if out := w.says("wait", id); !strings.Contains(out, "w19 w20") {
		t.Errorf("the turn did not go on: %s", out)
	}
}

// An interrupt ends what follows a log, and touches nothing.
func TestTerminalInterruptsLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.start()
	w.says("send", "--key", "hold", id, "[say 2][wait]")
	c := w.terminal("logs", "-f", id)
	c.sees("w1 w2")
	c.types(ctrlC)
	c.ends(0)
	if out := w.says("list"); !strings.Contains(out, "running") {
		t.Errorf("the turn was touched: %s", out)
	}
}

// Several may look at one session: who only watches sees the question and how another one answers it.
func TestTerminalWatchers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.start()
	first, second := w.terminal("attach", id), w.terminal("attach", "--watch", id)
	third := w.terminal("attach", id)
	first.sees("Ctrl-D detaches")
	second.sees("is idle")
	third.sees("Ctrl-D detaches")
	first.types("[approve touch seen][say 2]\n")
	for _, c := range []*console{first, third} {
		c.sees("1. accept (allow_once)")
		c.sees("approve (y), deny (n)")
	}
	second.sees("? approval")
	first.types("y\n")
	for _, c := range []*console{first, second, third} {
		c.sees("by local")
		c.sees("w1 w2")
	}
	third.types(ctrlD)
	third.ends(0)
	second.types(ctrlC)
	second.ends(0)
	w.says("close", id)
	first.sees("session closed")
	first.ends(0)
}

// The terminal goes away under an agent's turn: the session notices nothing.
func TestTerminalHangup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.terminal("run", "--id", "0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a11", "-r", "codexlike", "[slow 30][say 40]")
	c.sees("w1 ")
	if err := c.tty.Close(); err != nil { // the kernel hangs up on its session
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
	if out := w.says("wait", "0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a11"); !strings.Contains(out, "w39 w40") {
		t.Errorf("the turn did not go on: %s", out)
	}
}

// What an agent prints never commands a terminal, and there are no colours where nobody wants any.
func TestTerminalIsNotCommanded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("work/evil", "\x1b]0;owned\x07\x1b[2J\u009b31m\n")
	evil := "[run cat evil]"
	id := w.start()
	w.says("send", "--wait", id, evil)
	bell := regexp.MustCompile("\x07|\x1b\\]|\x1b\\[2J|\u009b")
	color := regexp.MustCompile("\x1b\\[[0-9]+m")
	for _, argv := range [][]string{{"logs", id}, {"logs", "--raw", id}, {"transcript", id}, {"read", "--json", id}, {"run", "-r", "codexlike", evil}} {
		c := w.terminal(argv...)
		c.ends(0)
		if m := bell.FindString(c.shown()); m != "" {
			t.Errorf("baton %v lets %q through: %q", argv, m, c.shown())
		}
		if argv[0] == "logs" && len(argv) == 2 && (!color.MatchString(c.shown()) || !strings.Contains(c.shown(), "␛]0;owned␇")) {
			t.Errorf("logs at a terminal: %q", c.shown())
		}
	}
	w.env = append(w.env, "NO_COLOR=1")
	for _, argv := range [][]string{{"logs", id}, {"list"}, {"run", "-r", "codexlike", "[fail x]"}} {
		c := w.terminal(argv...)
		_ = c.cmd.Wait()
		<-c.done
		if m := color.FindString(c.shown()); m != "" {
			t.Errorf("baton %v is coloured in spite of NO_COLOR: %q", argv, c.shown())
		}
	}
	if out := w.says("logs", id); strings.Contains(out, "\x1b") {
		t.Errorf("logs without a terminal: %q", out)
	}
}

// A narrow terminal gets a table that fits, with ids that still name their sessions.
func TestTerminalNarrowList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.start("--title", strings.Repeat("a long title ", 20))
	c := w.terminal("list")
	c.ends(0)
	for line := range strings.Lines(c.shown()) {
		line = regexp.MustCompile("\x1b\\[[0-9]*[mK]").ReplaceAllString(strings.TrimRight(line, "\r\n"), "")
		if n := len([]rune(line)); n > 100 {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
	if s := c.shown(); !strings.Contains(s, id[:8]) || strings.Contains(s, id) {
		t.Errorf("ids are not cut: %q", s)
	}
	w.says("close", id[:8])
}

// Background jobs ask nobody: reading from the terminal would stop them.
func TestNobodyIsAskedWithoutATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out, errs, status := w.verb("run", "-r", "codexlike", "-C", w.work, "[say 2][approve touch x]")
	if status != 3 || !strings.Contains(out, "w1 w2") || !strings.Contains(errs, "--approve") {
		t.Fatalf("status %d: %s %s", status, out, errs)
	}
	id := strings.TrimSpace(w.says("list", "-o", "id"))
	if _, errs, status := w.verb("attach", id); status != 3 && status != 0 || status == 3 && !strings.Contains(errs, "baton respond "+id) {
		t.Errorf("attach without a terminal: %d %s", status, errs)
	}
	if s := w.says("list", "--json"); !strings.Contains(s, string(sessions.RequestPending)) {
		t.Errorf("the request was answered: %s", s)
	}
}
