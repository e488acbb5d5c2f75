package appserver

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// The tests of this file and of codex_*_test.go drive the real Codex, whose native binary BATON_TEST_CODEX names,
// against a scripted model provider. They see what no conversation of ours can: whether Codex does what the package
// says it does.

// patience is how long Codex may take for anything, on a machine with much else to do.
const patience = 90 * time.Second

// rig is what outlives one Codex process: its home, its folder and its provider.
type rig struct {
	t        *testing.T
	binary   string
	provider *responses.Server
	home     string
	work     string
	config   string // config.toml as it was before Codex saw it
}

func newRig(t *testing.T) *rig {
	t.Helper()
	binary := os.Getenv("BATON_TEST_CODEX")
	if binary == "" {
		t.Skip("SKIPPED, NOT TESTED: BATON_TEST_CODEX does not name a native Codex binary")
	}
	r := &rig{t: t, binary: binary, provider: responses.Start(t), home: tempDir(t), work: tempDir(t)}
	if err := responses.WriteHome(r.home, r.provider.URL); err != nil {
		t.Fatal(err)
	}
	git := exec.Command("git", "init", "-q", r.work)
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	r.config = r.read(filepath.Join(r.home, "config.toml"))
	return r
}

// tempDir is t.TempDir for directories that a killed process's children may still be writing to.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "baton-codex-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(patience); os.RemoveAll(dir) != nil; {
			if time.Now().After(end) {
				t.Errorf("%s is still being written to", dir)
				return
			}
			<-time.After(50 * time.Millisecond)
		}
	})
	return dir
}

func (r *rig) read(path string) string {
	r.t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(raw)
}

// exists tells whether the agent has made a file in its folder.
func (r *rig) exists(name string) bool {
	_, err := os.Stat(filepath.Join(r.work, name))
	return err == nil
}

// process is one Codex process with an Agent on it.
type process struct {
	*rig
	*bare
	*watch
	conn *wire.Conn
}

// bare is a Codex process with nothing on it.
type bare struct {
	in, out *os.File // ours
	cmd     *exec.Cmd
	gone    chan struct{}
}

func (b *bare) stop() {
	_ = b.cmd.Process.Kill()
	<-b.gone
}

func (r *rig) start() *bare {
	r.t.Helper()
	b := &bare{gone: make(chan struct{}), cmd: exec.Command(r.binary, "app-server")}
	b.cmd.Dir = r.work
	// Codex makes its sandbox helpers only in a home that does not lie below TMPDIR.
	b.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + tempDir(r.t), "TMPDIR=" + tempDir(r.t), "CODEX_HOME=" + r.home, "LANG=C.UTF-8"}
	inR, inW, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	stderr, err := os.Create(filepath.Join(tempDir(r.t), "stderr"))
	if err != nil {
		r.t.Fatal(err)
	}
	b.in, b.out = inW, outR
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = inR, outW, stderr
	if err := b.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	go func() {
		defer close(b.gone)
		_ = b.cmd.Wait() // killed, or gone by itself
	}()
	r.t.Cleanup(func() {
		b.stop()
		if said, _ := os.ReadFile(stderr.Name()); r.t.Failed() {
			r.t.Logf("Codex said on stderr:\n%s", said)
		}
		stderr.Close()
	})
	return b
}

func (r *rig) launch() *process {
	r.t.Helper()
	p := &process{rig: r, bare: r.start(), watch: newWatch(r.t)}
	p.conn = wire.New(p.out, p.in, wire.Options{Generation: "g"})
	p.agent = New(p.conn, p.watch, Options{})
	r.t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		_ = p.agent.Close(ctx) // it may be gone
		select {
		case <-p.gone:
		case <-ctx.Done():
		}
		p.kill()
	})
	return p
}

// kill ends the process as a crash does.
func (p *process) kill() {
	p.stop()
	<-p.agent.Done()
}

// usual is a session as most are.
func (r *rig) usual() sessions.OpenParams {
	return sessions.OpenParams{Session: "S", Generation: "g", Runner: "codex", Cwd: r.work, Selection: sessions.Selection{
		Model: responses.Model, Effort: "high", Sandbox: sessions.SandboxWorkspaceWrite, ApprovalPolicy: sessions.ApprovalUntrusted}}
}
