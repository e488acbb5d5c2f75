package acp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// reported is how an agent describes itself and its conversation; options are id: current of values.
type reported struct {
	name    string
	modes   []string // of the protocol, the first one current; nil: none
	models  []string // without an option, the first one current
	options []string // "id current value value..."
}

// agents are what the real ones said to initialize and session/new, cut down to what selections need.
var agents = map[string]reported{
	"opencode": {name: "OpenCode", options: []string{"model mock/a mock/a mock/b", "mode build build plan"}},                             // 1.18.33
	"gemini":   {name: "gemini-cli", modes: []string{"default", "autoEdit", "yolo", "plan"}, models: []string{"auto", "gemini-2.5-pro"}}, // 0.61.0
	"qwen":     {name: "qwen-code", options: []string{"mode auto plan default auto-edit auto yolo", "model m m"}},                        // 0.24.4
	"claude": {name: "@agentclientprotocol/claude-agent-acp", options: []string{"mode auto default acceptEdits plan auto bypassPermissions", // 0.101.0
		"model default default opus", "effort default default low high"}},
	"codex-acp": {name: "@agentclientprotocol/codex-acp", options: []string{"mode agent read-only workspace-write agent agent-full-access", // 2.6.0
		"collaboration_mode default default plan", "model mock-a mock-a gpt-6"}},
}

// as has the peer be such an agent.
func (p *peer) as(r reported) {
	p.on("initialize", fmt.Sprintf(`"result":{"protocolVersion":1,"agentInfo":{"name":%q,"version":"1"}}`, r.name))
	current := map[string]string{}
	set := func() string {
		var all []map[string]any
		for _, o := range r.options {
			words := strings.Fields(o)
			var choices []map[string]string
			for _, v := range words[2:] {
				choices = append(choices, map[string]string{"value": v, "name": v})
			}
			now := words[1]
			if v, ok := current[words[0]]; ok {
				now = v
			}
			all = append(all, map[string]any{"id": words[0], "category": words[0], "type": "select", "currentValue": now, "options": choices})
		}
		raw, err := json.Marshal(all)
		if err != nil {
			panic(err)
		}
		return string(raw)
	}
	result := map[string]any{"sessionId": "s1"}
	if r.modes != nil {
		var list []map[string]string
		for _, m := range r.modes {
			list = append(list, map[string]string{"id": m, "name": m})
		}
		result["modes"] = map[string]any{"currentModeId": r.modes[0], "availableModes": list}
	}
	if r.models != nil {
		var list []map[string]string
		for _, m := range r.models {
			list = append(list, map[string]string{"modelId": m, "name": m})
		}
		result["models"] = map[string]any{"currentModelId": r.models[0], "availableModels": list}
	}
	if r.options != nil {
		result["configOptions"] = json.RawMessage(set())
	}
	raw, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	p.on("session/new", `"result":`+string(raw))
	p.on("session/set_mode", `"result":{}`)
	p.answer("session/set_config_option", func(m message) string {
		current[m.param(p.t, "configId").(string)] = m.param(p.t, "value").(string)
		return `"result":{"configOptions":` + set() + `}`
	})
}

