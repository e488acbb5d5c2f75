package appserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/fixtures/codexlike"
	"github.com/batonmcp/baton/fixtures/codexschema"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// The scripted agent in Codex's manner was written by its measurements and not by this package, so that its tests are
// a second opinion where the real Codex is not at hand. What it says is held against Codex's own schema.

// eachLine does something with each line that is written to it. It has one writer.
type eachLine struct {
	do   func([]byte)
	rest []byte
}

func (l *eachLine) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.do(line)
		l.rest = rest
	}
}

// lookalike is one life of the scripted agent.
type lookalike struct {
	*watch
	out    *io.PipeWriter // the agent's output
	exited chan struct{}
}

// startLookalike runs the scripted agent with its threads in home.
func startLookalike(t *testing.T, home string, o Options, flags ...string) *lookalike {
	t.Helper()
	agentIn, ours := io.Pipe()
	from, agentOut := io.Pipe()
	l := &lookalike{watch: newWatch(t), out: agentOut, exited: make(chan struct{})}
	go func() {
		defer close(l.exited)
		link := codexschema.NewLink()
		asked := io.TeeReader(agentIn, &eachLine{do: link.Sent})
		said := struct {
			io.Writer
			io.Closer
		}{io.MultiWriter(&eachLine{do: func(line []byte) {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			if !json.Valid(line) {
				return // noise, which it makes on purpose
			}
			if err := link.Said(line); err != nil {
				t.Error(err)
			}
		}}, agentOut), agentOut}
		codexlike.Main(append([]string{"app-server", "--home", home}, flags...), asked, said, io.Discard)
		agentIn.Close()
		agentOut.Close()
	}()
	l.agent = New(wire.New(from, ours, wire.Options{}), l.watch, o)
	t.Cleanup(l.end)
	return l
}

// end takes the link away, which ends the scripted agent too.
func (l *lookalike) end() {
	l.out.Close()
	l.agent.conn.Close()
	<-l.agent.Done()
	<-l.exited
}

func lookalikeParams(work string) sessions.OpenParams {
	return sessions.OpenParams{Session: "S", Generation: "g", Runner: "codex", Cwd: work, Selection: sessions.Selection{
		Sandbox: sessions.SandboxWorkspaceWrite, ApprovalPolicy: sessions.ApprovalOnRequest}}
}

