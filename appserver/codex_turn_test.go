package appserver

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sessions"
)

// TestCodexSession is a whole session: created with everything confirmed, streamed, steered, closed. The user's
// config.toml stays what it was, which it would not with a thread/start that asks for workspace-write.
func TestCodexSession(t *testing.T) {
	r := newRig(t)
	p := r.launch()
	o := p.open(r.usual())
	want := sessions.Evidence{Model: responses.Model, Effort: "high", Mode: "default", Sandbox: sessions.SandboxWorkspaceWrite, SandboxBy: "agent",
		ApprovalPolicy: sessions.ApprovalUntrusted, Cwd: r.work, AgentName: "codex", AgentVersion: o.Evidence.AgentVersion, Raw: o.Evidence.Raw}
	if !same(o.Evidence, want) || o.Evidence.AgentVersion == "" || o.Evidence.SandboxBy != "agent" || o.NativeID == "" {
		t.Fatalf("opened %+v, want %+v", o, want)
	}

	p.prompt("c1", "[say 5 8 1]")
	if e := p.kind(sessions.EventCommandAccepted); e.Command != "c1" || e.Turn == "" {
		t.Errorf("accepted: %+v", e)
	}
	p.settled("c1", sessions.CommandCompleted)
	if got := p.texts("c1"); len(got) != 1 || !strings.HasPrefix(got[0], "0") {
		t.Errorf("final texts %q", got)
	}
	var deltas strings.Builder
	for _, e := range p.events {
		if e.Kind == sessions.EventText && !e.Final {
			deltas.WriteString(e.Text)
		}
	}
	if deltas.String() != p.texts("c1")[0] {
		t.Errorf("the deltas are %q, the text %q", deltas.String(), p.texts("c1")[0])
	}
	last := r.provider.Requests()[0]
	if last.Model != responses.Model || last.Effort != "high" {
		t.Errorf("the provider was asked for model %q with effort %q", last.Model, last.Effort)
	}

	p.send(sessions.Prompt{CommandID: "c2", Text: "[text other]", Model: responses.OtherModel, Effort: "low"})
	p.settled("c2", sessions.CommandCompleted)
	if last := r.provider.Requests()[1]; last.Model != responses.OtherModel || last.Effort != "low" {
		t.Errorf("after the change the provider was asked for model %q with effort %q", last.Model, last.Effort)
	}
	if err := p.agent.Prompt(p.context(), sessions.Prompt{CommandID: "c3", Text: "x", Model: "no-such-model"}); sessions.CodeOf(err) != sessions.CodeModelUnavailable || !errors.Is(err, sessions.ErrNotWritten) {
		t.Errorf("a wrong model: %v", err)
	}

	p.prompt("c4", "[say 2000 8 5]")
	p.await("text", func(e sessions.Event) bool { return e.Kind == sessions.EventText && e.Command == "c4" })
	p.send(sessions.Prompt{CommandID: "s1", Text: "[text steered]", Steer: "c4"})
	p.settled("c4", sessions.CommandCompleted)
	p.settled("s1", sessions.CommandCompleted)
	if got := p.texts("c4"); !slices.Equal(got, []string{"steered"}) {
		t.Errorf("after a steer the texts are %q", got)
	}
	if !slices.ContainsFunc(p.events, func(e sessions.Event) bool { return e.Abandoned && e.Command == "c4" }) {
		t.Error("the text that the steer cut off is not marked")
	}

	if err := p.agent.Close(p.context()); err != nil {
		t.Errorf("close: %v", err)
	}
	select {
	case <-p.gone:
	case <-time.After(patience):
		t.Error("Codex does not leave when its input is closed")
	}
	if got := r.read(filepath.Join(r.home, "config.toml")); got != r.config {
		t.Errorf("config.toml was changed:\n%s", got)
	}
}

