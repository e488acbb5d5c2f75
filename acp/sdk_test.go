package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// sdkAgent is an agent made with somebody else's implementation of the protocol, so that this one is not tested against
// its own reading alone. It decodes strictly, and encodes as it understands the schema.
type sdkAgent struct {
	mu     sync.Mutex
	conn   *sdk.AgentSideConnection
	model  sdk.SessionConfigValueId
	fast   bool
	closed bool
	stop   chan struct{}
}

func (a *sdkAgent) options() []sdk.SessionConfigOption {
	model := sdk.SessionConfigOptionCategory("model")
	groups := sdk.SessionConfigSelectOptionsGrouped{
		{Group: "a", Name: "A", Options: []sdk.SessionConfigSelectOption{{Name: "Small", Value: "small"}}},
		{Group: "b", Name: "B", Options: []sdk.SessionConfigSelectOption{{Name: "Large", Value: "large"}}},
	}
	return []sdk.SessionConfigOption{
		{Select: &sdk.SessionConfigOptionSelect{Id: "llm", Name: "Model", Category: &model, CurrentValue: a.model, Type: "select",
			Options: sdk.SessionConfigSelectOptions{Grouped: &groups}}},
		{Boolean: &sdk.SessionConfigOptionBoolean{Id: "fast", Name: "Fast", CurrentValue: a.fast, Type: "boolean"}},
	}
}

func (a *sdkAgent) Initialize(_ context.Context, p sdk.InitializeRequest) (sdk.InitializeResponse, error) {
	if p.ProtocolVersion != 1 || p.ClientInfo == nil || p.ClientInfo.Name != "baton" || p.ClientCapabilities.Terminal || p.ClientCapabilities.Fs.ReadTextFile {
		return sdk.InitializeResponse{}, fmt.Errorf("initialize: %+v", p)
	}
	return sdk.InitializeResponse{ProtocolVersion: 1, AgentInfo: &sdk.Implementation{Name: "sdk-agent", Version: "1.2"},
		AgentCapabilities: sdk.AgentCapabilities{LoadSession: true, SessionCapabilities: sdk.SessionCapabilities{Close: &sdk.SessionCloseCapabilities{}}}}, nil
}

func (a *sdkAgent) Authenticate(context.Context, sdk.AuthenticateRequest) (sdk.AuthenticateResponse, error) {
	return sdk.AuthenticateResponse{}, fmt.Errorf("nobody offered a method")
}

func (a *sdkAgent) NewSession(_ context.Context, p sdk.NewSessionRequest) (sdk.NewSessionResponse, error) {
	if p.McpServers == nil {
		return sdk.NewSessionResponse{}, fmt.Errorf("mcpServers is missing")
	}
	return sdk.NewSessionResponse{SessionId: "sdk-1", ConfigOptions: a.options(),
		Modes: &sdk.SessionModeState{CurrentModeId: "code", AvailableModes: []sdk.SessionMode{{Id: "code", Name: "Code"}, {Id: "plan", Name: "Plan"}}}}, nil
}

func (a *sdkAgent) LoadSession(ctx context.Context, p sdk.LoadSessionRequest) (sdk.LoadSessionResponse, error) {
	if p.SessionId != "sdk-1" {
		return sdk.LoadSessionResponse{}, sdk.NewInvalidParams("not found")
	}
	if err := a.say(ctx, "OLD"); err != nil {
		return sdk.LoadSessionResponse{}, err
	}
	return sdk.LoadSessionResponse{ConfigOptions: a.options()}, nil
}

func (a *sdkAgent) SetSessionMode(ctx context.Context, p sdk.SetSessionModeRequest) (sdk.SetSessionModeResponse, error) {
	return sdk.SetSessionModeResponse{}, a.conn.SessionUpdate(ctx, sdk.SessionNotification{SessionId: p.SessionId,
		Update: sdk.SessionUpdate{CurrentModeUpdate: &sdk.SessionCurrentModeUpdate{CurrentModeId: p.ModeId}}})
}

func (a *sdkAgent) SetSessionConfigOption(_ context.Context, p sdk.SetSessionConfigOptionRequest) (sdk.SetSessionConfigOptionResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case p.Boolean != nil && p.Boolean.ConfigId == "fast":
		a.fast = p.Boolean.Value
	case p.ValueId != nil && p.ValueId.ConfigId == "llm":
		a.model = p.ValueId.Value
	default:
		return sdk.SetSessionConfigOptionResponse{}, sdk.NewInvalidParams(p)
	}
	return sdk.SetSessionConfigOptionResponse{ConfigOptions: a.options()}, nil
}

func (a *sdkAgent) say(ctx context.Context, text string) error {
	return a.conn.SessionUpdate(ctx, sdk.SessionNotification{SessionId: "sdk-1", Update: sdk.UpdateAgentMessageText(text)})
}