// Modes, policies and sandboxes by the names that each agent has for them.
func TestProfiles(t *testing.T) {
	const full, ws, ro = sessions.SandboxFullAccess, sessions.SandboxWorkspaceWrite, sessions.SandboxReadOnly
	for _, c := range []struct {
		agent   string
		ask     sessions.Selection
		bridge  string   // the sandbox around the agent
		started []string // what the agent says it was started with: its mode, its model
		sent    []string // option=value
		code    sessions.Code
		says    string
	}{
		{agent: "opencode", ask: sessions.Selection{Mode: "default", Model: "mock/b"}, sent: []string{"model=mock/b", "mode=build"}},
		{agent: "opencode", ask: sessions.Selection{Mode: "plan"}, sent: []string{"mode=plan"}},
		{agent: "opencode", ask: sessions.Selection{ApprovalPolicy: "never"}, code: sessions.CodeUnsupported},
		{agent: "opencode", ask: sessions.Selection{Sandbox: ws}, code: sessions.CodeSandboxUnavailable},
		{agent: "opencode", ask: sessions.Selection{Sandbox: ws}, bridge: ws},
		{agent: "qwen", ask: sessions.Selection{Mode: "default"}, sent: []string{"mode=default"}},
		{agent: "qwen", ask: sessions.Selection{ApprovalPolicy: "never", Mode: "default"}, sent: []string{"mode=yolo"}},
		{agent: "qwen", ask: sessions.Selection{ApprovalPolicy: "never", Mode: "plan"}, code: sessions.CodeUnsupported, says: "one setting"},
		{agent: "qwen", ask: sessions.Selection{ApprovalPolicy: "untrusted"}, code: sessions.CodeUnsupported, says: "never"},
		{agent: "claude", ask: sessions.Selection{ApprovalPolicy: "never", Sandbox: full}, sent: []string{"mode=bypassPermissions"}},
		{agent: "claude", ask: sessions.Selection{Mode: "plan", Model: "opus", Effort: "high"}, sent: []string{"model=opus", "mode=plan", "effort=high"}},
		{agent: "gemini", ask: sessions.Selection{Mode: "default", Model: "auto"}},
		{agent: "gemini", ask: sessions.Selection{Mode: "plan"}, started: []string{"plan", "auto"}},
		{agent: "gemini", ask: sessions.Selection{Mode: "plan"}, code: sessions.CodeSelectionUnconfirmed, says: "trust"},
		{agent: "gemini", ask: sessions.Selection{ApprovalPolicy: "never"}, started: []string{"yolo", "auto"}},
		{agent: "gemini", ask: sessions.Selection{ApprovalPolicy: "never"}, code: sessions.CodeSelectionUnconfirmed, says: "trust"},
		{agent: "gemini", ask: sessions.Selection{Model: "gemini-2.5-pro"}, started: []string{"default", "gemini-2.5-pro"}},
		{agent: "gemini", ask: sessions.Selection{Model: "gemini-2.5-pro"}, code: sessions.CodeUnsupported},
		{agent: "gemini", ask: sessions.Selection{Model: "nonsense"}, started: []string{"default", "nonsense"}, code: sessions.CodeModelUnavailable, says: "gemini-2.5-pro"},
		{agent: "codex-acp", ask: sessions.Selection{Sandbox: ro, Mode: "plan"}, sent: []string{"mode=read-only", "collaboration_mode=plan"}},
		{agent: "codex-acp", ask: sessions.Selection{Sandbox: ws, ApprovalPolicy: "on-request"}, sent: []string{"mode=workspace-write"}},
		{agent: "codex-acp", ask: sessions.Selection{Sandbox: full, ApprovalPolicy: "never", Mode: "default"}, sent: []string{"mode=agent-full-access", "collaboration_mode=default"}},
		{agent: "codex-acp", ask: sessions.Selection{Sandbox: full}, code: sessions.CodeUnsupported, says: "workspace-write with on-request"},
		{agent: "codex-acp", ask: sessions.Selection{Sandbox: ws, ApprovalPolicy: "never"}, code: sessions.CodeUnsupported},
		{agent: "codex-acp", ask: sessions.Selection{Sandbox: ws}, bridge: ws, sent: []string{"mode=workspace-write"}},
	} {
		t.Run(fmt.Sprintf("%s %+v", c.agent, c.ask), func(t *testing.T) {
			f := newFixture(t, Options{ConfirmTimeout: time.Millisecond})
			r := agents[c.agent]
			if c.started != nil {
				r.modes = slices.Clone(r.modes)
				i := slices.Index(r.modes, c.started[0])
				r.modes[0], r.modes[i] = r.modes[i], r.modes[0]
				if j := slices.Index(r.models, c.started[1]); j >= 0 {
					r.models = slices.Clone(r.models)
					r.models[0], r.models[j] = r.models[j], r.models[0]
				}
			}
			f.peer.as(r)
			if c.started != nil && !slices.Contains(r.models, c.started[1]) {
				f.peer.on("session/new", `"result":{"sessionId":"s1","models":{"currentModelId":"`+c.started[1]+
					`","availableModels":[{"modelId":"auto","name":"a"},{"modelId":"gemini-2.5-pro","name":"b"}]}}`)
			}
			var sent []string
			answer := f.peer.answers["session/set_config_option"]
			f.peer.answer("session/set_config_option", func(m message) string {
				sent = append(sent, fmt.Sprintf("%s=%s", m.param(t, "configId"), m.param(t, "value")))
				return answer(m)
			})
			o, err := f.open(sessions.OpenParams{Runner: c.agent, Selection: c.ask, BridgeSandbox: c.bridge})
			if sessions.CodeOf(err) != c.code || c.says != "" && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want %q %q", err, c.code, c.says)
			}
			if err == nil && !slices.Equal(sent, c.sent) {
				t.Errorf("sent %q, want %q", sent, c.sent)
			}
			if d := c.ask.Unconfirmed(o.Evidence); err == nil && len(d) > 0 {
				t.Errorf("open, and not confirmed: %+v", d)
			}
			by := map[bool]string{true: "agent", false: "none"}[c.agent == "codex-acp"]
			if c.bridge != "" {
				by = "bridge"
			}
			if err == nil && c.ask.Sandbox != "" && o.Evidence.SandboxBy != by {
				t.Errorf("the sandbox is seen to by %q, want %q", o.Evidence.SandboxBy, by)
			}
		})
	}
}

