package acp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batonmcp/baton/fixtures/acpedge"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// edgeProcess in the environment of the test binary names the edge case that it is to be.
const edgeProcess = "BATON_ACP_TEST_EDGE"

// edge is one edge case being played.
type edge struct {
	*testing.T
	*Agent
	conn *wire.Conn
	rec  *recorder
	ctx  context.Context
	code func() int // waits for the agent's end and gives its status
	kill func()     // nil: it runs in this process
	said func() string
}

func playEdge(t *testing.T, c acpedge.Case, o Options) *edge {
	t.Helper()
	e := &edge{T: t, rec: newRecorder(t), ctx: testContext(t)}
	var fromAgent io.Reader
	var toAgent io.WriteCloser
	if c.OwnProcess() {
		fromAgent, toAgent = e.process(c.Name)
	} else {
		fromAgent, toAgent = e.inside(c.Name)
	}
	e.conn = wire.New(fromAgent, toAgent, wire.Options{Generation: "g"})
	e.Agent = New(e.conn, e.rec, o)
	return e
}

func (e *edge) inside(name string) (io.Reader, io.WriteCloser) {
	fromAgent, agentOut := io.Pipe()
	agentIn, toAgent := io.Pipe()
	stderr, code := &safeBuffer{}, make(chan int, 1)
	go func() {
		code <- acpedge.Play(name, agentIn, agentOut, stderr)
		agentOut.Close()
		agentIn.Close()
	}()
	e.said, e.code = stderr.String, func() int { return <-code }
	return fromAgent, toAgent
}

func (e *edge) process(name string) (io.Reader, io.WriteCloser) {
	e.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), edgeProcess+"="+name, "BATON_FIXTURE_MARK="+filepath.Join(e.TempDir(), "mark"))
	stderr := &safeBuffer{}
	cmd.Stderr = stderr
	toAgent, err := cmd.StdinPipe()
	if err != nil {
		e.Fatal(err)
	}
	fromAgent, agentOut, err := os.Pipe()
	if err != nil {
		e.Fatal(err)
	}
	cmd.Stdout = agentOut
	if err := cmd.Start(); err != nil {
		e.Fatal(err)
	}
	agentOut.Close()
	e.said = stderr.String
	e.code = sync.OnceValue(func() int {
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	})
	e.kill = func() {
		_ = cmd.Process.Kill()
		e.code()
		for _, m := range regexp.MustCompile(`child (\d+)`).FindAllStringSubmatch(stderr.String(), -1) {
			if pid, err := strconv.Atoi(m[1]); err == nil {
				_ = syscall.Kill(-pid, syscall.SIGKILL) // it leads a session of its own
			}
		}
	}
	return fromAgent, toAgent
}

// end closes the link and wants the agent to have seen nothing wrong.
func (e *edge) end(want int) {
	e.Helper()
	e.conn.Close()
	<-e.Done()
	if e.kill != nil {
		e.kill()
	} else if code := e.code(); code != want {
		e.Errorf("the agent left with %d, want %d: %s%s", code, want, e.said(), e.rec.story())
	}
}

func (e *edge) open(p sessions.OpenParams) sessions.Opened {
	e.Helper()
	o, err := e.tryOpen(p)
	if err != nil {
		e.Fatal(err)
	}
	return o
}

func (e *edge) tryOpen(p sessions.OpenParams) (sessions.Opened, error) {
	p.Cwd, p.Runner = e.TempDir(), "cursor"
	return e.Agent.Open(e.ctx, p)
}

func (e *edge) refused(p sessions.OpenParams, code sessions.Code) {
	e.Helper()
	if _, err := e.tryOpen(p); sessions.CodeOf(err) != code {
		e.Errorf("%v, want %s", err, code)
	}
}

func (e *edge) prompt(command string) {
	e.Helper()
	if err := e.Agent.Prompt(e.ctx, sessions.Prompt{CommandID: command, Text: "hello"}); err != nil {
		e.Fatal(err)
	}
}

