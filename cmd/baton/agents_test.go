package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonmcp/baton/fixtures/models"
	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// realAgent is one of the agents that exist, and how it is made to use a mock of its provider. What differs between
// them, as measured, is data.
type realAgent struct {
	runner   string
	variable string // names its program
	node     bool   // it is a Node script
	// home writes its configuration and gives its environment. url is the provider's.
	home func(w *world, url string) []string
	ask  args // what a session is created with beside the runner and the folder

	model, other string // as confirmed; other is "" where no other one can be confirmed
	denied       sessions.CommandState
	// Gemini 0.61.0 empties a conversation that it loads in the minute of the clock in which it was begun: what it begins
	// with then goes to the same file, which is named after the minute.
	notInItsMinute bool
	// What the mock of its provider takes for saying a thing and for running one that must be asked for.
	say, run string
}

// everyAgent is in the order of what a run of each costs.
var everyAgent = []realAgent{
	{
		runner: "opencode", variable: "BATON_TEST_OPENCODE",
		model: "mock/" + models.Model, other: "mock/" + models.OtherModel, denied: sessions.CommandCompleted,
		home: func(w *world, url string) []string {
			model := func(name string) args {
				return args{"name": name, "tool_call": true, "attachment": true, "modalities": args{"input": []string{"text", "image"}, "output": []string{"text"}}, "limit": args{"context": 100000, "output": 4000}}
			}
			w.json("home/.config/opencode/opencode.json", args{"model": "mock/" + models.Model, "small_model": "mock/" + models.Model,
				"autoupdate": false, "share": "disabled", "permission": args{"bash": "ask", "edit": "ask"},
				"provider": args{"mock": args{"npm": "@ai-sdk/openai-compatible", "name": "Mock", "options": args{"baseURL": url + "/v1", "apiKey": "mock"},
					"models": args{models.Model: model("A"), models.OtherModel: model("B")}}}})
			return []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"}
		},
	},
	{
		runner: "claude", variable: "BATON_TEST_CLAUDE", node: true, model: "default", other: "sonnet", denied: sessions.CommandCompleted,
		ask: args{"mode": "default"}, // it begins in auto, in which it decides itself; haiku turns into sonnet in plan mode
		home: func(w *world, url string) []string {
			return []string{"CLAUDE_CONFIG_DIR=" + w.path("home/.claude"), "ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=mock", "DISABLE_TELEMETRY=1",
				"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1"}
		},
	},
	{
		runner: "gemini", variable: "BATON_TEST_GEMINI", node: true, model: "gemini-2.5-pro", denied: sessions.CommandCompleted, notInItsMinute: true,
		home: func(w *world, url string) []string {
			w.json("home/.gemini/settings.json", args{"security": args{"auth": args{"selectedType": "gemini-api-key"}}, "telemetry": args{"enabled": false},
				"privacy": args{"usageStatisticsEnabled": false}, "general": args{"disableAutoUpdate": true, "enableAutoUpdate": false}})
			return []string{"GEMINI_API_KEY=mock", "GOOGLE_GEMINI_BASE_URL=" + url}
		},
	},
	{
		runner: "codex-acp", variable: "BATON_TEST_CODEX_ACP", node: true, model: responses.Model, other: responses.OtherModel,
		ask: args{"sandbox": sessions.SandboxWorkspaceWrite}, denied: sessions.CommandFailed,
		say: "[text w29 w30]", run: "[shellesc ",
	},
}

func (a realAgent) words() string { return cmp.Or(a.say, "[say 30]") }

func (a realAgent) command(line string) string { return cmp.Or(a.run, "[run ") + line + "]" }

func (w *world) json(name string, v any) {
	w.t.Helper()
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.write(name, string(raw))
}

// provider tells what was asked of it.
type provider interface {
	Asked(text string) int // requests that were made for a prompt
	Saw(text string) bool  // an image came with one
}

// pixel is the least image there is.
func pixel(t *testing.T) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// codexProvider is the provider of codex-acp.
type codexProvider struct{ *responses.Server }

// Asked counts the requests of the session's models: codex-acp 2.6.0 has a title made by a small one of its own, from the
// same prompt, in a thread beside.
func (p codexProvider) Asked(text string) int {
	n := 0
	for _, r := range p.Requests() {
		if strings.Contains(r.Text, text) && (r.Model == responses.Model || r.Model == responses.OtherModel) {
			n++
		}
	}
	return n
}

