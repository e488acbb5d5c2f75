package policy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonmcp/baton/sandbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Command {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// order is one program for the bridge under test to run.
type order struct {
	Argv []string
	Dir  string
	Env  []string
}

type reply struct {
	Err, Text string
	Exit      int
}

// serve is a bridge that runs what its test says, a line of JSON on descriptor 3 each.
func serve() error {
	if _, err := sandbox.Enter(); err != nil {
		return err
	}
	reaper := sandbox.NewReaper()
	defer reaper.Close()
	conn := os.NewFile(3, "orders")
	lines, out := bufio.NewScanner(conn), json.NewEncoder(conn)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		if err := out.Encode(run(reaper, o)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func run(reaper *sandbox.Reaper, o order) (r reply) {
	pr, pw, err := os.Pipe()
	if err != nil {
		return reply{Err: err.Error()}
	}
	defer pr.Close()
	c, err := reaper.Spawn(sandbox.Spawn{Argv: o.Argv, Dir: o.Dir, Env: o.Env, Stdout: pw, Stderr: pw})
	pw.Close()
	if err != nil {
		return reply{Err: err.Error()}
	}
	b, err := io.ReadAll(pr)
	<-c.Done()
	r.Text = string(b)
	r.Exit, _ = c.Status()
	if err != nil {
		r.Err = err.Error()
	}
	return r
}

// session is a bridge held to a policy.
type session struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
	dir   string
	env   []string
	Policy
}

const patience = 60 * time.Second

func start(t *testing.T, a Ask) *session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	if c := sandbox.Probe(ctx); !c.Filesystem {
		t.Skipf("NOT TESTED: no filesystem policy here: %s", strings.Join(c.Reasons, "; "))
	}
	p, err := Compile(a)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range pair {
		syscall.CloseOnExec(fd)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	proc, err := sandbox.Start(ctx, sandbox.Launch{Args: []string{sandbox.Command}, Files: []*os.File{theirs}, Log: log, Rung: sandbox.PIDNamespace, Mask: a.Own, Filesystem: p.Filesystem})
	if err != nil {
		conn.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		proc.Stop(ctx)
		proc.Release()
		if b, _ := os.ReadFile(log.Name()); t.Failed() && len(b) > 0 {
			t.Logf("bridge's log:\n%s", b)
		}
	})
	return &session{t: t, conn: conn, lines: bufio.NewReader(conn), dir: a.Cwd, env: p.Env, Policy: p}
}

// run runs a script in the workspace and returns its output, and whether it succeeded.
func (s *session) run(script string) (string, bool) {
	s.t.Helper()
	s.conn.SetDeadline(time.Now().Add(patience))
	if err := json.NewEncoder(s.conn).Encode(order{Argv: []string{"/bin/sh", "-c", script}, Dir: s.dir, Env: s.env}); err != nil {
		s.t.Fatal(err)
	}
	line, err := s.lines.ReadBytes('\n')
	if err != nil {
		s.t.Fatalf("%s: %v", script, err)
	}
	var r reply
	if err := json.Unmarshal(line, &r); err != nil || r.Err != "" {
		s.t.Fatalf("%s: %v %s", script, err, r.Err)
	}
	return r.Text, r.Exit == 0
}

func (s *session) can(scripts ...string) {
	s.t.Helper()
	for _, script := range scripts {
		if text, ok := s.run(script); !ok {
			s.t.Errorf("%s: %s", script, text)
		}
	}
}

func (s *session) cannot(scripts ...string) {
	s.t.Helper()
	for _, script := range scripts {
		if text, ok := s.run(script); ok {
			s.t.Errorf("%s: should have failed: %s", script, text)
		}
	}
}

// user is a home folder outside of every private one, with a project in it.
type user struct {
	t    *testing.T
	home string
	env  []string
}

func newUser(t *testing.T) *user {
	t.Helper()
	home, err := os.MkdirTemp("/var/tmp", "policy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	u := &user{t: t, home: home, env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}}
	return u
}

func (u *user) path(name string) string { return filepath.Join(u.home, name) }

func (u *user) put(name, text string) string {
	u.t.Helper()
	path := u.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		u.t.Fatal(err)
	}
	return path
}

func (u *user) ask(runner, sandbox, cwd string) Ask {
	return Ask{Sandbox: sandbox, Around: true, Runner: runner, Cwd: cwd, Env: slices.Clone(u.env)}
}

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED: there is no git")
	}
}