func (e *edge) settles(state sessions.CommandState, outcome string) sessions.Settlement {
	e.Helper()
	s := *e.rec.await(sessions.EventCommandSettled).Settled
	if s.State != state || s.Outcome != outcome {
		e.Errorf("settled %+v, want %s %s", s, state, outcome)
	}
	return s
}

// turn is one prompt that ends well, and its text.
func (e *edge) turn(command string) string {
	e.Helper()
	e.prompt(command)
	e.settles(sessions.CommandCompleted, "end_turn")
	return e.rec.text(command, false)
}

func (e *edge) approves(decision string) {
	e.Helper()
	a, err := e.rec.await(sessions.EventApprovalRequested).Request.Resolve(decision, "", "", nil, nil)
	if err == nil {
		err = e.Answer(e.ctx, a)
	}
	if err != nil {
		e.Fatal(err)
	}
}

var edges = map[string]func(*edge){
	// What a line can be.
	"stray-lines": func(e *edge) {
		e.open(sessions.OpenParams{})
		if text := e.turn("c1"); text != "ok" || e.conn.Diagnostics().Noise != 2 {
			e.Errorf("text %q, diagnostics %+v", text, e.conn.Diagnostics())
		}
	},
	"torn-lines": func(e *edge) {
		e.open(sessions.OpenParams{})
		if text := e.turn("c1"); text != "ab" {
			e.Errorf("text %q", text)
		}
	},
	"huge-line": func(e *edge) {
		e.open(sessions.OpenParams{})
		if text := e.turn("c1"); len(text) != 12<<20 {
			e.Errorf("text of %d bytes", len(text))
		}
	},
	"unknown-updates": func(e *edge) {
		e.open(sessions.OpenParams{})
		if text, n := e.turn("c1"), len(e.rec.all(sessions.EventWarning)); text != "ok" || n != 3 {
			e.Errorf("text %q, %d warnings, want one for each kind: %s", text, n, e.rec.story())
		}
		if w := e.rec.all(sessions.EventWarning)[0]; string(w.Raw) != `{"sessionUpdate":"brand_new_kind","x":1}` {
			e.Errorf("kept as %s", w.Raw)
		}
	},
	"unknown-requests": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.turn("c1")
	},
	"request-ids": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		for range 4 {
			e.approves("approve")
		}
		e.settles(sessions.CommandCompleted, "end_turn")
	},
	"odd-errors": func(e *edge) {
		e.open(sessions.OpenParams{})
		for i, outcome := range []string{"500", "-32603", "-32603"} {
			e.prompt(fmt.Sprint("c", i))
			e.settles(sessions.CommandFailed, outcome)
			if err := e.rec.all(sessions.EventError); i == 1 && !strings.Contains(string(err[i].Raw), "EPIPE") {
				e.Errorf("the error was not kept: %+v", err[i])
			}
		}
	},
	"null-result": func(e *edge) { e.open(sessions.OpenParams{}); e.turn("c1") },

	// From the first message to a session.
	"other-version":  func(e *edge) { e.refused(sessions.OpenParams{}, sessions.CodeUnsupported) },
	"sign-in-needed": func(e *edge) { e.refused(sessions.OpenParams{}, sessions.CodeNotLoggedIn) },
	"sign-in-hangs":  func(e *edge) { e.refused(sessions.OpenParams{}, sessions.CodeNotLoggedIn) },
	"sign-in-browser": func(e *edge) {
		e.refused(sessions.OpenParams{}, sessions.CodeNotLoggedIn)
	},
	"new-fails-once": func(e *edge) { e.open(sessions.OpenParams{}); e.turn("c1") },
	"model-flag-refused": func(e *edge) { // what it says on stderr is the bridge's to report
		e.refused(sessions.OpenParams{}, sessions.CodeAgentExited)
	},

	// Models, modes and options.
	"other-model-confirmed": func(e *edge) {
		e.refused(sessions.OpenParams{Selection: sessions.Selection{Model: "gpt-5.5"}}, sessions.CodeSelectionUnconfirmed)
		if err := e.Agent.Prompt(e.ctx, sessions.Prompt{CommandID: "c1", Text: "x"}); !errors.Is(err, sessions.ErrNotWritten) {
			e.Errorf("a prompt: %v", err)
		}
	},
	"options-follow-model": func(e *edge) {
		o := e.open(sessions.OpenParams{Selection: sessions.Selection{Model: "claude-opus-4-8", Effort: "max"}})
		if o.Evidence.Model != "claude-opus-4-8" || o.Evidence.Effort != "max" {
			e.Errorf("%+v", o.Evidence)
		}
		e.turn("c1")
	},
	"mode-drifts": func(e *edge) {
		e.open(sessions.OpenParams{Selection: sessions.Selection{Mode: "plan"}})
		e.prompt("c1")
		e.rec.await(sessions.EventSelectionChanged)
		if s := e.settles(sessions.CommandInterrupted, "cancelled"); !strings.Contains(s.Reason, "plan") {
			e.Errorf("no reason: %+v", s)
		}
	},
	"refused-in-words": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		if s := e.settles(sessions.CommandCompleted, "end_turn"); s.Reason == "" || len(e.rec.all(sessions.EventWarning)) != 1 {
			e.Errorf("not marked: %+v", s)
		}
	},

	// What may happen to a turn.
	"late-updates": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.turn("c1")
		if late := e.rec.await(sessions.EventText); !late.Late || late.Command != "c1" {
			e.Errorf("%+v", late)
		}
		e.rec.await(sessions.EventUsage)
		if text := e.turn("c2"); text != "second" || e.rec.text("c2", true) != "" {
			e.Errorf("%s", e.rec.story())
		}
	},
	"no-echo": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		if a := e.rec.await(sessions.EventCommandAccepted); a.Data["evidence"] != "session/request_permission" {
			e.Errorf("accepted by %v", a.Data)
		}
		e.approves("approve")
		e.settles(sessions.CommandCompleted, "end_turn")
	},
	"dies-in-turn": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		<-e.Done()
		if n := len(e.rec.all(sessions.EventCommandSettled)); n != 0 || e.Err() == nil {
			e.Errorf("%d settlements of a turn whose end nobody knows; link ended by %v", n, e.Err())
		}
	},
	"dies-asking": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		r := e.rec.await(sessions.EventApprovalRequested).Request
		<-e.Done()
		err := e.Answer(e.ctx, sessions.Answer{Handle: r.Handle, OptionID: "allow-once"})
		if sessions.CodeOf(err) != sessions.CodeWithdrawn || !errors.Is(err, sessions.ErrNotWritten) {
			e.Errorf("%v", err)
		}
	},
	"one-prompt-at-a-time": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		e.rec.await(sessions.EventText)
		if err := e.Agent.Prompt(e.ctx, sessions.Prompt{CommandID: "c2", Text: "x"}); sessions.CodeOf(err) != sessions.CodeBusy {
			e.Errorf("%v", err)
		}
		e.settles(sessions.CommandCompleted, "end_turn")
	},
	"stop-reasons": func(e *edge) {
		e.open(sessions.OpenParams{})
		for _, outcome := range []string{"max_tokens", "max_turn_requests", "refusal", "something_new", "cancelled_by_agent"} {
			e.prompt(outcome)
			e.settles(sessions.CommandFailed, outcome)
		}
	},
	"other-session": func(e *edge) {
		e.open(sessions.OpenParams{})
		if text := e.turn("c1"); text != "mine" || len(e.rec.all(sessions.EventApprovalRequested)) != 0 {
			e.Errorf("%s", e.rec.story())
		}
		if sub := e.rec.all(sessions.EventText)[0]; sub.Agent != "sub-1" || sub.Text != "FROM SUBAGENT" {
			e.Errorf("%+v", sub)
		}
	},

	// Permissions.
	"option-ids": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		e.approves("approve")
		e.approves("approve")
		e.settles(sessions.CommandCompleted, "end_turn")
	},
	"two-of-a-kind": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		e.approves("approve")
		second := e.rec.await(sessions.EventApprovalRequested).Request
		if err := e.Answer(e.ctx, sessions.Answer{Handle: second.Handle, OptionID: "proceed_once_and_switch_to_default"}); err != nil {
			e.Error(err)
		}
		e.settles(sessions.CommandCompleted, "end_turn")
	},
	"nothing-rejects": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		e.approves("deny")
		e.settles(sessions.CommandCompleted, "end_turn")
	},
	"unannounced-tool": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		e.approves("approve")
		if done := e.rec.await(sessions.EventToolCompleted); done.Tool.Title != "`rm x`" || done.Tool.Status != "completed" {
			e.Errorf("%+v", done.Tool)
		}
		e.settles(sessions.CommandCompleted, "end_turn")
	},
	"asking-twice": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		first, second := e.rec.await(sessions.EventApprovalRequested).Request, e.rec.await(sessions.EventApprovalRequested).Request
		for _, a := range []sessions.Answer{{Handle: second.Handle, OptionID: "reject-once"}, {Handle: first.Handle, OptionID: "allow-once"}} {
			if err := e.Answer(e.ctx, a); err != nil {
				e.Error(err)
			}
		}
		e.settles(sessions.CommandCompleted, "end_turn")
	},
	"tool-ids": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.turn("c1")
		if done := e.rec.all(sessions.EventToolCompleted); len(done) != 1 || done[0].Item != "call_1\nfc_x" {
			e.Errorf("%s", e.rec.story())
		}
		e.turn("c2")
		done := e.rec.all(sessions.EventToolCompleted)
		if len(done) != 3 || done[1].Item != done[0].Item || done[1].Command != "c2" || done[1].Tool.Title != "b" || done[1].Tool.Status != "failed" || len(done[2].Item) != 605 {
			e.Errorf("another turn: %s", e.rec.story())
		}
	},

	// Cancelling.
	"cancel-has-no-id": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		e.rec.await(sessions.EventText)
		e.cancels("c1")
		e.settles(sessions.CommandInterrupted, "cancelled")
	},
	"cancel-answers-requests": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		e.rec.await(sessions.EventApprovalRequested)
		e.cancels("c1")
		e.rec.await(sessions.EventRequestResolved)
		e.settles(sessions.CommandInterrupted, "cancelled")
	},
	"cancel-as-error": func(e *edge) {
		e.open(sessions.OpenParams{})
		for i, code := range []string{"-32800", "-32603"} {
			command := fmt.Sprint("c", i)
			e.prompt(command)
			e.cancels(command)
			if s := e.settles(sessions.CommandInterrupted, "cancelled"); !strings.Contains(s.Reason, code) {
				e.Errorf("the error was not kept: %+v", s)
			}
		}
	},
	"cancel-unanswered": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		e.rec.await(sessions.EventText)
		e.cancels("c1")
		e.settles(sessions.CommandCancelUnconfirmed, "cancel_ignored")
		<-e.Done()
	},
	"cancelled-tool-lives": func(e *edge) { // what is left of it is the bridge's to find
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		e.rec.await(sessions.EventToolStarted)
		e.cancels("c1")
		if done := e.rec.await(sessions.EventToolCompleted); done.Tool.Status != "cancelled" {
			e.Errorf("%+v", done.Tool)
		}
		e.settles(sessions.CommandInterrupted, "cancelled")
	},

	// Loading a conversation.
	"replay": func(e *edge) {
		e.open(resumeS1)
		if said := e.rec.all(); len(said) != 0 {
			e.Errorf("before the first prompt: %s", e.rec.story())
		}
		if text := e.turn("c1"); text != "NEW" || len(e.rec.all(sessions.EventPlan, sessions.EventToolStarted, sessions.EventApprovalRequested)) != 0 {
			e.Errorf("%s", e.rec.story())
		}
	},
	"unknown-session": func(e *edge) { e.refused(resumeS1, sessions.CodeNotFound) },
	"never-prompted": func(e *edge) { // the player leaves without answering the session/new that it provokes
		e.refused(sessions.OpenParams{NativeID: "s1"}, sessions.CodeAgentExited)
	},
	"load-unanswered":    func(e *edge) { e.refused(resumeS1, sessions.CodeTimeout) },
	"load-other-session": func(e *edge) { e.refused(resumeS1, sessions.CodeAgentProtocol) },
	"replay-is-no-evidence": func(e *edge) {
		e.open(resumeS1)
		e.turn("c1")
		if n := len(e.rec.all(sessions.EventToolStarted, sessions.EventToolCompleted)); n != 0 {
			e.Errorf("%s", e.rec.story())
		}
	},

	// Processes, which are the bridge's: here the link's end is seen, and nothing invented.
	"outlives-eof":  func(e *edge) { e.open(sessions.OpenParams{}); e.closes() },
	"outlives-term": func(e *edge) { e.open(sessions.OpenParams{}); e.closes() },
	"leaves-children": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		<-e.Done()
		if n := len(e.rec.all(sessions.EventCommandSettled)); n != 0 {
			e.Errorf("%d settlements", n)
		}
	},
	"exit-status": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		<-e.Done()
		if n := len(e.rec.all(sessions.EventCommandSettled)); n != 0 {
			e.Errorf("%d settlements", n)
		}
	},
	"stderr-flood": func(e *edge) { e.open(sessions.OpenParams{}); e.turn("c1") },
	"gone-before-prompt": func(e *edge) {
		e.open(sessions.OpenParams{})
		<-e.Done()
		err := e.Agent.Prompt(e.ctx, sessions.Prompt{CommandID: "c1", Text: "x"})
		if sessions.CodeOf(err) != sessions.CodeAgentExited || !errors.Is(err, sessions.ErrNotWritten) {
			e.Errorf("%v", err)
		}
	},

	// Cursor's own requests.
	"equal-labels": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		r := e.rec.await(sessions.EventQuestionRequested).Request
		answers := map[string][]string{"db": {"sq"}, "fx": {"a", "b"}}
		if err := e.Answer(e.ctx, sessions.Answer{Handle: r.Handle, Answers: answers}); err != nil {
			e.Error(err)
		}
		e.settles(sessions.CommandCompleted, "end_turn")
	},
	"plan-outcome": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.prompt("c1")
		e.approves("approve")
		e.settles(sessions.CommandCompleted, "end_turn")
	},
	"todos-both-ways": func(e *edge) {
		e.open(sessions.OpenParams{})
		e.turn("c1")
		plans := e.rec.all(sessions.EventPlan)
		if len(plans) != 2 || plans[1].Text != "- [x] A\n- [ ] B\n" || len(e.rec.all(sessions.EventToolCompleted)) != 1 {
			e.Errorf("%s", e.rec.story())
		}
	},
}

func (e *edge) cancels(command string) {
	e.Helper()
	if err := e.Cancel(e.ctx, command); err != nil {
		e.Error(err)
	}
}

func (e *edge) closes() {
	e.Helper()
	if err := e.Close(e.ctx); err != nil {
		e.Error(err)
	}
}

func TestEdgeCases(t *testing.T) {
	cases, err := acpedge.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for name := range edges {
		if !slices.ContainsFunc(cases, func(c acpedge.Case) bool { return c.Name == name }) {
			t.Errorf("there is no edge case %s", name)
		}
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			run := edges[c.Name]
			if run == nil {
				t.Fatalf("the adapter is not tested with edge case %s: %s", c.Name, c.Right)
			}
			o, want := Options{}, 0
			switch c.Name {
			case "sign-in-hangs":
				o.AuthTimeout = 50 * time.Millisecond
			case "load-unanswered":
				o.LoadTimeout = 50 * time.Millisecond
			case "cancel-unanswered":
				o.CancelGrace = 50 * time.Millisecond
			case "model-flag-refused":
				want = 1
			case "dies-in-turn":
				want = 3
			}
			e := playEdge(t, c, o)
			defer e.end(want)
			run(e)
		})
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