func TestLookalikeTurns(t *testing.T) {
	home, work := t.TempDir(), t.TempDir()
	l := startLookalike(t, home, Options{})
	o := l.open(lookalikeParams(work))
	if o.Evidence.Sandbox != sessions.SandboxWorkspaceWrite || o.Evidence.AgentVersion != codexlike.Version {
		t.Errorf("opened %+v", o)
	}
	for i, x := range []struct {
		prompt string
		state  sessions.CommandState
		texts  []string
	}{
		{"hello", sessions.CommandCompleted, []string{"you said: hello"}},
		{"[noise][say 3][late]", sessions.CommandCompleted, []string{"w1 w2 w3"}},
		{"[think hm][plan steps][usage 7][run echo one][say 1]", sessions.CommandCompleted, []string{"ran echo one: exit 0", "w1"}},
		{"[retry again]", sessions.CommandCompleted, nil},
		{"[fail no]", sessions.CommandFailed, nil},
	} {
		command := "c" + strconv.Itoa(i)
		l.prompt(command, x.prompt)
		l.settled(command, x.state)
		if got := l.texts(command); x.texts != nil && !slices.Equal(got, x.texts) {
			t.Errorf("%s: %q, want %q", x.prompt, got, x.texts)
		}
	}

	l.prompt("yes", "[approve touch yes]")
	answer := func(decision string) {
		t.Helper()
		a, err := l.kind(sessions.EventApprovalRequested).Request.Resolve(decision, "", "", nil, nil)
		if err == nil {
			err = l.agent.Answer(l.context(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	answer("approve")
	l.settled("yes", sessions.CommandCompleted)
	l.prompt("no", "[approve touch no]")
	answer("deny")
	l.settled("no", sessions.CommandCompleted)
	l.prompt("edit", "[edit edited.txt words]")
	answer("approve")
	l.settled("edit", sessions.CommandCompleted)
	for name, want := range map[string]bool{"yes": true, "no": false, "edited.txt": true} {
		if _, err := os.Stat(filepath.Join(work, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}

	l.prompt("ask", "[ask same]")
	q := l.kind(sessions.EventQuestionRequested).Request.Questions[0]
	if len(q.Options) != 2 || q.Options[0].ID == q.Options[1].ID || q.Options[0].Label != q.Options[1].Label {
		t.Errorf("equal labels: %+v", q)
	}
	err := l.agent.Answer(l.context(), sessions.Answer{Handle: "r4", Answers: map[string][]string{q.ID: {q.Options[1].ID}}})
	if err != nil {
		t.Fatal(err)
	}
	l.settled("ask", sessions.CommandCompleted)

	l.prompt("steered", "[wait]")
	l.kind(sessions.EventTurnStarted)
	l.send(sessions.Prompt{CommandID: "steer", Text: "[say 2]", Steer: "steered"})
	l.settled("steered", sessions.CommandCompleted)
	l.settled("steer", sessions.CommandCompleted)

	// Another life of the agent on the same home.
	l.end()
	l = startLookalike(t, home, Options{})
	p := lookalikeParams(work)
	p.NativeID, p.HadTurn, p.Unknown = o.NativeID, true, []string{"c0", "c4", "steer", "never"}
	var got []string
	for _, s := range l.open(p).Settled {
		got = append(got, s.Command+" "+string(s.State)+" "+s.Outcome)
	}
	if want := []string{"c0 completed end_turn", "c4 failed failed", "steer completed end_turn", "never failed not_delivered"}; !slices.Equal(got, want) {
		t.Errorf("settled %q, want %q", got, want)
	}
}

// TestLookalikeReadOnlyButForItsRoots: the profile is confirmed, and again in another life, where it has another name.
func TestLookalikeReadOnlyButForItsRoots(t *testing.T) {
	home, work := t.TempDir(), t.TempDir()
	p := lookalikeParams(work)
	p.Selection.Sandbox, p.WritableRoots = sessions.SandboxReadOnly, []string{t.TempDir()}
	for _, p.Generation = range []string{"g1", "g2"} {
		l := startLookalike(t, home, Options{})
		o := l.open(p)
		if o.Evidence.Sandbox != sessions.SandboxReadOnly || p.NativeID != "" && o.NativeID != p.NativeID {
			t.Errorf("opened %+v", o)
		}
		l.prompt(p.Generation, "[say 1]")
		l.settled(p.Generation, sessions.CommandCompleted)
		l.end()
		p.NativeID, p.HadTurn = o.NativeID, true
	}
}

// TestLookalikeCancel: the cancel reaches the turn wherever it is, and what ignores it is not called interrupted.
func TestLookalikeCancel(t *testing.T) {
	for name, x := range map[string]struct {
		flags  []string
		prompt string
		before func(*lookalike)
		state  sessions.CommandState
	}{
		"before the answer to turn/start": {[]string{"--delay-start", "200"}, "[wait]", nil, sessions.CommandInterrupted},
		"before turn/started":             {[]string{"--start-gap", "200"}, "[wait]", func(l *lookalike) { l.kind(sessions.EventCommandAccepted) }, sessions.CommandInterrupted},
		"running":                         {nil, "[wait]", func(l *lookalike) { l.kind(sessions.EventTurnStarted) }, sessions.CommandInterrupted},
		"asking":                          {nil, "[approve touch x]", func(l *lookalike) { l.kind(sessions.EventApprovalRequested) }, sessions.CommandInterrupted},
		"deaf":                            {nil, "[deaf][wait]", func(l *lookalike) { l.kind(sessions.EventTurnStarted) }, sessions.CommandCancelUnconfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			o := Options{}
			if x.state == sessions.CommandCancelUnconfirmed {
				o.CancelGrace = 200 * time.Millisecond
			}
			l := startLookalike(t, t.TempDir(), o, x.flags...)
			l.open(lookalikeParams(work))
			l.prompt("c1", x.prompt)
			if x.before != nil {
				x.before(l)
			}
			if err := l.agent.Cancel(l.context(), "c1"); err != nil {
				t.Fatal(err)
			}
			l.settled("c1", x.state)
			if x.state == sessions.CommandCancelUnconfirmed {
				<-l.agent.Done()
				return
			}
			l.prompt("c2", "[say 1]")
			l.settled("c2", sessions.CommandCompleted)
			if _, err := os.Stat(filepath.Join(work, "x")); err == nil {
				t.Error("cancelled and done")
			}
		})
	}
}

func TestLookalikeRefused(t *testing.T) {
	for _, x := range []struct {
		flags string
		want  sessions.Code
	}{
		{"--signed-out", sessions.CodeNotLoggedIn},
		{"--mute", sessions.CodeTimeout},
		{"--init-error", sessions.CodeAgentProtocol},
		{"--no-version", sessions.CodeAgentProtocol},
		{"--exit-at-once 3", sessions.CodeAgentExited},
		{"--confirm sandbox=dangerFullAccess", sessions.CodeSelectionUnconfirmed},
		{"--confirm approval=never", sessions.CodeSelectionUnconfirmed},
	} {
		l := startLookalike(t, t.TempDir(), Options{}, strings.Fields(x.flags)...)
		ctx, stop := context.WithTimeout(t.Context(), patience)
		if x.want == sessions.CodeTimeout {
			stop()
			ctx, stop = context.WithTimeout(t.Context(), 100*time.Millisecond)
		}
		_, err := l.agent.Open(ctx, lookalikeParams(t.TempDir()))
		stop()
		if sessions.CodeOf(err) != x.want {
			t.Errorf("%s: %v, want %s", x.flags, err, x.want)
		}
	}
}
