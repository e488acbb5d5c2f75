package acp

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/batonmcp/baton/fixtures/acpsdk"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// startSDK makes the agent and a client of it.
func startSDK(t *testing.T) (*fixture, *acpsdk.Agent) {
	t.Helper()
	fromAgent, agentOut := io.Pipe()
	agentIn, toAgent := io.Pipe()
	agent := acpsdk.Start(agentOut, agentIn)
	conn := wire.New(fromAgent, toAgent, wire.Options{Generation: "g"})
	f := &fixture{T: t, rec: newRecorder(t), ctx: testContext(t)}
	f.Agent = New(conn, f.rec, Options{})
	t.Cleanup(func() {
		conn.Close()
		<-f.Done()
		<-agent.Done()
	})
	return f, agent
}

func TestIndependentAgent(t *testing.T) {
	f, agent := startSDK(t)
	o, err := f.open(sessions.OpenParams{Runner: "other", Selection: sessions.Selection{Model: "large", Mode: "plan"}, Options: map[string]any{"fast": true}})
	if err != nil {
		t.Fatal(err)
	}
	if o.NativeID != acpsdk.Conversation || o.Evidence.Model != "large" || o.Evidence.Mode != "plan" || o.Evidence.AgentName != "sdk-agent" || !agent.Fast() {
		raw, _ := json.Marshal(o)
		t.Errorf("opened %s", raw)
	}
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c1", Text: "write"}); err != nil {
		t.Fatal(err)
	}
	if err := f.resolve(f.rec.await(sessions.EventApprovalRequested).Request, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if done := f.rec.await(sessions.EventToolCompleted).Tool; done.Output != "done" || len(done.Paths) != 2 || done.Name != "edit" {
		t.Errorf("tool %+v", done)
	}
	if s := f.settled(); s.State != sessions.CommandCompleted || f.rec.text("c1", false) != "chose once" {
		t.Errorf("settled %+v, %s", s, f.rec.story())
	}
	if u := f.rec.all(sessions.EventUsage); len(u) != 1 || u[0].Usage.Total != 3 {
		t.Errorf("usage %+v", u)
	}

	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "wait"}); err != nil {
		t.Fatal(err)
	}
	f.rec.await(sessions.EventApprovalRequested)
	if err := f.Agent.Cancel(f.ctx, "c2"); err != nil {
		t.Fatal(err)
	}
	if s := f.settled(); s.State != sessions.CommandInterrupted {
		t.Errorf("settled %+v", s)
	}
	if err := f.Agent.Close(f.ctx); err != nil {
		t.Fatal(err)
	}
	if !agent.Closed() {
		t.Error("the conversation was not closed")
	}
}

func TestIndependentAgentLoads(t *testing.T) {
	f, _ := startSDK(t)
	if o, err := f.open(sessions.OpenParams{NativeID: acpsdk.Conversation, HadTurn: true}); err != nil || o.NativeID != acpsdk.Conversation {
		t.Errorf("%+v, %v", o, err)
	}
	if n := len(f.rec.all()); n != 0 {
		t.Errorf("the replay made events: %s", f.rec.story())
	}
	f, _ = startSDK(t)
	if _, err := f.open(sessions.OpenParams{NativeID: "sdk-2", HadTurn: true}); sessions.CodeOf(err) != sessions.CodeNotFound {
		t.Errorf("%v", err)
	}
}