func (p codexProvider) Saw(text string) bool {
	for _, r := range p.Requests() {
		if strings.Contains(r.Text, text) && strings.Contains(string(r.Body), "data:image/png") {
			return true
		}
	}
	return false
}

// outlastsMinute waits, where the agent needs it, until the minute of the clock is over in which a conversation was begun.
func (a realAgent) outlastsMinute(begun time.Time) {
	if a.notInItsMinute {
		time.Sleep(time.Until(begun.Truncate(time.Minute).Add(time.Minute)))
	}
}

// start makes a world with the agent and a mock of its provider.
func (a realAgent) start(t *testing.T) (*world, provider) {
	t.Helper()
	program := os.Getenv(a.variable)
	if program == "" {
		t.Skipf("SKIPPED: %s names no %s; `.ci/agents %s` installs one", a.variable, a.runner, a.runner)
	}
	w := newWorld(t, "BATON_RUNNER_"+strings.ToUpper(strings.ReplaceAll(a.runner, "-", "_"))+"="+program)
	if node := os.Getenv("BATON_TEST_NODE"); a.node && node != "" {
		w.env[0] = "PATH=" + filepath.Dir(node) + ":" + os.Getenv("PATH")
	}
	// A first start of opencode takes 40 s on a busy machine.
	w.write("baton/config.toml", "[host]\nidle_exit = \"20s\"\nhandshake_timeout = \"150s\"\nallow_unconfined_full_access = true\n")
	if a.home == nil {
		codex := os.Getenv("BATON_TEST_CODEX")
		if codex == "" {
			t.Skip("SKIPPED: BATON_TEST_CODEX names no Codex for codex-acp; `.ci/agents codex-acp` does")
		}
		mock := responses.Start(t)
		w.env = append(w.env, "CODEX_HOME="+w.path("codex"), "CODEX_API_KEY=mock", "CODEX_PATH="+codex)
		if err := responses.WriteHome(w.path("codex"), mock.URL); err != nil {
			t.Fatal(err)
		}
		return w, codexProvider{mock}
	}
	mock := models.Start(t)
	w.env = append(w.env, a.home(w, mock.URL)...)
	return w, mock
}

// create opens a session and waits until it is ready, however long that takes.
func (a realAgent) create(w *world, f *front, more args) sessions.Session {
	w.t.Helper()
	ask := args{"runner": a.runner, "cwd": w.work, "sandbox": sessions.SandboxFullAccess, "model": a.model, "wait_seconds": 50}
	if sandbox.Probe(context.Background()).Filesystem { // the default, which an agent must be able to live in
		ask["sandbox"] = sessions.SandboxWorkspaceWrite
	}
	for _, m := range []args{a.ask, more} {
		for k, v := range m {
			ask[k] = v
		}
	}
	s := call[sessions.CreateResult](f, "session_create", ask).Session
	return a.ready(w, f, s)
}

func (a realAgent) ready(w *world, f *front, s sessions.Session) sessions.Session {
	w.t.Helper()
	for s.State == sessions.SessionStarting || s.State == sessions.SessionReserved {
		got := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 50}).Sessions
		if len(got) > 0 {
			s = got[0].Session
		}
	}
	if s.State != sessions.SessionIdle {
		w.t.Fatalf("not ready: %+v %v", s, s.Error)
	}
	return s
}

// settle waits for the end of a session's running command, or for a request.
func (f *front) settle(session string) sessions.Session {
	f.t.Helper()
	for {
		got := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{session}, "wait_seconds": 50}).Sessions
		if len(got) > 0 && (got[0].Session.NeedsInput || got[0].Session.Running == nil) {
			return got[0].Session
		}
	}
}

// TestRealAgents runs one whole life of a session with each real agent that is there.
func TestRealAgents(t *testing.T) {
	for _, a := range everyAgent {
		t.Run(a.runner, func(t *testing.T) { a.live(t) })
	}
}

