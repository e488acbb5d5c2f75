package appserver

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// handshake is what comes before any thread: who Codex is, what it offers and whether it can be used.
func (a *Agent) handshake(ctx context.Context) (models catalog, v version, err error) {
	var hello initializeResult
	if err = a.ask(ctx, "initialize", a.initialize(), &hello); err != nil {
		return models, v, err
	}
	if v, err = parseVersion(hello.UserAgent); err != nil {
		return models, v, err
	}
	var sent error
	if err := a.do(ctx, func() {
		a.version = v
		if hello.CodexHome != "" {
			a.sel.memories = filepath.Join(hello.CodexHome, "memories")
		}
		sent = a.conn.Notify(ctx, "initialized", nil)
	}); err != nil {
		return models, v, err
	}
	if sent != nil {
		return models, v, a.writeFailed(ctx, sent)
	}
	if models, err = a.listModels(ctx); err != nil {
		return models, v, err
	}
	return models, v, a.do(ctx, func() { a.models = models })
}

func (a *Agent) initialize() initializeParams {
	return initializeParams{ClientInfo: clientInfo{Name: "baton", Title: "Baton", Version: a.o.Version},
		Capabilities: capabilities{ExperimentalAPI: true}}
}

var errNotLoggedIn = sessions.Errorf(sessions.CodeNotLoggedIn, "Codex is not logged in").Do("run `codex login` in a terminal, as the same user and with the same CODEX_HOME")

// codeModeHost is the helper that runs JavaScript tools, one for all threads, started with the first such tool.
const codeModeHost = "codex-code-mode-host"

// learnStanding finds out which programs Codex keeps running for itself: the MCP servers of the user's configuration
// and those of this session. They are restarted by a change of settings, so they may be younger than a turn.
func (a *Agent) learnStanding(ctx context.Context, ours []sessions.MCPServer) error {
	var r struct {
		Config struct {
			Servers map[string]struct {
				Command string   `json:"command"`
				Args    []string `json:"args"`
			} `json:"mcp_servers"`
		} `json:"config"`
	}
	if err := a.ask(ctx, "config/read", map[string]any{"includeLayers": false}, &r); err != nil && refused(err) == nil {
		return err
	}
	var lines [][]string
	for _, s := range r.Config.Servers {
		lines = append(lines, append([]string{s.Command}, s.Args...))
	}
	for _, s := range ours {
		lines = append(lines, append([]string{s.Command}, s.Args...))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.standing = slices.DeleteFunc(lines, func(l []string) bool { return l[0] == "" })
	return nil
}

// Standing tells whether a command line is one of Codex's own helpers.
func (a *Agent) Standing(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	if filepath.Base(argv[0]) == codeModeHost {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.standing, func(line []string) bool {
		// A script appears behind its interpreter.
		return sameCommand(argv, line) || len(argv) > 1 && sameCommand(argv[1:], line)
	})
}

func sameCommand(argv, line []string) bool {
	return filepath.Base(argv[0]) == filepath.Base(line[0]) && slices.Equal(argv[1:], line[1:])
}

// rawEvidence is the part of Codex's answer that says more than Evidence has fields for.
func rawEvidence(r *threadResult) json.RawMessage {
	raw, err := json.Marshal(map[string]any{
		"modelProvider": r.ModelProvider, "approvalPolicy": r.ApprovalPolicy, "approvalsReviewer": r.ApprovalsReviewer,
		"sandbox": r.Sandbox, "activePermissionProfile": r.PermissionProfile, "reasoningEffort": r.Effort,
		"instructionSources": r.InstructionFiles,
	})
	if err != nil {
		return nil
	}
	return raw
}
