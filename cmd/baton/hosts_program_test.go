package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// mcpHost is a real program that starts `baton mcp` from its own configuration and has a scripted model call its tools.
type mcpHost struct {
	name      string // as `baton install` knows it
	variable  string // names its program
	installer string // what .ci/agents calls it
	names     bool   // it sends an id of its own with each call, which is then its key
	// prepare starts a mock of its provider, writes its configuration and adds to the environment of the world.
	prepare func(w *world)
	// settle changes what was registered; nil: nothing.
	settle func(w *world)
	// connect registers a server over HTTP.
	connect func(w *world, url, secret string)
	// allow lets a destructive tool be called with nobody there; nil: every tool may be.
	allow func(w *world, tool string)
	// call is how the script of a prompt has a tool called.
	call func(tool, arguments string) string
	// once is a run for one prompt in which nobody can be asked; live is one that takes prompts and questions over pipes.
	once func(prompt string) []string
	live []string
	// hello begins a live run.
	hello func(r *hostRun)
	// prompt begins a turn, interrupt ends it as its user would.
	prompt    func(r *hostRun, text string)
	interrupt func(r *hostRun)
	// read takes one line of output apart. It answers what the host asks.
	read func(r *hostRun, line []byte) hostNews
}

// hostNews is what a line of a host says.
type hostNews struct {
	result json.RawMessage // of a tool
	failed string          // a tool call that the host itself gave up
	ended  bool            // of the turn
}

// hostRun is one process of a host.
type hostRun struct {
	*mcpHost
	w      *world
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errs   bytes.Buffer
	n      int    // requests
	thread string // of Codex, and its turn
	turnID string

	decide  string   // what its user answers, as the value of "decision"; "": closes the question
	asked   []string // the questions that its user saw
	results []json.RawMessage
	failed  []string
}

// ready makes a world whose host has Baton installed.
func (h *mcpHost) ready(t *testing.T) *world {
	t.Helper()
	if os.Getenv(h.variable) == "" {
		t.Skipf("SKIPPED: %s names no %s; `.ci/agents %s` installs one", h.variable, h.name, h.installer)
	}
	w := newWorld(t)
	h.prepare(w)
	if out, errs, status := w.verb("install", h.name, "--command", self(t), "--prove=false"); status != 0 {
		t.Fatalf("%d %s %s", status, out, errs)
	}
	if h.settle != nil {
		h.settle(w)
	}
	return w
}

// start starts the program.
func (h *mcpHost) start(w *world, argv ...string) *hostRun {
	w.t.Helper()
	r := &hostRun{mcpHost: h, w: w, cmd: exec.Command(os.Getenv(h.variable), argv...)}
	r.cmd.Env, r.cmd.Dir, r.cmd.Stderr = w.env, w.work, &r.errs
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		w.t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	r.out = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// alone runs one prompt with nobody there, to its end.
func (h *mcpHost) alone(w *world, prompt string) *hostRun {
	w.t.Helper()
	r := h.start(w, h.once(prompt)...)
	r.in.Close()
	for {
		line, err := r.out.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			r.take(line)
		}
		if err != nil {
			break
		}
	}
	if err := r.cmd.Wait(); err != nil {
		w.t.Fatalf("%s: %v\n%s", h.name, err, r.errs.Bytes())
	}
	return r
}

// attended starts a run that takes prompts.
func (h *mcpHost) attended(w *world) *hostRun {
	w.t.Helper()
	r := h.start(w, h.live...)
	h.hello(r)
	return r
}

func (r *hostRun) write(v any) {
	r.w.t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		r.w.t.Fatal(err)
	}
	if _, err := r.in.Write(append(raw, '\n')); err != nil {
		r.w.t.Fatalf("%s: %v\n%s", r.name, err, r.errs.Bytes())
	}
}

func (r *hostRun) take(line []byte) hostNews {
	if !json.Valid(line) {
		return hostNews{}
	}
	n := r.read(r, line)
	if n.result != nil {
		r.results = append(r.results, n.result)
	}
	if n.failed != "" {
		r.failed = append(r.failed, n.failed)
	}
	return n
}

// next reads one line.
func (r *hostRun) next() hostNews {
	r.w.t.Helper()
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		r.w.t.Fatalf("%s: %v\n%s", r.name, err, r.errs.Bytes())
	}
	return r.take(line)
}

// end reads to the end of the turn.
func (r *hostRun) end() {
	r.w.t.Helper()
	for !r.next().ended {
	}
}

// turn plays one turn.
func (r *hostRun) turn(text string) {
	r.w.t.Helper()
	r.prompt(r, text)
	r.end()
}

// close leaves as a user does.
func (r *hostRun) close() {
	r.w.t.Helper()
	r.in.Close()
	_, _ = io.Copy(io.Discard, r.out)
	if err := r.cmd.Wait(); err != nil {
		r.w.t.Errorf("%s: %v\n%s", r.name, err, r.errs.Bytes())
	}
}

// kill ends the process as a crash would, and wants its front end gone.
func (r *hostRun) kill() {
	r.w.t.Helper()
	front := r.front()
	if err := r.cmd.Process.Kill(); err != nil {
		r.w.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.out)
	_ = r.cmd.Wait() // killed
	await(r.w.t, "the end of the front end", func() bool { return !alive(front) })
}

// front is the process of `baton mcp` that the host started.
func (r *hostRun) front() int {
	r.w.t.Helper()
	for _, p := range r.w.find(self(r.w.t) + " mcp") {
		if p.PPID == r.cmd.Process.Pid {
			return p.PID
		}
	}
	r.w.t.Fatalf("%s has no front end: %v", r.name, r.w.processes())
	return 0
}

// killFront ends the host's `baton mcp` alone.
func (r *hostRun) killFront() {
	r.w.t.Helper()
	pid := r.front()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		r.w.t.Fatal(err)
	}
}

// script has tools called, in order.
func (h *mcpHost) script(t *testing.T, calls ...toolCall) string {
	t.Helper()
	var b strings.Builder
	for _, c := range calls {
		raw, err := json.Marshal(c.args)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(h.call(c.tool, string(raw)))
	}
	return b.String()
}

type toolCall struct {
	tool string
	args args
}

// resultOf decodes what the nth tool call of a run gave, counted from 0.
func resultOf[R any](r *hostRun, n int) (v R) {
	r.w.t.Helper()
	if n >= len(r.results) {
		r.w.t.Fatalf("%s: %d results, failed calls %q\n%s", r.name, len(r.results), r.failed, r.errs.Bytes())
	}
	var refused struct{ Error json.RawMessage }
	if err := json.Unmarshal(r.results[n], &refused); err != nil || refused.Error != nil {
		r.w.t.Fatalf("%s: call %d of this run: %s (%v)\n%s", r.name, n, r.results[n], err, r.errs.Bytes())
	}
	if err := json.Unmarshal(r.results[n], &v); err != nil {
		r.w.t.Fatalf("%s: %v in %s", r.name, err, r.results[n])
	}
	return v
}

// realCodex puts the Codex of the tests on PATH: a host hands on PATH, and not every variable.
func (w *world) realCodex() {
	w.t.Helper()
	codex := codexBinary(w.t)
	bin := w.path("bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(codex, filepath.Join(bin, "codex")); err != nil {
		w.t.Fatal(err)
	}
	w.env[0] = "PATH=" + bin + ":" + os.Getenv("PATH")
}
