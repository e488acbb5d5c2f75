package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roles are the programs that this test binary can be.
var roles map[string]func(args []string) error

func init() {
	roles = map[string]func([]string) error{
		Command: func([]string) error { return testBridge() },
		"agent": testAgent,
	}
}

// order is one call to the bridge under test, in JSON on descriptor 3; each gets one reply.
type order struct {
	Do    string // spawn, signal, status, born, kill, killall, self, exit
	Argv  []string
	Env   []string
	PID   int
	Sig   int
	Since time.Time
	Proc  Proc
	MS    int
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
}

// testBridge is a bridge that does what its test says.
func testBridge() error {
	in, err := Enter()
	if err != nil {
		return err
	}
	conn := os.NewFile(3, "orders")
	r := NewReaper()
	defer r.Close()
	children := map[int]*Child{}
	lines := bufio.NewScanner(conn)
	out := json.NewEncoder(conn)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		var a reply
		a.Inside = in
		if err := obey(r, children, o, &a); err != nil {
			a.Err = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

func obey(r *Reaper, children map[int]*Child, o order, a *reply) error {
	ctx := context.Background()
	if o.MS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(o.MS)*time.Millisecond)
		defer cancel()
	}
	switch o.Do {
	case "self":
		b, err := os.ReadFile("/proc/self/status")
		a.Text = string(b)
		a.PID = os.Getpid()
		return err
	case "spawn":
		c, err := r.Spawn(Spawn{Argv: o.Argv, Env: o.Env, Stdout: os.Stdout, Stderr: os.Stderr})
		if err != nil {
			return err
		}
		children[c.PID()] = c
		a.PID = c.PID()
	case "output": // spawn, and its whole standard output
		pr, pw, err := os.Pipe()
		if err != nil {
			return err
		}
		defer pr.Close()
		c, err := r.Spawn(Spawn{Argv: o.Argv, Env: o.Env, Stdout: pw, Stderr: os.Stderr})
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
	case "signal":
		return children[o.PID].Signal(syscall.Signal(o.Sig))
	case "status":
		select {
		case <-children[o.PID].Done():
		case <-ctx.Done():
			return ctx.Err()
		}
		a.Exit, a.Signal = children[o.PID].Status()
	case "born":
		a.Procs = r.Born(o.Since)
	case "kill":
		return r.Kill(ctx, o.Proc)
	case "killall":
		a.OK = r.KillAll(ctx)
	case "exit":
		os.Exit(0)
	default:
		return fmt.Errorf("no order %q", o.Do)
	}
	return nil
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
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		t.Fatal(err)
	}
	log := testLog(t)
	l.Args = append([]string{Command}, l.Args...)
	l.Files = slices.Concat([]*os.File{theirs}, l.Files)
	l.Log = log
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	p, err := Start(ctx, l)
	if err != nil {
		conn.Close()
		return nil, err
	}
	b := &bridge{Process: p, conn: conn, lines: bufio.NewReader(conn)}
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		b.Stop(ctx)
		b.Release()
		for _, p := range marked(b.Record().Marker) {
			t.Errorf("process %d (%q) outlived its test", p.PID, p.Argv)
			end(ctx, p)
		}
	})
	return b, nil
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

func (b *bridge) order(t *testing.T, o order) reply {
	t.Helper()
	a := b.try(t, o)
	if a.Err != "" {
		t.Fatalf("%s: %s", o.Do, a.Err)
	}
	return a
}

func (b *bridge) try(t *testing.T, o order) reply {
	t.Helper()
	b.conn.SetDeadline(time.Now().Add(60 * time.Second))
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

// rungs runs a test on every rung that this machine has.
func rungs(t *testing.T, f func(t *testing.T, rung Rung)) {
	t.Helper()
	best := Probe(t.Context())
	for _, rung := range []Rung{PIDNamespace, ProcessGroup} {
		t.Run(string(rung), func(t *testing.T) {
			if rung == PIDNamespace && best.Rung != PIDNamespace {
				t.Skipf("NOT TESTED: no pid namespaces here: %s", strings.Join(best.Reasons, "; "))
			}
			f(t, rung)
		})
	}
}

// within stops a process in the time that no machine should need.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

var errNoMode = errors.New("no such mode")

func testAgent(args []string) error { return errNoMode }

func TestStart(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		b := startBridge(t, Launch{Rung: rung})
		a := b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", "id; cat /proc/self/oom_score_adj; ls -l /proc/self/fd; echo $PPID; exit 3"}, Env: []string{"PATH=/usr/bin:/bin"}})
		t.Logf("%+v", a)
		t.Logf("%+v", b.order(t, order{Do: "self"}).Text)
		t.Logf("%+v", b.Record())
		t.Logf("%+v", b.order(t, order{Do: "born"}))
		t.Logf("%+v", b.order(t, order{Do: "killall", MS: 1000}))
		t.Logf("%+v", b.Stop(within(t)))
	})
}
