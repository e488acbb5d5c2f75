package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sessions"
)

// codexScenario is one thing that the real Codex does through `baton mcp`. Every one looks at the events and at the
// world: files, processes, and what the mock of the provider was sent.
type codexScenario struct {
	name string
	run  func(*codexRun)
}

// codexScenarios is the table, by theme.
func codexScenarios() []codexScenario {
	return slices.Concat(codexTurns, codexApprovals, codexQuestions, codexSelections, codexControls, codexFailures, codexResumes, codexSandboxes, codexProfiles, codexCrowds, codexBudgets, codexAccounts, codexGoals, codexCode)
}

// codexAlways are the scenarios that every run plays.
var codexAlways = []string{
	"a text streams in pieces and is told whole once",
	"a command that is approved runs, once",
	"a command that is denied does not run, and the turn goes on",
	"a turn is interrupted while it says something",
	"a model that is not offered is refused, and nothing is sent",
	"a Codex that is killed in a turn leaves an outcome that its record settles",
	"a killed host loses nothing of a turn",
}

// codexSample is how many of the others a run without BATON_FULL plays.
const codexSample = 10

// TestCodexScenarios plays the table with the Codex of BATON_TEST_CODEX: all of it with BATON_FULL=1, else those of
// codexAlways and a sample of the others that BATON_SEED chooses.
func TestCodexScenarios(t *testing.T) {
	codexBinary(t)
	all := codexScenarios()
	if os.Getenv("BATON_FULL") == "" {
		seed := codexSeed(t)
		always := slices.Clone(all)
		always = slices.DeleteFunc(always, func(s codexScenario) bool { return !slices.Contains(codexAlways, s.name) })
		others := slices.DeleteFunc(all, func(s codexScenario) bool { return slices.Contains(codexAlways, s.name) })
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		t.Logf("%d scenarios and %d of %d others, BATON_SEED=%d", len(always), codexSample, len(others), seed)
		all = append(always, others[:codexSample]...)
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) { playCodex(t, codexBinary(t), s) })
	}
}

// TestCodexScenarioNames: a table with two of a name would play one of them unseen.
func TestCodexScenarioNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range codexScenarios() {
		if s.name == "" || s.run == nil || seen[s.name] {
			t.Errorf("scenario %q", s.name)
		}
		seen[s.name] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d scenarios", len(seen))
	}
	for _, name := range codexAlways {
		if !seen[name] {
			t.Errorf("there is no scenario %q", name)
		}
	}
}

func codexBinary(t *testing.T) string {
	t.Helper()
	codex := os.Getenv("BATON_TEST_CODEX")
	if codex == "" {
		t.Skip("SKIPPED, NOT TESTED: BATON_TEST_CODEX names no Codex binary; continuous integration installs one")
	}
	return codex
}

func codexSeed(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv("BATON_SEED")
	if s == "" {
		return uint64(time.Now().UnixNano() % 1_000_000)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("BATON_SEED: %v", err)
	}
	return n
}

// codexRun is one scenario being played: a world, a front end, a mock provider and a Codex home.
type codexRun struct {
	*world
	f      *front
	mock   *responses.Server
	home   string
	config string // config.toml, which nobody changes

	binary string
	trust  bool // this version gives a sandbox that writes only with its folder marked as trusted in config.toml
	fixed  bool // this version cannot change the settings of a thread

	unprofiled bool // this version has no permission profile that writes outside of the workspace

	told map[string]bool // sessions whose events are looked through at the end
}

func newCodexRun(t *testing.T, binary string) *codexRun {
	t.Helper()
	mock := responses.Start(t)
	w := newWorld(t, "BATON_RUNNER_CODEX="+binary)
	x := &codexRun{world: w, mock: mock, home: w.path("codex"), binary: binary, told: map[string]bool{}}
	w.env = append(w.env, "CODEX_HOME="+x.home)
	if err := responses.WriteHome(x.home, mock.URL); err != nil {
		t.Fatal(err)
	}
	x.config = x.file(filepath.Join(x.home, "config.toml"))
	x.f = w.open()
	return x
}