func (a *sdkAgent) Prompt(ctx context.Context, p sdk.PromptRequest) (sdk.PromptResponse, error) {
	if len(p.Prompt) != 1 || p.Prompt[0].Text == nil {
		return sdk.PromptResponse{}, fmt.Errorf("prompt: %+v", p)
	}
	if p.Prompt[0].Text.Text == "wait" {
		if err := a.say(ctx, "waiting"); err != nil {
			return sdk.PromptResponse{}, err
		}
		// Both ends wait for each other if the cancel leaves the permission unanswered.
		r, err := a.conn.RequestPermission(context.WithoutCancel(ctx), a.permission("t2"))
		if err != nil || r.Outcome.Cancelled == nil {
			return sdk.PromptResponse{}, fmt.Errorf("permission: %+v, %w", r.Outcome, err)
		}
		<-a.stop
		return sdk.PromptResponse{StopReason: sdk.StopReasonCancelled}, nil
	}
	start := sdk.StartToolCall("t1", "write", sdk.WithStartKind(sdk.ToolKindEdit), sdk.WithStartStatus(sdk.ToolCallStatusPending),
		sdk.WithStartLocations([]sdk.ToolCallLocation{{Path: "/work/a"}}))
	if err := a.conn.SessionUpdate(ctx, sdk.SessionNotification{SessionId: p.SessionId, Update: start}); err != nil {
		return sdk.PromptResponse{}, err
	}
	r, err := a.conn.RequestPermission(ctx, a.permission("t1"))
	if err != nil || r.Outcome.Selected == nil {
		return sdk.PromptResponse{}, fmt.Errorf("permission: %+v, %w", r.Outcome, err)
	}
	end := sdk.UpdateToolCall("t1", sdk.WithUpdateStatus(sdk.ToolCallStatusCompleted),
		sdk.WithUpdateContent([]sdk.ToolCallContent{sdk.ToolDiffContent("/work/b", "new", "old"), sdk.ToolContent(sdk.TextBlock("done"))}))
	if err := a.conn.SessionUpdate(ctx, sdk.SessionNotification{SessionId: p.SessionId, Update: end}); err != nil {
		return sdk.PromptResponse{}, err
	}
	if err := a.say(ctx, "chose "+string(r.Outcome.Selected.OptionId)); err != nil {
		return sdk.PromptResponse{}, err
	}
	return sdk.PromptResponse{StopReason: sdk.StopReasonEndTurn, Usage: &sdk.Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3}}, nil
}

func (a *sdkAgent) permission(tool sdk.ToolCallId) sdk.RequestPermissionRequest {
	return sdk.RequestPermissionRequest{SessionId: "sdk-1", ToolCall: sdk.ToolCallUpdate{ToolCallId: tool, Title: ptr("write")},
		Options: []sdk.PermissionOption{{OptionId: "always", Name: "Always", Kind: sdk.PermissionOptionKindAllowAlways},
			{OptionId: "once", Name: "Once", Kind: sdk.PermissionOptionKindAllowOnce}, {OptionId: "no", Name: "No", Kind: sdk.PermissionOptionKindRejectOnce}}}
}

func (a *sdkAgent) Cancel(_ context.Context, p sdk.CancelNotification) error {
	if p.SessionId == "sdk-1" {
		close(a.stop)
	}
	return nil
}

func (a *sdkAgent) CloseSession(context.Context, sdk.CloseSessionRequest) (sdk.CloseSessionResponse, error) {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	return sdk.CloseSessionResponse{}, nil
}

func (a *sdkAgent) ListSessions(context.Context, sdk.ListSessionsRequest) (sdk.ListSessionsResponse, error) {
	return sdk.ListSessionsResponse{}, sdk.NewMethodNotFound("session/list")
}

func (a *sdkAgent) ResumeSession(context.Context, sdk.ResumeSessionRequest) (sdk.ResumeSessionResponse, error) {
	return sdk.ResumeSessionResponse{}, sdk.NewMethodNotFound("session/resume")
}

func ptr[T any](v T) *T { return &v }

// startSDK makes the agent and a client of it.
func startSDK(t *testing.T) (*fixture, *sdkAgent) {
	t.Helper()
	fromAgent, agentOut := io.Pipe()
	agentIn, toAgent := io.Pipe()
	agent := &sdkAgent{model: "small", stop: make(chan struct{})}
	agent.conn = sdk.NewAgentSideConnection(agent, agentOut, agentIn)
	agent.conn.SetLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	conn := wire.New(fromAgent, toAgent, wire.Options{Generation: "g"})
	f := &fixture{T: t, rec: newRecorder(t), ctx: testContext(t)}
	f.Agent = New(conn, f.rec, Options{})
	t.Cleanup(func() {
		conn.Close()
		<-f.Done()
		<-agent.conn.Done()
	})
	return f, agent
}

func TestIndependentAgent(t *testing.T) {
	f, agent := startSDK(t)
	o, err := f.open(sessions.OpenParams{Runner: "other", Selection: sessions.Selection{Model: "large", Mode: "plan"}, Options: map[string]any{"fast": true}})
	if err != nil {
		t.Fatal(err)
	}
	if o.NativeID != "sdk-1" || o.Evidence.Model != "large" || o.Evidence.Mode != "plan" || o.Evidence.AgentName != "sdk-agent" || !agent.fast {
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
	if agent.mu.Lock(); !agent.closed {
		t.Error("the conversation was not closed")
	}
	agent.mu.Unlock()
}

func TestIndependentAgentLoads(t *testing.T) {
	f, _ := startSDK(t)
	if o, err := f.open(sessions.OpenParams{NativeID: "sdk-1", HadTurn: true}); err != nil || o.NativeID != "sdk-1" {
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