func (a realAgent) live(t *testing.T) {
	w, mock := a.start(t)
	f := w.open()
	defer f.close()
	began := time.Now()
	stage := func(name string) {
		t.Logf("%6.1f s  %s", time.Since(began).Seconds(), name)
	}

	// The runner shows itself, and a session confirms its model and mode.
	r := w.runners()[a.runner]
	for range 5 { // it is asked in a short time, which the first start of some is too long for
		if r.Problem == "" {
			break
		}
		w.baton("runners", "--refresh")
		r = w.runners()[a.runner]
	}
	if !r.Installed || r.Version == "" || r.Problem != "" {
		t.Errorf("runner: %+v", r)
	}
	stage("runner_list: version " + r.Version)
	s := a.create(w, f, args{"mode": "default"})
	e := s.Selections.Evidence
	if e.Model != a.model || e.Mode != "default" || e.AgentName == "" {
		t.Errorf("evidence: %+v", e)
	}
	created := time.Now()
	stage("created: " + e.AgentName + " " + e.AgentVersion)

	// A turn, once.
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": a.words(), "command_id": "c-1", "wait_seconds": 50})
	if sent.Command.State == sessions.CommandSubmitted || sent.Command.State == sessions.CommandAccepted {
		f.settle(s.SessionID)
		sent = call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": a.words(), "command_id": "c-1", "wait_seconds": 1})
	}
	if sent.Command.State != sessions.CommandCompleted || !strings.Contains(sent.Text, "w29 w30") {
		t.Fatalf("first turn: %+v", sent)
	}
	if n := mock.Asked(a.words()); n != 1 {
		t.Errorf("the provider was asked %d times", n)
		if codex, ok := mock.(codexProvider); ok {
			for _, r := range codex.Requests() {
				t.Logf("by %s: %.200s", r.Model, r.Text)
			}
		}
	}
	stage("first turn")

	// Approvals, and the world as they say.
	for _, c := range []struct {
		decision string
		there    bool
		state    sessions.CommandState
	}{{"approve", true, sessions.CommandCompleted}, {"deny", false, a.denied}} {
		file := filepath.Join(w.work, c.decision)
		last := a.mustAsk(t, f, s.SessionID, a.command("touch "+file))
		if exists(file) {
			t.Fatalf("%s: the command ran before it was answered", c.decision)
		}
		q := last.Requests[0]
		if !strings.Contains(q.Title+q.Detail, "touch") {
			t.Errorf("the request does not show its command: %+v", q)
		}
		call[sessions.RespondResult](f, "session_respond", args{"session_id": s.SessionID, "request_id": q.RequestID, "decision": c.decision})
		last = f.settle(s.SessionID)
		if last.Last == nil || last.Last.State != c.state {
			t.Errorf("%s: %+v", c.decision, last.Last)
		}
		if exists(file) != c.there {
			t.Errorf("%s: the file is there: %v", c.decision, exists(file))
		}
		stage(c.decision)
	}

	// Cancelled while its command runs: interrupted, and nothing of it left.
	a.working(t, w, f, s.SessionID)
	before := time.Now()
	cancelled := call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID})
	if cancelled.Command == nil || cancelled.Command.State != sessions.CommandInterrupted {
		t.Errorf("cancelled: %+v", cancelled.Command)
	} else {
		stage("cancelled in " + time.Since(before).Round(time.Millisecond).String() + ": " + cancelled.Command.Reason)
	}
	if left := w.find("sleep 61"); len(left) > 0 {
		t.Errorf("left of the cancelled turn: %v", left)
	}
	if exists(filepath.Join(w.work, "late")) {
		t.Error("the cancelled command went on")
	}

	// Killed in a turn: the outcome is unknown, nothing is left, and nothing is sent again.
	a.working(t, w, f, s.SessionID)
	agent := w.agentOf(a, s)
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lost := f.settle(s.SessionID)
	if lost.State != sessions.SessionFailed || lost.Last.State != sessions.CommandUnknown {
		t.Errorf("after the kill: %s, %+v", lost.State, lost.Last)
	}
	await(t, "the end of what the agent had started", func() bool { return len(w.find("sleep 61")) == 0 })
	stage("killed")

	a.outlastsMinute(created)
	back := call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "acknowledge_unknown": true, "wait_seconds": 50})
	now := a.ready(w, f, back.Session)
	if e := now.Selections.Evidence; now.NativeID != s.NativeID || now.Generation == s.Generation || e.Model != a.model || e.Mode != "default" {
		t.Errorf("resumed: %+v", now)
	}
	if n := mock.Asked("sleep 61"); n != 2 { // the cancelled one and the killed one
		t.Errorf("the provider was asked %d times for commands that were sent twice", n)
	}
	stage("resumed")

	// The conversation goes on, with an image, and with another model and mode where the agent confirms a change.
	if err := os.WriteFile(filepath.Join(w.work, "pixel.png"), pixel(t), 0o600); err != nil {
		t.Fatal(err)
	}
	again := args{"session_id": s.SessionID, "text": a.words(), "images": []string{"pixel.png"}, "command_id": "c-last", "wait_seconds": 50}
	if a.other != "" {
		again["model"], again["mode"] = a.other, "plan"
	}
	sent = call[sessions.SendResult](f, "session_send", again)
	if sent.Command.State == sessions.CommandSubmitted || sent.Command.State == sessions.CommandAccepted {
		f.settle(s.SessionID)
		again["wait_seconds"] = 1
		sent = call[sessions.SendResult](f, "session_send", again)
	}
	if sent.Command.State != sessions.CommandCompleted || !strings.Contains(sent.Text, "w29 w30") {
		t.Errorf("after the resume: %+v, %q, %+v", sent.Command, sent.Text, sent.Session.Requests)
	}
	if e := sent.Session.Selections.Evidence; a.other != "" && (e.Model != a.other || e.Mode != "plan") {
		t.Errorf("the other model and mode: %+v", e)
	}
	if !mock.Saw(a.words()) {
		t.Error("the image did not reach the provider")
	}
	stage("turn after the resume")

	closed := call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	if s.Containment.Rung == "pid_namespace" && closed.Stopped != "confirmed" {
		t.Errorf("closed: %+v", closed)
	}
	if left := w.agents(a); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	stage("closed: " + closed.Proof)
}