// playCodex plays a scenario and then checks what holds after every one: each command ended once, nothing that Codex said
// was unreadable, and the user's configuration is what it was. That no process is left is the world's to check.
func playCodex(t *testing.T, binary string, s codexScenario, limits ...func(*codexRun)) {
	t.Helper()
	x := newCodexRun(t, binary)
	for _, limit := range limits {
		limit(x)
	}
	defer x.f.close()
	s.run(x)
	for id := range x.told {
		x.sound(id)
	}
	x.unchanged()
}

// unchanged wants config.toml to be byte for byte what it was, but for the marks that a scenario allowed.
func (x *codexRun) unchanged() {
	x.t.Helper()
	got := x.file(filepath.Join(x.home, "config.toml"))
	if x.trust {
		got = strings.TrimRight(trusted.ReplaceAllString(got, ""), "\n") + "\n"
	}
	if got != x.config {
		x.t.Errorf("config.toml was changed:\n%s", got)
	}
}

var trusted = regexp.MustCompile(`\n\[projects\."[^"]+"\]\ntrust_level = "trusted"\n`)

// sound checks the events of a session.
func (x *codexRun) sound(session string) {
	x.t.Helper()
	evs := x.f.events(session)
	ends := map[string]int{}
	open := map[string]bool{} // texts that have begun
	for _, e := range evs {
		if e.Kind == sessions.EventText {
			if open[e.Item] = !e.Final && !e.Abandoned; !open[e.Item] {
				delete(open, e.Item)
			}
		}
		switch {
		case e.Kind == sessions.EventCommandSettled:
			ends[e.Command]++
		case e.Kind == sessions.EventWarning && (strings.Contains(e.Text, "cannot be read") || strings.Contains(e.Text, "request was declined")):
			x.t.Errorf("event %d: %s", e.Seq, e.Text)
		}
	}
	if len(open) > 0 {
		x.t.Errorf("texts neither completed nor abandoned: %v\n%s", open, kinds(evs))
	}
	for _, e := range evs {
		if e.Kind == sessions.EventCommandSubmitted && ends[e.Command] != 1 {
			x.t.Errorf("command %s ended %d times:\n%s", e.Command, ends[e.Command], kinds(evs))
		}
	}
}

// configure adds to the Codex home's configuration before any session.
func (x *codexRun) configure(toml string) {
	x.t.Helper()
	x.config += toml
	if err := os.WriteFile(filepath.Join(x.home, "config.toml"), []byte(x.config), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// server puts the MCP server of the tests into the configuration, as "fixture".
func (x *codexRun) server() {
	x.t.Helper()
	x.configure(awaited(fmt.Sprintf("\n[mcp_servers.fixture]\ncommand = %q\nargs = [%q]\n", self(x.t), fixtureServer), "fixture"))
}

// launcher puts the same server into the configuration behind a program that is there at once and starts it, as npx does,
// when start is called.
func (x *codexRun) launcher() (start func()) {
	x.t.Helper()
	fifo, path := x.path("start"), x.path("launch")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		x.t.Fatal(err)
	}
	held, err := os.OpenFile(fifo, os.O_RDWR, 0) // so that nobody waits for another side
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { held.Close() })
	script := fmt.Sprintf("#!/bin/sh\nread x <%s\n%s %s\nexit 1\n", fifo, self(x.t), fixtureServer)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		x.t.Fatal(err)
	}
	x.configure(fmt.Sprintf("\n[mcp_servers.fixture]\ncommand = %q\nstartup_timeout_sec = 120\n", path))
	return func() {
		if _, err := held.WriteString("go\n"); err != nil {
			x.t.Fatal(err)
		}
	}
}

// self is the test binary.
func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// outside is a directory that is none of Codex's to write: /tmp and TMPDIR are, by its own rule.
func (x *codexRun) outside() string {
	x.t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "baton-test-")
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			x.t.Error(err)
		}
	})
	return dir
}

