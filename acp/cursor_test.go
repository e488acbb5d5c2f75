package acp

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/fixtures/cursorlike"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// cursor is the scripted agent in Cursor's manner, run in this process.
type cursor struct {
	*Agent
	t   *testing.T
	rec *recorder
}

func startCursor(t *testing.T, o Options, args ...string) *cursor {
	t.Helper()
	c := &cursor{t: t, rec: newRecorder(t)}
	c.Agent = New(linkCursor(t, args...), c.rec, o)
	t.Cleanup(func() {
		c.conn.Close()
		<-c.Done()
	})
	return c
}

func linkCursor(t *testing.T, args ...string) *wire.Conn {
	t.Helper()
	fromAgent, agentOut := io.Pipe()
	agentIn, toAgent := io.Pipe()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		cursorlike.Main(args, agentIn, agentOut, io.Discard)
		agentOut.Close()
		agentIn.Close()
	}()
	conn := wire.New(fromAgent, toAgent, wire.Options{Generation: "g"})
	t.Cleanup(func() {
		conn.Close()
		<-gone
	})
	return conn
}

func (c *cursor) run(command, prompt string) {
	c.t.Helper()
	if err := c.Prompt(testContext(c.t), sessions.Prompt{CommandID: command, Text: prompt}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cursor) settle(state sessions.CommandState) sessions.Settlement {
	c.t.Helper()
	s := *c.rec.await(sessions.EventCommandSettled).Settled
	if s.State != state {
		c.t.Errorf("settled %+v, want %s", s, state)
	}
	return s
}

func TestCursorLike(t *testing.T) {
	home, work := t.TempDir(), t.TempDir()
	ctx := testContext(t)
	c := startCursor(t, Options{}, "--home", home, "acp")
	p := sessions.OpenParams{Runner: "cursor", Cwd: work, BridgeSandbox: "workspace-write",
		Selection: sessions.Selection{Model: "claude-opus-4-8-thinking-max", Mode: "plan", Sandbox: "workspace-write"}}
	o, err := c.Open(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if o.Evidence.Model != p.Selection.Model || o.Evidence.Mode != "plan" || o.Evidence.Effort != "max" {
		t.Errorf("opened %+v", o.Evidence)
	}
	c.run("c1", "[noise][think hm][say 3][usage 7][late]")
	c.settle(sessions.CommandCompleted)
	if got := c.rec.text("c1", false); got != "w1 w2 w3" {
		t.Errorf("text %q", got)
	}
	if late := c.rec.await(sessions.EventText); !late.Late || late.Text != "late words" || late.Command != "c1" {
		t.Errorf("late %+v", late)
	}

	if err := c.Prompt(ctx, sessions.Prompt{CommandID: "c2", Text: "[approve echo hi >f; cat f][ask same]", Mode: "default"}); err != nil {
		t.Fatal(err)
	}
	r := c.rec.await(sessions.EventApprovalRequested).Request
	a, err := r.Resolve("approve", "", "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Answer(ctx, a); err != nil {
		t.Fatal(err)
	}
	if done := c.rec.await(sessions.EventToolCompleted).Tool; done.Output != "hi\n" || done.Status != "completed" {
		t.Errorf("tool %+v", done)
	}
	q := c.rec.await(sessions.EventQuestionRequested).Request
	if a, err = q.Resolve("", "", "", map[string][]string{"color": {"b"}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Answer(ctx, a); err != nil {
		t.Fatal(err)
	}
	c.settle(sessions.CommandCompleted)
	if got := c.rec.text("c2", false); !strings.Contains(got, `answered: ["b"]`) {
		t.Errorf("text %q", got)
	}
	if b, err := os.ReadFile(filepath.Join(work, "f")); err != nil || string(b) != "hi\n" {
		t.Errorf("the command did not run in the cwd: %q %v", b, err)
	}

	c.run("c3", "[say 1][wait]")
	c.rec.await(sessions.EventText)
	if err := c.Cancel(ctx, "c3"); err != nil {
		t.Fatal(err)
	}
	c.settle(sessions.CommandInterrupted)
	c.run("c4", "[fail no luck]")
	if s := c.settle(sessions.CommandFailed); s.Outcome != "-32603" || !strings.Contains(s.Reason, "no luck") {
		t.Errorf("settled %+v", s)
	}
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	<-c.Done()

	// The same conversation in another process: the history stays history, the selections are confirmed again.
	c = startCursor(t, Options{}, "--home", home, "acp")
	p.NativeID, p.HadTurn = o.NativeID, true
	again, err := c.Open(ctx, p)
	if err != nil || again.NativeID != o.NativeID || again.Recreated || again.Evidence.Model != p.Selection.Model || again.Evidence.Mode != "plan" {
		t.Fatalf("%+v, %v", again, err)
	}
	c.run("c5", "[say 2]")
	c.settle(sessions.CommandCompleted)
	if got := c.rec.text("c5", false); got != "w1 w2" {
		t.Errorf("text after the resume %q", got)
	}
	for _, e := range c.rec.all() {
		if e.Command != "c5" {
			t.Errorf("an event of the history: %+v", e)
		}
	}
}

func TestCursorLikeRefusals(t *testing.T) {
	cwd := t.TempDir()
	for name, c := range map[string]struct {
		flags  []string
		params sessions.OpenParams
		code   sessions.Code
	}{
		"signed out":        {[]string{"--signed-out"}, sessions.OpenParams{}, sessions.CodeNotLoggedIn},
		"refuses to start":  {[]string{"--init-error"}, sessions.OpenParams{}, sessions.CodeAgentProtocol},
		"leaves at once":    {[]string{"--exit-at-once", "1"}, sessions.OpenParams{}, sessions.CodeAgentExited},
		"another model":     {[]string{"--confirm", "model=composer-2.5"}, sessions.OpenParams{Selection: sessions.Selection{Model: "gpt-5.5"}}, sessions.CodeSelectionUnconfirmed},
		"another effort":    {[]string{"--confirm", "reasoning=low"}, sessions.OpenParams{Selection: sessions.Selection{Model: "gpt-5.5", Effort: "high"}}, sessions.CodeSelectionUnconfirmed},
		"another mode":      {[]string{"--confirm", "mode=agent"}, sessions.OpenParams{Selection: sessions.Selection{Mode: "plan"}}, sessions.CodeSelectionUnconfirmed},
		"no such model":     {nil, sessions.OpenParams{Selection: sessions.Selection{Model: "gpt-9"}}, sessions.CodeModelUnavailable},
		"never ran":         {nil, sessions.OpenParams{NativeID: sessions.NewID(), HadTurn: true}, sessions.CodeNotFound},
		"is not an id":      {nil, sessions.OpenParams{NativeID: "x", HadTurn: true}, sessions.CodeNotFound},
		"does not say much": {[]string{"--mute"}, sessions.OpenParams{}, sessions.CodeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{}
			if c.code == sessions.CodeTimeout {
				o.HandshakeTimeout = time.Millisecond
			}
			agent := startCursor(t, o, append(c.flags, "--home", t.TempDir(), "acp")...)
			c.params.Runner, c.params.Cwd = "cursor", cwd
			_, err := agent.Open(testContext(t), c.params)
			if sessions.CodeOf(err) != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
			if err := agent.Prompt(testContext(t), sessions.Prompt{CommandID: "c", Text: "x"}); !errors.Is(err, sessions.ErrNotWritten) {
				t.Errorf("a prompt after that: %v", err)
			}
		})
	}
}

func TestCursorLikeProbe(t *testing.T) {
	got, err := Probe(testContext(t), linkCursor(t, "--home", t.TempDir(), "acp"), Options{})
	if err != nil || len(got.Models) != 4 || got.Models[3].ID != "claude-opus-4-8" || len(got.Models[3].Efforts) != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}
