package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// keeping gives runner fake one conversation, of which every question is answered.
func (r *rig) keeping(c sessions.Conversation) (asked *int) {
	asked = new(int)
	r.askForeign = func(_ context.Context, in bridge.ForeignInput) (sessions.ForeignSaid, error) {
		if in.Open.Runner != "fake" {
			return sessions.ForeignSaid{}, sessions.Errorf(sessions.CodeUnsupported, "it tells of none")
		}
		*asked++
		return sessions.ForeignSaid{Conversations: []sessions.Conversation{c}, Events: []sessions.Event{{Kind: sessions.EventText, Text: "x", Replay: true}}}, nil
	}
	return asked
}

func (r *rig) adopts(change ...func(*sessions.AdoptArgs)) (sessions.Session, error) {
	now := 0
	a := sessions.AdoptArgs{Runner: "fake", NativeID: "thread", WaitSeconds: &now}
	for _, c := range change {
		c(&a)
	}
	res, err := r.Adopt(r.t.Context(), r.who, a)
	return res.Session, err
}

// A conversation becomes one session: with its id and directory, by its key again and again, and by no other key. Whoever
// else asks does not hear of it. When the session is deleted it is the agent's alone again.
func TestAdoptOnce(t *testing.T) {
	r := newRig(t)
	asked := r.keeping(sessions.Conversation{NativeID: "thread", Cwd: r.cwd, Title: "a title\nof two lines"})
	list := func() []sessions.Conversation {
		t.Helper()
		res, err := r.Foreign(t.Context(), r.who, sessions.ForeignArgs{})
		if err != nil || res.Problems["fakeacp"] == "" {
			t.Fatalf("%+v, %v", res, err)
		}
		return res.Conversations
	}
	if all := list(); len(all) != 1 || all[0].Origin != sessions.OriginForeign || all[0].Runner != "fake" || all[0].Title != "a title of two lines" {
		t.Fatalf("listed: %+v", all)
	}
	key := func(a *sessions.AdoptArgs) { a.Key = "k" }
	s, err := r.adopts(key)
	if err != nil || s.State != sessions.SessionStarting || s.NativeID != "thread" || s.Cwd != r.cwd || s.Origin != sessions.OriginAdopted || s.Title != "a title of two lines" {
		t.Fatalf("adopted: %+v, %v", s, err)
	}
	if open := r.launched(s.Generation).Open; open.NativeID != "thread" || !open.HadTurn || !open.Replay || open.Cwd != r.cwd {
		t.Errorf("launched with %+v", open)
	}
	before := *asked
	if again, err := r.adopts(key); err != nil || again.SessionID != s.SessionID || *asked != before {
		t.Errorf("under its key again: %s, %v, asked %d times more", again.SessionID, err, *asked-before)
	}
	if _, err := r.adopts(key, func(a *sessions.AdoptArgs) { a.Model = "other" }); sessions.CodeOf(err) != sessions.CodeKeyConflict {
		t.Errorf("the key with another meaning: %v", err)
	}
	if _, err := r.adopts(); sessions.CodeOf(err) != sessions.CodeBusy || !strings.Contains(err.Error(), s.SessionID) {
		t.Errorf("a second time: %v", err)
	}
	mine := r.who
	r.who.Principal = "other"
	if _, err := r.adopts(); sessions.CodeOf(err) != sessions.CodeNotFound || strings.Contains(err.Error(), s.SessionID) {
		t.Errorf("by another principal: %v", err)
	}
	if _, err := r.ForeignRead(t.Context(), r.who, sessions.ForeignReadArgs{Runner: "fake", NativeID: "thread"}); sessions.CodeOf(err) != sessions.CodeNotFound {
		t.Errorf("read by another principal: %v", err)
	}
	if all := list(); len(all) != 0 {
		t.Errorf("a session is listed for another principal: %+v", all)
	}
	r.who = mine
	b := r.bridgeOf(s)
	b.frame(bridge.OutOpened, sessions.Opened{NativeID: "thread", Evidence: sessions.Evidence{Sandbox: sessions.SandboxWorkspaceWrite, ApprovalPolicy: sessions.ApprovalOnRequest}})
	if all := list(); len(all) != 0 {
		t.Errorf("a session is listed: %+v", all)
	}
}

