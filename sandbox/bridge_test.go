package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// order is one call to the bridge under test, a line of JSON on descriptor 3. Each gets one reply.
type order struct {
	Do    string
	Argv  []string
	Env   []string
	PID   int
	Sig   syscall.Signal
	Since time.Time
	Proc  Proc
	Count int
	Limit time.Duration // 0: none
}

type reply struct {
	Err    string
	Inside Inside
	PID    int
	Exit   int
	Signal string
	Procs  []Proc
	OK     bool
	Text   string
	Env    []string
}

// bridgeRole is a bridge that does what its test says. With the argument "stay" it outlives its host, with "late" it has
// no reaper before it was told to end everything.
func bridgeRole(args []string) error {
	in, err := Enter()
	if err != nil {
		return err
	}
	conn := os.NewFile(3, "orders")
	if slices.Contains(args, "late") {
		told := make(chan os.Signal, 1)
		signal.Notify(told, emptySignal)
		if _, err := conn.WriteString("ready\n"); err != nil {
			return err
		}
		<-told
	}
	w := worker{Reaper: NewReaper(), inside: in, children: map[int]*Child{}}
	defer w.Close()
	lines := bufio.NewScanner(conn)
	out := json.NewEncoder(conn)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		a := reply{Inside: in}
		if err := w.obey(o, &a); err != nil {
			a.Err = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	if slices.Contains(args, "stay") {
		return linger(nil)
	}
	return lines.Err()
}

type worker struct {
	*Reaper
	inside   Inside
	children map[int]*Child
}

func (w *worker) obey(o order, a *reply) (err error) {
	ctx := context.Background()
	if o.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Limit)
		defer cancel()
	}
	switch o.Do {
	case "self":
		a.PID = os.Getpid()
	case "environ":
		a.Env = os.Environ()
	case "read":
		var b []byte
		b, err = os.ReadFile(o.Argv[0])
		a.Text = string(b)
	case "spawn":
		var c *Child
		if c, err = w.Spawn(Spawn{Argv: o.Argv, Env: o.Env, Stdout: os.Stdout, Stderr: os.Stderr}); err == nil {
			w.children[c.PID()] = c
			a.PID = c.PID()
		}
	case "output":
		err = w.output(o, a)
	case "many":
		err = w.many(o)
	case "signal":
		err = w.children[o.PID].Signal(o.Sig)
	case "status":
		select {
		case <-w.children[o.PID].Done():
			a.Exit, a.Signal = w.children[o.PID].Status()
		case <-ctx.Done():
			err = ctx.Err()
		}
	case "born":
		a.Procs = w.Born(o.Since)
	case "zombies":
		w.sweep() // what has ended by now
		for _, i := range processes() {
			if i.zombie {
				a.Procs = append(a.Procs, i.proc())
			}
		}
	case "kill":
		err = w.Kill(ctx, o.Proc)
	case "killall":
		a.OK = w.KillAll(ctx)
	default:
		err = fmt.Errorf("no order %q", o.Do)
	}
	return err
}

// output runs a program to its end and returns what it wrote.
func (w *worker) output(o order, a *reply) error {
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	defer pr.Close()
	c, err := w.Spawn(Spawn{Argv: o.Argv, Env: o.Env, Stdout: pw, Stderr: pw})
	pw.Close()
	if err != nil {
		return err
	}
	b, err := io.ReadAll(pr)
	a.Text = string(b)
	<-c.Done()
	a.PID = c.PID()
	a.Exit, a.Signal = c.Status()
	return err
}

// many starts programs that end at once, several at a time, and fails if one exit is lost or mistaken.
func (w *worker) many(o order) error {
	errs := make(chan error)
	for n := range o.Count {
		go func() {
			c, err := w.Spawn(Spawn{Argv: append(slices.Clone(o.Argv), fmt.Sprintf("exit %d", n%100))})
			if err == nil {
				<-c.Done()
				if exit, sig := c.Status(); exit != n%100 || sig != "" {
					err = fmt.Errorf("exit %d %s instead of %d", exit, sig, n%100)
				}
			}
			errs <- err
		}()
	}
	var first error
	for range o.Count {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// bridge is the test's end of a launched bridge.
type bridge struct {
	*Process
	conn  net.Conn
	lines *bufio.Reader
}

func startBridge(t *testing.T, l Launch) *bridge {
	t.Helper()
	b, err := tryBridge(t, l)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tryBridge(t *testing.T, l Launch) (*bridge, error) {
	t.Helper()
	conn, theirs := socketpair(t)
	defer theirs.Close()
	l.Args = append([]string{Command}, l.Args...)
	l.Files = append([]*os.File{theirs}, l.Files...)
	l.Log = testLog(t)
	p, err := Start(within(t), l)
	if err != nil {
		conn.Close()
		return nil, err
	}
	b := &bridge{Process: p, conn: conn, lines: bufio.NewReader(conn)}
	t.Cleanup(func() {
		conn.Close()
		b.Stop(within(t))
		b.Release()
		for _, left := range marked(b.Record().Marker) {
			t.Errorf("process %d (%q) outlived its test", left.PID, left.Argv)
			end(within(t), left)
		}
	})
	return b, nil
}

func socketpair(t *testing.T) (net.Conn, *os.File) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range pair {
		syscall.CloseOnExec(fd)
	}
	ours := os.NewFile(uintptr(pair[0]), "ours")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	return conn, os.NewFile(uintptr(pair[1]), "theirs")
}

// testLog is a file whose content is shown when the test failed.
func testLog(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b, _ := os.ReadFile(f.Name()); t.Failed() && len(b) > 0 {
			t.Logf("bridge's log:\n%s", b)
		}
		f.Close()
	})
	return f
}

// order must succeed.
func (b *bridge) order(t *testing.T, o order) reply {
	t.Helper()
	a := b.try(t, o)
	if a.Err != "" {
		t.Fatalf("%s %q: %s", o.Do, o.Argv, a.Err)
	}
	return a
}

func (b *bridge) try(t *testing.T, o order) reply {
	t.Helper()
	b.conn.SetDeadline(time.Now().Add(patience))
	if err := json.NewEncoder(b.conn).Encode(o); err != nil {
		t.Fatal(err)
	}
	line, err := b.lines.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s: %v", o.Do, err)
	}
	var a reply
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// shell runs a script inside and returns what it wrote.
func (b *bridge) shell(t *testing.T, script string, env ...string) string {
	t.Helper()
	return b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", script}, Env: append([]string{"PATH=/usr/bin:/bin"}, env...)}).Text
}

// patience is the time that nothing here should need on any machine.
const patience = 60 * time.Second

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// rungs runs a test on every rung. A machine without pid namespaces says so.
func rungs(t *testing.T, f func(t *testing.T, rung Rung)) {
	t.Helper()
	for _, rung := range Rungs {
		t.Run(string(rung), func(t *testing.T) {
			if rung == PIDNamespace {
				needNamespace(t)
			}
			f(t, rung)
		})
	}
}

func needNamespace(t *testing.T) {
	t.Helper()
	if best := Probe(within(t)); best.Rung != PIDNamespace {
		t.Skipf("NOT TESTED: no pid namespaces here: %s", strings.Join(best.Reasons, "; "))
	}
}

// until waits for a condition that only looking can tell.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	ctx := within(t)
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for !f() {
		select {
		case <-pace.C:
		case <-ctx.Done():
			t.Fatalf("%s did not come true", what)
		}
	}
}