// TestCodexApprovals: an approval is followed by the deed, a denial is not, in the world and not only in the events.
func TestCodexApprovals(t *testing.T) {
	r := newRig(t)
	p := r.launch()
	p.open(r.usual())
	ask := func(command, text string) *sessions.Request {
		t.Helper()
		p.prompt(command, text)
		e := p.kind(sessions.EventApprovalRequested)
		if e.Command != command || len(e.Request.Options) < 4 {
			t.Fatalf("asked %+v", e.Request)
		}
		return e.Request
	}
	answer := func(request *sessions.Request, decision, scope string) {
		t.Helper()
		a, err := request.Resolve(decision, "", scope, nil, nil)
		if err == nil {
			err = p.agent.Answer(p.context(), a)
		}
		if err != nil {
			t.Fatalf("answer: %v", err)
		}
	}

	req := ask("c1", "[shell touch approved]")
	if r.exists("approved") || !strings.Contains(req.Title, "touch approved") {
		t.Errorf("before the answer: %+v", req)
	}
	answer(req, "approve", "")
	if e := p.kind(sessions.EventToolCompleted); e.Tool.Status != "completed" || e.Tool.Exit == nil || *e.Tool.Exit != 0 {
		t.Errorf("tool: %+v", e.Tool)
	}
	p.settled("c1", sessions.CommandCompleted)
	if !r.exists("approved") {
		t.Error("approved and not done")
	}

	req = ask("c2", "[shell touch denied]")
	answer(req, "deny", "")
	if e := p.kind(sessions.EventToolCompleted); e.Tool.Status != "declined" {
		t.Errorf("tool: %+v", e.Tool)
	}
	p.settled("c2", sessions.CommandCompleted)
	if r.exists("denied") {
		t.Error("denied and done")
	}
	if err := p.agent.Answer(p.context(), sessions.Answer{Handle: req.Handle, OptionID: "accept"}); sessions.CodeOf(err) != sessions.CodeWithdrawn {
		t.Errorf("a second answer: %v", err)
	}

	req = ask("c3", "[patch patched.txt words]")
	if req.Tool == nil || len(req.Tool.Paths) != 1 || !strings.HasSuffix(req.Tool.Paths[0], "patched.txt") || !strings.Contains(req.Detail, "words") {
		t.Errorf("a file change without its paths and diff: %+v", req)
	}
	answer(req, "deny", "")
	p.settled("c3", sessions.CommandCompleted)
	req = ask("c4", "[patch patched.txt words]")
	if r.exists("patched.txt") {
		t.Error("changed without an answer, or against it")
	}
	answer(req, "approve", "")
	p.settled("c4", sessions.CommandCompleted)
	if !r.exists("patched.txt") {
		t.Error("approved and not changed")
	}

	// For the session: the same command is not asked again.
	answer(ask("c5", "[shell touch session]"), "approve", "session")
	p.settled("c5", sessions.CommandCompleted)
	p.prompt("c6", "[shell touch session]")
	p.settled("c6", sessions.CommandCompleted)

	// The option that ends the turn.
	req = ask("c7", "[shell touch cancelled]")
	if err := p.agent.Answer(p.context(), sessions.Answer{Handle: req.Handle, OptionID: "cancel"}); err != nil {
		t.Fatal(err)
	}
	p.settled("c7", sessions.CommandInterrupted)

	// Two at once.
	p.prompt("c8", "[par [shell touch first] [shell touch second]]")
	a, b := p.kind(sessions.EventApprovalRequested).Request, p.kind(sessions.EventApprovalRequested).Request
	answer(b, "approve", "")
	answer(a, "deny", "")
	p.settled("c8", sessions.CommandCompleted)
	done := map[string]bool{"first": r.exists("first"), "second": r.exists("second")}
	for _, req := range []*sessions.Request{a, b} {
		for name, is := range done {
			if strings.Contains(req.Title, name) && is != (req == b) {
				t.Errorf("%s: done is %v", req.Title, is)
			}
		}
	}
	if r.exists("cancelled") {
		t.Error("cancelled and done")
	}

	// A question, and a cancel with it open.
	p.prompt("c9", "[ask]")
	q := p.kind(sessions.EventQuestionRequested).Request
	if len(q.Questions) == 0 || len(q.Questions[0].Options) < 2 {
		t.Fatalf("question: %+v", q)
	}
	given := map[string][]string{}
	for _, x := range q.Questions {
		given[x.ID] = []string{x.Options[1].ID}
	}
	res, err := q.Resolve("", "", "", given, nil)
	if err == nil {
		err = p.agent.Answer(p.context(), res)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.settled("c9", sessions.CommandCompleted)
	if out := r.provider.Requests()[len(r.provider.Requests())-1].Outputs; len(out) == 0 || !strings.Contains(out[len(out)-1], q.Questions[0].Options[1].Label) {
		t.Errorf("the answer %v did not reach the model: %q", given, out)
	}
	p.prompt("c10", "[ask]")
	p.kind(sessions.EventQuestionRequested)
	if err := p.agent.Cancel(p.context(), "c10"); err != nil {
		t.Fatal(err)
	}
	if e := p.kind(sessions.EventRequestResolved); e.Request.State != sessions.RequestWithdrawn {
		t.Errorf("resolved: %+v", e.Request)
	}
	p.settled("c10", sessions.CommandInterrupted)
}

// TestCodexCancel cancels 20 turns at random moments, from before the answer to turn/start to mid-stream. Each ends
// interrupted, none runs on, and a command that was running is stopped.
func TestCodexCancel(t *testing.T) {
	r := newRig(t)
	p := r.launch()
	params := r.usual()
	params.Selection.ApprovalPolicy = sessions.ApprovalNever
	p.open(params)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 20 {
		command := "c" + string(rune('a'+i))
		p.prompt(command, "[say 100000 8 5]")
		if i%4 != 0 { // every fourth at once
			<-time.After(time.Duration(random.IntN(150)) * time.Millisecond) // the moment is the point
		}
		if err := p.agent.Cancel(p.context(), command); err != nil {
			t.Fatal(err)
		}
		if s := p.settled(command, sessions.CommandInterrupted); s.Outcome != outcomeCancelled {
			t.Errorf("%s: %+v", command, s)
		}
	}

	p.prompt("run", "[shell touch begun; sleep 300; touch survived]")
	p.await("the command", func(e sessions.Event) bool { return e.Kind == sessions.EventToolStarted && e.Command == "run" })
	if err := p.agent.Cancel(p.context(), "run"); err != nil {
		t.Fatal(err)
	}
	p.settled("run", sessions.CommandInterrupted)
	p.await("the end of the command", func(e sessions.Event) bool { return e.Kind == sessions.EventToolCompleted && e.Command == "run" })

	p.prompt("hang", "[hang]")
	if _, err := r.provider.Await(p.context(), len(r.provider.Requests())); err != nil {
		t.Fatal(err)
	}
	if err := p.agent.Cancel(p.context(), "hang"); err != nil {
		t.Fatal(err)
	}
	p.settled("hang", sessions.CommandInterrupted)

	p.prompt("after", "[text well]")
	p.settled("after", sessions.CommandCompleted)
	if got := p.texts("after"); !slices.Equal(got, []string{"well"}) {
		t.Errorf("after all that: %q", got)
	}
	if got := r.read(filepath.Join(r.home, "config.toml")); got != r.config {
		t.Errorf("config.toml was changed:\n%s", got)
	}
}