// mustAsk sends a command that the agent must ask for, and returns the session that waits.
func (a realAgent) mustAsk(t *testing.T, f *front, session, text string) sessions.Session {
	t.Helper()
	call[sessions.SendResult](f, "session_send", args{"session_id": session, "text": text})
	s := f.settle(session)
	if len(s.Requests) != 1 {
		t.Fatalf("%s: no request, %+v", text, s.Last)
	}
	return s
}

// working leaves the session with a command that has run for a while: Codex kills one that it has just begun, and leaves
// one that has run for 1.5 s to itself when the turn is cancelled (codex-acp 2.6.0).
func (a realAgent) working(t *testing.T, w *world, f *front, session string) {
	t.Helper()
	s := a.mustAsk(t, f, session, a.command("sh -c 'sleep 2.5; touch warm; sleep 61.5; touch late'"))
	call[sessions.RespondResult](f, "session_respond", args{"session_id": session, "request_id": s.Requests[0].RequestID, "decision": "approve"})
	warm := filepath.Join(w.work, "warm")
	await(t, "the command", func() bool { return exists(warm) && len(w.find("sleep 61.5")) > 0 })
	if err := os.Remove(warm); err != nil {
		t.Error(err)
	}
}

// agents are the processes of the agent's program.
func (w *world) agents(a realAgent) []process {
	return w.find(os.Getenv(a.variable))
}

// agentOf is the process that the bridge started.
func (w *world) agentOf(a realAgent, s sessions.Session) int {
	w.t.Helper()
	for _, p := range w.agents(a) {
		for _, b := range w.find(" bridge") {
			if p.PPID == b.PID {
				return p.PID
			}
		}
	}
	w.t.Fatalf("no agent among %v", w.processes())
	return 0
}

// The very first start of an agent on a machine, with nothing of it in the home folder, is one in a session.
func TestRealAgentsFirstStart(t *testing.T) {
	for _, a := range everyAgent {
		t.Run(a.runner, func(t *testing.T) {
			w, _ := a.start(t)
			f := w.open()
			defer f.close()
			s := a.create(w, f, args{})
			if s.State != sessions.SessionIdle || s.Containment.By != "bridge" && a.runner != "codex-acp" {
				t.Errorf("%s, held by %s", s.State, s.Containment.By)
			}
		})
	}
}
