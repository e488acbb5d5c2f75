package acp

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// profile is where one agent differs from the rest. What an agent reports goes before what is written here.
type profile struct {
	agent string // in its own report (agentInfo.name); "": it makes none
	login string // what a user runs to log in
	// modes are its names for default and plan, where modeNames would find others or none.
	modes map[string]string
	// modeOption is the option that has the modes; "": the one of that name.
	modeOption string
	// presets are modes that stand for an approval policy, a sandbox, or both.
	presets []preset
	// hint is what to do about a selection that it did not confirm, by the setting.
	hint map[string]string
	// helper is a process that it may start in a turn and keeps: the program, and a word of its command line.
	helper [2]string
}

// preset is one mode of an agent that is an approval policy, and perhaps a sandbox.
type preset struct {
	sandbox string // "": none of its own
	policy  string
	mode    string
}

// profiles by the name of the runner. The versions are those in which all this was seen.
var profiles = map[string]profile{
	"cursor": {login: "cursor-agent login", modes: map[string]string{"default": "agent"}},
	"opencode": {agent: "OpenCode", login: "opencode auth login", // 1.18.33
		modes: map[string]string{"default": "build"}},
	"gemini": {agent: "gemini-cli", login: "gemini", // 0.61.0
		presets: []preset{{"", sessions.ApprovalNever, "yolo"}},
		hint: map[string]string{
			"mode":            "ask for it when the session is created, with runner_options trust = true: Gemini stays in its default mode in a folder that it does not trust",
			"approval_policy": "give runner_options trust = true: Gemini stays in its default mode in a folder that it does not trust"}},
	"qwen": {agent: "qwen-code", login: "qwen", // 0.24.4
		presets: []preset{{"", sessions.ApprovalNever, "yolo"}}},
	"claude": {agent: "@agentclientprotocol/claude-agent-acp", login: "claude auth login", // 0.101.0
		presets: []preset{{"", sessions.ApprovalNever, "bypassPermissions"}},
		helper:  [2]string{"claude", "stream-json"}},
	"codex-acp": {agent: "@agentclientprotocol/codex-acp", login: "codex login", // 2.6.0
		modeOption: "collaboration_mode",
		presets: []preset{
			{sessions.SandboxReadOnly, sessions.ApprovalOnRequest, "read-only"},
			{sessions.SandboxWorkspaceWrite, sessions.ApprovalOnRequest, "workspace-write"},
			{sessions.SandboxFullAccess, sessions.ApprovalNever, "agent-full-access"}},
		helper: [2]string{"codex", "app-server"}},
}

// profileOf takes the profile of the runner, else of the agent that the runner turned out to be.
func profileOf(runner, agent string) profile {
	if p, ok := profiles[runner]; ok {
		return p
	}
	for _, p := range profiles {
		if agent != "" && p.agent == agent {
			return p
		}
	}
	return profile{}
}

// standing tells whether a command line is a helper that an agent keeps from turn to turn.
func standing(argv []string) bool {
	if len(argv) < 2 {
		return false
	}
	program := strings.TrimSuffix(filepath.Base(argv[0]), ".exe")
	for _, p := range profiles {
		if p.helper[0] != "" && p.helper[0] == program &&
			slices.ContainsFunc(argv[1:], func(arg string) bool { return strings.Contains(arg, p.helper[1]) }) {
			return true
		}
	}
	return false
}

// sandboxed tells whether the agent has sandboxes of its own.
func (p profile) sandboxed() bool {
	return slices.ContainsFunc(p.presets, func(x preset) bool { return x.sandbox != "" })
}

// preset is the mode that a selection's policy and sandbox need, "" where they need none. An agent that has sandboxes of
// its own is set to the one that was asked for even where the bridge enforces it too: the agent's default may be another
// approval policy (codex-acp 2.6.0 takes that of the user's configuration).
func (p profile) preset(s sessions.Selection) (preset, error) {
	policy := s.ApprovalPolicy
	if policy == "" {
		policy = sessions.ApprovalOnRequest
	}
	own := p.sandboxed() && s.Sandbox != ""
	if !own && policy == sessions.ApprovalOnRequest {
		return preset{}, nil // all that the protocol has
	}
	var have []string
	for _, x := range p.presets {
		if x.policy == policy && (x.sandbox == "" || x.sandbox == s.Sandbox) {
			return x, nil
		}
		have = append(have, strings.TrimPrefix(x.sandbox+" with "+x.policy, " with "))
	}
	if own {
		return preset{}, sessions.Errorf(sessions.CodeUnsupported, "this agent has no sandbox %s with approval policy %s", s.Sandbox, policy).
			Do("choose one of: %s", list(have)).With("offered", have)
	}
	e := sessions.Errorf(sessions.CodeUnsupported, "this agent has no approval policy %q", policy)
	if len(have) > 0 {
		return preset{}, e.Do("leave approval_policy out, or choose one of: %s", list(have)).With("offered", have)
	}
	return preset{}, e.Do("leave approval_policy out; the agent asks as its own configuration says")
}

// takesRoots refuses writable roots beside a sandbox of the agent's own that would not let it write there, whatever is
// enforced around it.
func (p profile) takesRoots(o sessions.OpenParams) error {
	if !p.sandboxed() || o.Selection.Sandbox != sessions.SandboxReadOnly || len(o.WritableRoots) == 0 {
		return nil
	}
	return sessions.Errorf(sessions.CodeUnsupported, "this agent's own sandbox %s has no writable_roots", sessions.SandboxReadOnly).
		Do("ask for sandbox %s, leave writable_roots out, or use runner codex, which has them", sessions.SandboxWorkspaceWrite)
}

// mode is the agent's name for a mode.
func (p profile) mode(name string, offered []string) (string, bool) {
	if own := p.modes[name]; slices.Contains(offered, own) {
		return own, true
	}
	return pickMode(name, offered)
}