// An agent that leaves the mode that stands for its sandbox or policy is stopped, whatever it was allowed.
func TestPresetLeft(t *testing.T) {
	f := newFixture(t, Options{Start: startProcess})
	f.peer.as(agents["codex-acp"])
	var terminal any
	answer := f.peer.answers["initialize"]
	f.peer.answer("initialize", func(m message) string {
		terminal = m.param(t, "clientCapabilities").(map[string]any)["terminal"]
		return answer(m)
	})
	if _, err := f.open(sessions.OpenParams{Runner: "codex-acp", Selection: sessions.Selection{Sandbox: sessions.SandboxReadOnly, Mode: "plan"}}); err != nil {
		t.Fatal(err)
	}
	if terminal != nil {
		t.Error("terminals were offered outside of the agent's own sandbox")
	}
	m := f.prompt("c1")
	f.peer.update(`"sessionUpdate":"current_mode_update","currentModeId":"agent-full-access"`)
	f.peer.next("session/cancel")
	f.peer.result(m, `{"stopReason":"cancelled"}`)
	if s := f.settled(); s.State != sessions.CommandInterrupted || !strings.Contains(s.Reason, "approval policy on-request") {
		t.Errorf("%+v", s)
	}
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "x"}); sessions.CodeOf(err) != sessions.CodeSelectionUnconfirmed {
		t.Errorf("went on: %v", err)
	}
	if e := f.rec.all(sessions.EventSelectionChanged)[0]; e.Selection.Evidence.Sandbox == sessions.SandboxReadOnly {
		t.Errorf("evidence %+v", e.Selection.Evidence)
	}
}

// A runner of another name is known by what the agent says it is; one that is neither keeps to the protocol.
func TestProfileByReport(t *testing.T) {
	if p := profileOf("mine", "OpenCode"); p.login != "opencode auth login" {
		t.Errorf("%+v", p)
	}
	if p := profileOf("mine", ""); p.login != "" || p.agent != "" {
		t.Errorf("%+v", p)
	}
	if p := profileOf("gemini", "OpenCode"); p.agent != "gemini-cli" {
		t.Errorf("%+v", p)
	}
}

func TestStanding(t *testing.T) {
	for line, want := range map[string]bool{
		"/x/codex app-server": true, "/x/codex.exe app-server": true, "codex exec": false, "claude --output-format stream-json": true,
		"/x/claude --output-format=stream-json --verbose": true, "claude --help": false, "claude": false, "sh -c codex app-server": false,
		"/bin/sleep 600": false, "": false,
	} {
		if got := standing(strings.Fields(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// The login of an agent that has methods without a browser says so.
func TestLoginNamesTheMethods(t *testing.T) {
	f := newFixture(t, Options{})
	f.peer.as(agents["gemini"])
	f.peer.on("initialize", `"result":{"protocolVersion":1,"agentInfo":{"name":"gemini-cli"},"authMethods":[{"id":"oauth-personal"},{"id":"gemini-api-key"},{"id":"t","type":"terminal"}]}`)
	f.peer.on("session/new", `"error":{"code":-32000,"message":"Authentication required"}`)
	_, err := f.open(sessions.OpenParams{Runner: "gemini"})
	if sessions.CodeOf(err) != sessions.CodeNotLoggedIn || !strings.Contains(err.Error(), "`gemini`") || !strings.Contains(err.Error(), "oauth-personal, gemini-api-key,") {
		t.Errorf("%v", err)
	}
	f = newFixture(t, Options{})
	f.peer.as(agents["gemini"])
	f.peer.on("initialize", `"result":{"protocolVersion":1,"authMethods":[{"id":"gemini-api-key"}]}`)
	var used any
	f.peer.answer("authenticate", func(m message) string {
		used = m.param(t, "methodId")
		return `"result":null`
	})
	if _, err := f.open(sessions.OpenParams{Runner: "gemini", Options: map[string]any{"auth_method": "gemini-api-key"}}); err != nil || used != "gemini-api-key" {
		t.Errorf("authenticated with %v: %v", used, err)
	}
}
