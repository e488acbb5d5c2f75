package acp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

func TestOpenConfirmsEverything(t *testing.T) {
	f := newFixture(t, Options{})
	f.peer.likeCursor()
	o, err := f.open(sessions.OpenParams{
		Selection: sessions.Selection{Model: "gpt-5.5-high-fast", Mode: "plan", Sandbox: "workspace-write", ApprovalPolicy: "on-request"},
		Options:   map[string]any{"context": "1m"}, BridgeSandbox: "workspace-write",
	})
	if err != nil {
		t.Fatal(err)
	}
	e := o.Evidence
	if e.Model != "gpt-5.5-high-fast" || e.Effort != "high" || e.Mode != "plan" || e.Sandbox != "workspace-write" ||
		e.SandboxBy != "bridge" || e.ApprovalPolicy != "on-request" || o.NativeID != "s1" || !o.Capability.Resume || !o.Capability.Images {
		t.Errorf("opened %+v", o)
	}
	f.peer.config.mu.Lock()
	defer f.peer.config.mu.Unlock()
	c := f.peer.config
	if c.model != "gpt-5.5" || c.mode != "plan" || c.values["reasoning"] != "high" || c.values["fast"] != "true" || c.values["context"] != "1m" {
		t.Errorf("the agent stands at %s %s %v", c.model, c.mode, c.values)
	}
	if n := f.peer.sent("session/set_model"); n != 0 {
		t.Errorf("session/set_model was sent")
	}
}

func TestOpenModeDefaultIsTheAgentsOwn(t *testing.T) {
	f := newFixture(t, Options{})
	f.peer.likeCursor()
	o, err := f.open(sessions.OpenParams{Selection: sessions.Selection{Mode: "default", Sandbox: "danger-full-access"}})
	if err != nil || o.Evidence.Mode != "default" || o.Evidence.SandboxBy != "none" || o.Evidence.Sandbox != "danger-full-access" {
		t.Errorf("%+v, %v", o.Evidence, err)
	}
}

func TestInitializeSaysWhatWeAre(t *testing.T) {
	f := newFixture(t, Options{})
	f.peer.likeCursor()
	var params string
	f.peer.answer("initialize", func(m message) string {
		params = string(m.Params)
		return cursorInitialized
	})
	if _, err := f.open(sessions.OpenParams{}); err != nil {
		t.Fatal(err)
	}
	var p struct {
		ClientCapabilities struct {
			FS       *json.RawMessage
			Terminal *json.RawMessage
			Session  struct{ ConfigOptions struct{ Boolean *struct{} } }
			Meta     struct{ ParameterizedModelPicker bool } `json:"_meta"`
		}
		ProtocolVersion int
	}
	if err := json.Unmarshal([]byte(params), &p); err != nil {
		t.Fatal(err)
	}
	c := p.ClientCapabilities
	if p.ProtocolVersion != 1 || c.FS != nil || c.Terminal != nil || c.Session.ConfigOptions.Boolean == nil || !c.Meta.ParameterizedModelPicker {
		t.Errorf("initialize was sent with %s", params)
	}
}

// A call that is given up is taken back.
func TestCallTakenBack(t *testing.T) {
	f := newFixture(t, Options{AuthTimeout: time.Millisecond})
	f.peer.likeCursor()
	var id string
	f.peer.answer("authenticate", func(m message) string {
		id = string(m.ID)
		return ""
	})
	if _, err := f.open(sessions.OpenParams{}); sessions.CodeOf(err) != sessions.CodeNotLoggedIn {
		t.Fatal(err)
	}
	if m := f.peer.next("$/cancel_request"); string(m.Params) != `{"requestId":`+id+`}` {
		t.Errorf("taken back: %s, the call was %s", m.Params, id)
	}
}