func (x *codexRun) file(path string) string {
	x.t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		x.t.Fatal(err)
	}
	return string(raw)
}

// here is a path in the workspace.
func (x *codexRun) here(name string) string { return filepath.Join(x.work, name) }

// create opens a session and wants it idle.
func (x *codexRun) create(more args) sessions.Session {
	x.t.Helper()
	a := args{"runner": "codex", "cwd": x.work, "model": responses.Model, "wait_seconds": 45}
	if x.trust {
		a["runner_options"] = args{"trust_folder": true}
	}
	for k, v := range more {
		a[k] = v
	}
	s := call[sessions.CreateResult](x.f, "session_create", a).Session
	if s.State != sessions.SessionIdle {
		x.t.Fatalf("the session is %s: %+v", s.State, s.Error)
	}
	x.told[s.SessionID] = true
	return s
}

// begin sends a command and does not wait for it.
func (x *codexRun) begin(session, command, text string, more ...args) sessions.Command {
	x.t.Helper()
	a := args{"session_id": session, "text": text, "command_id": command}
	for _, m := range more {
		for k, v := range m {
			a[k] = v
		}
	}
	return call[sessions.SendResult](x.f, "session_send", a).Command
}

// send sends a command and waits for its end, which must be the one that is wanted.
func (x *codexRun) send(session, command, text string, want sessions.CommandState, more ...args) sessions.SendResult {
	x.t.Helper()
	a := args{"session_id": session, "text": text, "command_id": command, "wait_seconds": 45}
	for _, m := range more {
		for k, v := range m {
			a[k] = v
		}
	}
	sent := call[sessions.SendResult](x.f, "session_send", a)
	if sent.Command.State != want {
		x.t.Fatalf("%s is %s (%s: %s), want %s\n%s", command, sent.Command.State, sent.Command.Outcome, sent.Command.Reason, want, kinds(x.f.events(session)))
	}
	return sent
}

// until reads on until an event of the session is as wanted.
func (x *codexRun) until(session, what string, is func(sessions.Event) bool) sessions.Event {
	x.t.Helper()
	after := ""
	for end := time.Now().Add(time.Minute); ; {
		p := call[sessions.ReadResult](x.f, "session_read", args{"session_id": session, "after": after, "limit": 500})
		for _, e := range p.Events {
			if is(e) {
				return e
			}
		}
		if after = p.Cursor; p.HasMore {
			continue
		}
		w := call[sessions.WaitResult](x.f, "session_wait", args{"session_ids": []string{session}, "until": "event", "after": args{session: after}})
		if w.TimedOut && time.Now().After(end) {
			x.t.Fatalf("waited in vain for %s:\n%s", what, kinds(x.f.events(session)))
		}
	}
}

// settled waits for the end of a command, which must be the one that is wanted.
func (x *codexRun) settled(session, command string, want sessions.CommandState) sessions.Settlement {
	x.t.Helper()
	e := x.until(session, "the end of "+command, func(e sessions.Event) bool {
		return e.Kind == sessions.EventCommandSettled && e.Command == command
	})
	if e.Settled.State != want {
		x.t.Fatalf("%s is %s (%s: %s), want %s\n%s", command, e.Settled.State, e.Settled.Outcome, e.Settled.Reason, want, kinds(x.f.events(session)))
	}
	return *e.Settled
}

// asked waits for the request of a command, which is not answered yet.
func (x *codexRun) asked(session, command string) sessions.Request {
	x.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		w := call[sessions.WaitResult](x.f, "session_wait", args{"session_ids": []string{session}, "wait_seconds": 50}).Sessions
		if len(w) == 1 {
			for _, r := range w[0].Session.Requests {
				if r.Command == command && r.State == sessions.RequestPending {
					return r
				}
			}
			if last := w[0].Session.Last; last != nil && last.CommandID == command {
				x.t.Fatalf("%s ended as %s without asking:\n%s", command, last.State, kinds(x.f.events(session)))
			}
		}
		if time.Now().After(end) {
			x.t.Fatalf("%s does not ask:\n%s", command, kinds(x.f.events(session)))
		}
	}
}