// Another agent may have made the same id: what it calls so is its own, and what is the same agent by another name is not.
func TestNativeIDsAreTheirAgents(t *testing.T) {
	r := newRig(t)
	r.configure(configuration + `
[runners.other]
protocol = "acp"
command = ["/bin/echo", "acp"]
[runners.renamed]
protocol = "acp"
command = ["/usr/bin/echo", "acp"]
[runners.gone]
protocol = "acp"
command = ["/bin/ls"]
`)
	said := sessions.Conversation{NativeID: "1", Cwd: r.cwd}
	r.askForeign = func(context.Context, bridge.ForeignInput) (sessions.ForeignSaid, error) {
		return sessions.ForeignSaid{Conversations: []sessions.Conversation{said}}, nil
	}
	r.can.Filesystem = true
	of := func(runner string) func(*sessions.AdoptArgs) {
		return func(a *sessions.AdoptArgs) { a.Runner, a.NativeID = runner, "1" }
	}
	mine, err := r.adopts(of("fakeacp"))
	if err != nil {
		t.Fatal(err)
	}
	listed := func() string {
		t.Helper()
		res, err := r.Foreign(t.Context(), r.who, sessions.ForeignArgs{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range res.Conversations {
			names = append(names, c.Runner)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if got := listed(); got != "fake gone other renamed" {
		t.Errorf("listed are those of %q", got)
	}
	if _, err := r.adopts(of("fakeacp")); sessions.CodeOf(err) != sessions.CodeBusy || !strings.Contains(err.Error(), mine.SessionID) {
		t.Errorf("a second time: %v", err)
	}
	theirs, err := r.adopts(of("other"))
	if err != nil {
		t.Fatalf("another agent's: %v", err)
	}
	if _, err := r.adopts(of("renamed")); sessions.CodeOf(err) != sessions.CodeBusy || !strings.Contains(err.Error(), theirs.SessionID) {
		t.Errorf("the same agent's by another name: %v", err)
	}
	if got := listed(); got != "fake gone" {
		t.Errorf("listed are those of %q", got)
	}
	if _, err := r.adopts(of("gone")); err != nil {
		t.Fatal(err)
	}
	r.configure(configuration + "[runners.new]\nprotocol = \"acp\"\ncommand = [\"/bin/true\"]\n")
	if got := listed(); got != "" {
		t.Errorf("with a runner of which nobody knows what it was, listed are those of %q", got)
	}
}

// What cannot be adopted is refused before anything is stored.
func TestAdoptRefusals(t *testing.T) {
	r := newRig(t)
	locked := filepath.Join(filepath.Dir(r.cwd), "lock")
	f, err := os.Create(locked) // this process has it open for writing; holders leave out themselves
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	good := sessions.Conversation{NativeID: "thread", Cwd: r.cwd, Files: []string{locked}}
	for _, tc := range []struct {
		name string
		conv func(*sessions.Conversation)
		args func(*sessions.AdoptArgs)
		want sessions.Code
	}{
		{"its directory is gone", func(c *sessions.Conversation) { c.Cwd += "/gone" }, nil, sessions.CodeInvalidParams},
		{"no directory on record", func(c *sessions.Conversation) { c.Cwd = "" }, nil, sessions.CodeUnsupported},
		{"a directory of Baton's own", func(c *sessions.Conversation) { c.Cwd = r.o.Places.State }, nil, sessions.CodeInvalidParams},
		{"all of the caller's home", func(c *sessions.Conversation) { c.Cwd = filepath.Dir(r.cwd) }, nil, sessions.CodeInvalidParams},
		{"what holds it", func(c *sessions.Conversation) { c.Cwd = filepath.Dir(filepath.Dir(r.cwd)) }, nil, sessions.CodeInvalidParams},
		{"another directory than asked", nil, func(a *sessions.AdoptArgs) { a.Cwd = "/" }, sessions.CodeInvalidParams},
		{"the agent tells of another", func(c *sessions.Conversation) { c.NativeID = "other" }, nil, sessions.CodeAgentProtocol},
		{"no id", nil, func(a *sessions.AdoptArgs) { a.NativeID = "" }, sessions.CodeInvalidParams},
		{"an id of two lines", nil, func(a *sessions.AdoptArgs) { a.NativeID = "a\nb" }, sessions.CodeInvalidParams},
		{"no runner", nil, func(a *sessions.AdoptArgs) { a.Runner = "" }, sessions.CodeInvalidParams},
		{"an unknown runner", nil, func(a *sessions.AdoptArgs) { a.Runner = "nosuch" }, sessions.CodeRunnerMissing},
		{"one that tells of none", nil, func(a *sessions.AdoptArgs) { a.Runner = "fakeacp" }, sessions.CodeUnsupported},
		{"an unknown sandbox", nil, func(a *sessions.AdoptArgs) { a.Sandbox = "none" }, sessions.CodeInvalidParams},
		{"no UUID", nil, func(a *sessions.AdoptArgs) { a.SessionID = "x" }, sessions.CodeInvalidParams},
	} {
		c := good
		if tc.conv != nil {
			tc.conv(&c)
		}
		r.keeping(c)
		change := []func(*sessions.AdoptArgs){}
		if tc.args != nil {
			change = append(change, tc.args)
		}
		if _, err := r.adopts(change...); sessions.CodeOf(err) != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
	if all, err := r.List(t.Context(), r.who, sessions.ListArgs{All: true}); err != nil || len(all.Sessions) != 0 {
		t.Errorf("stored: %+v, %v", all, err)
	}
	r.keeping(good)
	if s, err := r.adopts(); err != nil || s.State != sessions.SessionStarting {
		t.Errorf("the good one: %+v, %v", s, err)
	}
}

// A start that failed before the agent was open told nothing of the history: the next one does, and the one after not.
func TestAdoptedHistoryIsToldOnce(t *testing.T) {
	r := newRig(t)
	r.keeping(sessions.Conversation{NativeID: "thread", Cwd: r.cwd})
	v, err := r.adopts()
	if err != nil {
		t.Fatal(err)
	}
	s := r.bridgeOf(v)
	s.frame(bridge.OutFailed, bridge.Failure{Error: sessions.Errorf(sessions.CodeBusy, "another process has it open")})
	s.ends(sandbox.Confirmed)
	for i, want := range []bool{true, false} {
		res, err := s.resume()
		if err != nil {
			t.Fatal(err)
		}
		if open := r.launched(res.Session.Generation).Open; open.Replay != want || open.NativeID != v.NativeID || !open.HadTurn {
			t.Errorf("resume %d: %+v", i+1, open)
		}
		s = r.bridgeOf(res.Session)
		r.tx(func(tx *journal.Tx) error {
			_, err := tx.UpdateGeneration(s.generation, func(g *journal.Generation) { g.Rung = string(sandbox.PIDNamespace) })
			return err
		})
		s.frame(bridge.OutOpened, sessions.Opened{NativeID: v.NativeID, Capability: sessions.Capabilities{Resume: true},
			Evidence: sessions.Evidence{Sandbox: sessions.SandboxWorkspaceWrite, ApprovalPolicy: sessions.ApprovalOnRequest}})
		s.ends(sandbox.Confirmed)
	}
}