func TestOpenRefuses(t *testing.T) {
	const sessionNew = `"result":{"sessionId":"s1"}`
	for name, c := range map[string]struct {
		options Options
		open    sessions.OpenParams
		set     func(*peer)
		code    sessions.Code
		says    string
		never   string // what must not have been sent
	}{
		"relative cwd":    {open: sessions.OpenParams{Cwd: "x"}, code: sessions.CodeInvalidParams, never: "initialize"},
		"approval policy": {open: sessions.OpenParams{Selection: sessions.Selection{ApprovalPolicy: "never"}}, code: sessions.CodeUnsupported, never: "initialize"},
		"sandbox without enforcement": {open: sessions.OpenParams{Selection: sessions.Selection{Sandbox: "read-only"}},
			code: sessions.CodeSandboxUnavailable, never: "initialize"},
		"another sandbox": {open: sessions.OpenParams{Selection: sessions.Selection{Sandbox: "read-only"}, BridgeSandbox: "workspace-write"},
			code: sessions.CodeSandboxUnavailable, never: "initialize"},
		"roots beside the agent's own sandbox": {open: sessions.OpenParams{Runner: "codex-acp", BridgeSandbox: "read-only", WritableRoots: []string{"/r"},
			Selection: sessions.Selection{Sandbox: "read-only"}}, code: sessions.CodeUnsupported, says: "writable_roots", never: "initialize"},
		"full access inside a sandbox": {open: sessions.OpenParams{Selection: sessions.Selection{Sandbox: "danger-full-access"}, BridgeSandbox: "workspace-write"},
			code: sessions.CodeSelectionUnconfirmed, says: "workspace-write", never: "session/prompt"},
		"mcp servers": {open: sessions.OpenParams{MCPServers: []sessions.MCPServer{{Name: "x"}}}, code: sessions.CodeUnsupported, never: "initialize"},
		"version 2": {set: func(p *peer) { p.on("initialize", `"result":{"protocolVersion":2,"info":{}}`) },
			code: sessions.CodeUnsupported, says: "version 2", never: "session/new"},
		"no version": {set: func(p *peer) { p.on("initialize", `"result":{}`) }, code: sessions.CodeUnsupported, never: "session/new"},
		"signed out, never answered": {options: Options{AuthTimeout: time.Millisecond}, set: func(p *peer) { p.on("authenticate", "") },
			code: sessions.CodeNotLoggedIn, says: "cursor-agent login", never: "session/new"},
		"signed out, browser": {set: func(p *peer) {
			p.on("authenticate", `"error":{"code":-32602,"message":"Invalid params","data":{"message":"Failed to open browser for login. Please visit: https://x"}}`)
		}, code: sessions.CodeNotLoggedIn, says: "cursor-agent login", never: "session/new"},
		"signed out at session/new": {options: Options{APIKey: true}, set: func(p *peer) {
			p.on("session/new", `"error":{"code":-32000,"message":"Authentication required"}`)
		}, code: sessions.CodeNotLoggedIn, never: "authenticate"},
		"configured method is a program": {options: Options{AuthMethod: "t"}, set: func(p *peer) {
			p.on("initialize", `"result":{"protocolVersion":1,"authMethods":[{"id":"t","type":"terminal"},{"id":"key"}]}`)
		}, code: sessions.CodeUnsupported, says: "key", never: "authenticate"},
		"services fail twice": {set: func(p *peer) {
			p.on("session/new", `"error":{"code":-32603,"message":"Internal error","data":{"message":"Failed to initialize session services"}}`)
		}, code: sessions.CodeAgentProtocol, says: "session services"},
		"session without id": {set: func(p *peer) { p.on("session/new", `"result":{}`) }, code: sessions.CodeAgentProtocol},
		"model option is missing": {open: sessions.OpenParams{Selection: sessions.Selection{Model: "m"}}, set: func(p *peer) { p.on("session/new", sessionNew) },
			code: sessions.CodeUnsupported, never: "session/set_model"},
		"mode is missing": {open: sessions.OpenParams{Selection: sessions.Selection{Mode: "plan"}}, set: func(p *peer) { p.on("session/new", sessionNew) },
			code: sessions.CodeUnsupported},
		"effort is not offered": {open: sessions.OpenParams{Selection: sessions.Selection{Model: "gpt-5.5", Effort: "max"}},
			code: sessions.CodeModelUnavailable, says: "xhigh"},
		"model has no effort": {open: sessions.OpenParams{Selection: sessions.Selection{Model: "composer-2.5", Effort: "high"}}, code: sessions.CodeUnsupported},
		"two efforts": {open: sessions.OpenParams{Selection: sessions.Selection{Model: "gpt-5.5-high", Effort: "low"}},
			code: sessions.CodeInvalidParams, never: "session/set_config_option"},
		"native option is missing": {open: sessions.OpenParams{Options: map[string]any{"warp": "9"}}, code: sessions.CodeUnsupported, says: "fast"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.options)
			f.peer.likeCursor()
			if c.set != nil {
				c.set(f.peer)
			}
			_, err := f.open(c.open)
			var e *sessions.Error
			if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Error(), c.says) {
				t.Fatalf("%v, want %s saying %q", err, c.code, c.says)
			}
			if c.never != "" && f.peer.sent(c.never) > 0 {
				t.Errorf("%s was sent", c.never)
			}
			err = f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c", Text: "x"})
			if !errors.Is(err, sessions.ErrNotWritten) || f.peer.sent("session/prompt") > 0 {
				t.Errorf("a prompt after that: %v", err)
			}
		})
	}
}

func TestSessionNewIsRetriedOnce(t *testing.T) {
	f := newFixture(t, Options{})
	f.peer.likeCursor()
	n := 0
	f.peer.answer("session/new", func(message) string {
		if n++; n == 1 {
			return `"error":{"code":-32603,"message":"Internal error","data":{"message":"Failed to initialize session services"}}`
		}
		return `"result":{"sessionId":"s1"}`
	})
	if o, err := f.open(sessions.OpenParams{}); err != nil || o.NativeID != "s1" || n != 2 {
		t.Errorf("%+v, %v after %d", o, err, n)
	}
}