// ask sends a command that asks before it does what it is told.
func (x *codexRun) ask(session, command, text string, more ...args) sessions.Request {
	x.t.Helper()
	x.begin(session, command, text, more...)
	return x.asked(session, command)
}

// answer answers a request.
func (x *codexRun) answer(session string, r sessions.Request, how args) sessions.Request {
	x.t.Helper()
	a := args{"session_id": session, "request_id": r.RequestID}
	for k, v := range how {
		a[k] = v
	}
	got := call[sessions.RespondResult](x.f, "session_respond", a).Request
	if got.State != sessions.RequestAnswered {
		x.t.Fatalf("the answer %v left the request %s", how, got.State)
	}
	return got
}

func (x *codexRun) cancel(session, command string) sessions.Command {
	x.t.Helper()
	c := call[sessions.CancelResult](x.f, "session_cancel", args{"session_id": session, "command_id": command}).Command
	if c == nil {
		x.t.Fatalf("nothing is told of %s", command)
	}
	return *c
}

// closed ends a session, with proof where there can be any.
func (x *codexRun) closed(s sessions.Session) {
	x.t.Helper()
	c := call[sessions.CloseResult](x.f, "session_close", args{"session_id": s.SessionID})
	if s.Containment.Rung == "pid_namespace" && c.Stopped != "confirmed" {
		x.t.Errorf("closed: %+v", c)
	}
}

func (x *codexRun) resume(session string, more args) sessions.ResumeResult {
	x.t.Helper()
	a := args{"session_id": session, "wait_seconds": 45}
	for k, v := range more {
		a[k] = v
	}
	r := call[sessions.ResumeResult](x.f, "session_resume", a)
	if r.Session.State != sessions.SessionIdle {
		x.t.Fatalf("resumed: %s, %+v", r.Session.State, r.Session.Error)
	}
	return r
}

// tools is how the tools of a command ended, as "name status", in order.
func (x *codexRun) tools(session, command string) (all []sessions.Tool) {
	x.t.Helper()
	for _, e := range x.f.events(session) {
		if e.Kind == sessions.EventToolCompleted && e.Command == command && e.Tool != nil {
			all = append(all, *e.Tool)
		}
	}
	return all
}

// prompts counts the rounds that the provider was sent for a prompt that holds a text.
func (x *codexRun) prompts(text string) (n int) {
	for _, r := range x.mock.Requests() {
		if strings.Contains(r.Text, text) {
			n++
		}
	}
	return n
}

// last is what the provider was sent last.
func (x *codexRun) last() responses.Request {
	x.t.Helper()
	all := x.mock.Requests()
	if len(all) == 0 {
		x.t.Fatal("the provider was sent nothing")
	}
	return all[len(all)-1]
}

// output is what the tools gave, as the model was told last.
func (x *codexRun) output() string { return strings.Join(x.last().Outputs, "\n") }

// option is the id of the option of a kind, "" for none.
func option(r sessions.Request, kind sessions.OptionKind) string {
	for _, o := range r.Options {
		if o.Kind == kind {
			return o.OptionID
		}
	}
	return ""
}

// at is a path of the workspace, or one that is whole already.
func (x *codexRun) at(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return x.here(name)
}

// there and missing want files.
func (x *codexRun) there(names ...string) {
	x.t.Helper()
	for _, n := range names {
		if !exists(x.at(n)) {
			x.t.Errorf("%s is not there", n)
		}
	}
}

func (x *codexRun) missing(names ...string) {
	x.t.Helper()
	for _, n := range names {
		if exists(x.at(n)) {
			x.t.Errorf("%s is there", n)
		}
	}
}

// want fails the scenario, and goes on, when something is not so.
func (x *codexRun) want(ok bool, format string, a ...any) {
	x.t.Helper()
	if !ok {
		x.t.Errorf(format, a...)
	}
}
