package appserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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
	r := &rig{t: t, binary: binary, provider: responses.Start(t), home: t.TempDir(), work: t.TempDir()}
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
	agent *Agent
	conn  *wire.Conn

	mu     sync.Mutex
	events []sessions.Event
	more   chan struct{} // closed and replaced with each event
	seen   int           // how many await has looked at
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
	b.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir(), "TMPDIR=" + r.t.TempDir(), "CODEX_HOME=" + r.home, "LANG=C.UTF-8"}
	inR, inW, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	stderr, err := os.Create(filepath.Join(r.t.TempDir(), "stderr"))
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
	p := &process{rig: r, bare: r.start(), more: make(chan struct{})}
	p.conn = wire.New(p.out, p.in, wire.Options{Generation: "g"})
	p.agent = New(p.conn, p, Options{})
	r.t.Cleanup(p.kill)
	return p
}

// kill ends the process as a crash does.
func (p *process) kill() {
	p.stop()
	<-p.agent.Done()
}

// Emit makes the process the Agent's sink.
func (p *process) Emit(e sessions.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	close(p.more)
	p.more = make(chan struct{})
}

// await goes through the events, each once, up to the first that fits.
func (p *process) await(what string, fits func(sessions.Event) bool) sessions.Event {
	p.t.Helper()
	limit := time.After(patience)
	for {
		p.mu.Lock()
		for p.seen < len(p.events) {
			e := p.events[p.seen]
			p.seen++
			if fits(e) {
				p.mu.Unlock()
				return e
			}
		}
		more := p.more
		p.mu.Unlock()
		select {
		case <-more:
		case <-p.agent.Done():
			p.mu.Lock()
			left := p.seen < len(p.events)
			p.mu.Unlock()
			if !left {
				p.t.Fatalf("waiting for %s: the link ended: %v; events:\n%s", what, p.agent.Err(), p.told())
			}
		case <-limit:
			p.t.Fatalf("waiting for %s; events:\n%s", what, p.told())
		}
	}
}

func (p *process) told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, e := range p.events {
		fmt.Fprintf(&b, "%s %s %s %s %q", e.Kind, e.Command, e.Agent, e.Item, e.Text)
		if e.Settled != nil {
			fmt.Fprintf(&b, " %+v", *e.Settled)
		}
		if e.Tool != nil {
			fmt.Fprintf(&b, " %s %s %q", e.Tool.Name, e.Tool.Status, e.Tool.Output)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (p *process) kind(k sessions.EventKind) sessions.Event {
	p.t.Helper()
	return p.await(string(k), func(e sessions.Event) bool { return e.Kind == k && e.Agent == "" })
}

func (p *process) context() context.Context {
	ctx, stop := context.WithTimeout(p.t.Context(), patience)
	p.t.Cleanup(stop)
	return ctx
}

// usual is a session as most are.
func (r *rig) usual() sessions.OpenParams {
	return sessions.OpenParams{Session: "S", Generation: "g", Runner: "codex", Cwd: r.work, Selection: sessions.Selection{
		Model: responses.Model, Effort: "high", Sandbox: sessions.SandboxWorkspaceWrite, ApprovalPolicy: sessions.ApprovalUntrusted}}
}

func (p *process) open(params sessions.OpenParams) sessions.Opened {
	p.t.Helper()
	o, err := p.agent.Open(p.context(), params)
	if err != nil {
		p.t.Fatalf("open: %v", err)
	}
	return o
}

func (p *process) prompt(command, text string) {
	p.t.Helper()
	p.send(sessions.Prompt{CommandID: command, Text: text})
}

func (p *process) send(prompt sessions.Prompt) {
	p.t.Helper()
	if err := p.agent.Prompt(p.context(), prompt); err != nil {
		p.t.Fatalf("prompt %s: %v", prompt.CommandID, err)
	}
}

// settled waits for the end of a command and expects its state.
func (p *process) settled(command string, state sessions.CommandState) *sessions.Settlement {
	p.t.Helper()
	e := p.await("the end of "+command, func(e sessions.Event) bool { return e.Kind == sessions.EventCommandSettled && e.Command == command })
	if e.Settled.State != state {
		p.t.Fatalf("command %s is %+v, want %s; events:\n%s", command, *e.Settled, state, p.told())
	}
	return e.Settled
}

// texts are the final texts of a command.
func (p *process) texts(command string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, e := range p.events {
		if e.Kind == sessions.EventText && e.Final && e.Command == command && e.Agent == "" {
			out = append(out, e.Text)
		}
	}
	return out
}