// An agent that is not Cursor and has its modes and its model outside of the options.
func TestOpenPlainAgent(t *testing.T) {
	f := newFixture(t, Options{})
	f.peer.on("initialize", `"result":{"protocolVersion":1,"agentInfo":{"name":"gemini","version":"0.61.0"},"authMethods":[{"id":"oauth"}]}`)
	f.peer.on("session/new", `"result":{"sessionId":"s1","modes":{"currentModeId":"default","availableModes":[{"id":"default"},{"id":"plan"}]},"models":{"currentModelId":"g-pro"}}`)
	f.peer.answer("session/set_mode", func(message) string {
		f.peer.update(`"sessionUpdate":"current_mode_update","currentModeId":"plan"`)
		return `"result":null`
	})
	o, err := f.open(sessions.OpenParams{Selection: sessions.Selection{Mode: "plan", Model: "g-pro"}})
	if err != nil || o.Evidence.Mode != "plan" || o.Evidence.Model != "g-pro" || o.Evidence.AgentVersion != "0.61.0" || o.Capability.Resume {
		t.Errorf("%+v, %v", o, err)
	}
	if f.peer.sent("authenticate") > 0 {
		t.Error("authenticate was called though nobody chose a method")
	}
}

func TestSetModeThatNothingConfirms(t *testing.T) {
	f := newFixture(t, Options{ConfirmTimeout: time.Millisecond})
	f.peer.on("initialize", `"result":{"protocolVersion":1}`)
	f.peer.on("session/new", `"result":{"sessionId":"s1","modes":{"currentModeId":"default","availableModes":[{"id":"default"},{"id":"plan"}]}}`)
	f.peer.on("session/set_mode", `"result":{}`)
	_, err := f.open(sessions.OpenParams{Selection: sessions.Selection{Mode: "plan"}})
	if sessions.CodeOf(err) != sessions.CodeSelectionUnconfirmed {
		t.Errorf("%v", err)
	}
}

func TestAgentThatEndsWhileOpening(t *testing.T) {
	f := newFixture(t, Options{})
	f.peer.answer("initialize", func(message) string {
		f.peer.out.Close()
		return ""
	})
	_, err := f.open(sessions.OpenParams{})
	if sessions.CodeOf(err) != sessions.CodeAgentExited {
		t.Errorf("%v", err)
	}
	<-f.Done()
}

func TestCloseWhileOpening(t *testing.T) {
	f := newFixture(t, Options{})
	f.peer.likeCursor()
	asked := make(chan struct{})
	f.peer.answer("session/new", func(message) string { close(asked); return "" })
	closed := make(chan error, 1)
	go func() {
		<-asked
		closed <- f.Agent.Close(f.ctx)
	}()
	if _, err := f.open(sessions.OpenParams{}); sessions.CodeOf(err) != sessions.CodeNotRunning {
		t.Errorf("Open: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestCloseEndsTheConversationAndTheInput(t *testing.T) {
	f := newFixture(t, Options{})
	f.peer.on("initialize", `"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}}`)
	f.peer.on("session/new", `"result":{"sessionId":"s1"}`)
	f.peer.on("session/close", `"result":{}`)
	if _, err := f.open(sessions.OpenParams{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Agent.Close(f.ctx); err != nil {
		t.Fatal(err)
	}
	<-f.peer.done // end of its input
	if f.peer.sent("session/close") != 1 {
		t.Error("session/close was not sent")
	}
	f.peer.out.Close()
	<-f.Done()
}

func TestProbe(t *testing.T) {
	conn, p := link(t)
	p.on("initialize", cursorInitialized)
	p.on("cursor/list_available_models", `"result":{"models":[{"value":"gpt-5.5","name":"GPT-5.5","configOptions":[{"id":"reasoning","type":"select","options":[{"value":"low"},{"value":"high"}]}]},"auto",{"modelId":"m"},7]}`)
	got, err := Probe(testContext(t), conn, Options{})
	if err != nil || len(got.Models) != 3 || got.Models[0].ID != "gpt-5.5" || len(got.Models[0].Efforts) != 2 || got.Login != "unknown" || got.Capability["resume"] != true {
		t.Errorf("%+v, %v", got, err)
	}
	if p.sent("authenticate")+p.sent("session/new") > 0 {
		t.Error("a probe logged in or made a session")
	}
}

func TestProbeFallsBack(t *testing.T) {
	conn, p := link(t)
	p.on("initialize", cursorInitialized)
	p.answer("cursor/list_available_models", func(message) string {
		p.request("1", "cursor/ask_question", `{}`)
		return `"error":{"code":-32601,"message":"Method not found"}`
	})
	got, err := Probe(testContext(t), conn, Options{})
	if err != nil || len(got.Models) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if m := p.reply("1"); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("a request during a probe was answered with %+v", m)
	}
}
