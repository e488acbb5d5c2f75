package main

import (
	"encoding/json"
	"os"
	"os/exec"

	"github.com/batonmcp/baton/fixtures/models"
	"github.com/batonmcp/baton/fixtures/responses"
)

// claudeCode is Claude Code 2.1.332. Over stdio it speaks 2026-07-28. `-p` closes every question to its user; with
// stream-json on both sides it puts them to whoever drives it, as control requests of the Agent SDK.
var claudeCode = mcpHost{
	name: "claude-code", variable: "BATON_TEST_CLAUDE_CODE", installer: "claude-code", names: true,
	prepare: func(w *world) {
		mock := models.Start(w.t)
		w.realCodex()
		provider := responses.Start(w.t)
		if err := responses.WriteHome(w.path("codex"), provider.URL); err != nil {
			w.t.Fatal(err)
		}
		w.env = append(w.env, "CLAUDE_CONFIG_DIR="+w.path("home/.claude"), "ANTHROPIC_BASE_URL="+mock.URL, "ANTHROPIC_API_KEY=mock", "DISABLE_TELEMETRY=1",
			"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1", "CODEX_HOME="+w.path("codex"))
		if err := os.MkdirAll(w.path("home/.claude"), 0o700); err != nil {
			w.t.Fatal(err)
		}
	},
	connect: func(w *world, url, secret string) {
		add := exec.Command(os.Getenv("BATON_TEST_CLAUDE_CODE"), "mcp", "add", "--scope", "user", "--transport", "http", "baton", url, "--header", "Authorization: Bearer "+secret)
		add.Env, add.Dir = w.env, w.work
		if out, err := add.CombinedOutput(); err != nil {
			w.t.Fatalf("%v: %s", err, out)
		}
	},
	call: func(tool, arguments string) string { return "[call mcp__baton__" + tool + " " + arguments + "]" },
	once: func(prompt string) []string {
		return []string{"-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "mcp__baton", "--", prompt}
	},
	live: []string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--allowedTools", "mcp__baton"},
	hello: func(r *hostRun) {
		r.write(args{"type": "control_request", "request_id": "hello", "request": args{"subtype": "initialize"}})
	},
	prompt: func(r *hostRun, text string) {
		r.write(args{"type": "user", "message": args{"role": "user", "content": text}})
	},
	interrupt: func(r *hostRun) {
		r.write(args{"type": "control_request", "request_id": "interrupt", "request": args{"subtype": "interrupt"}})
	},
	read: readClaude,
}

func readClaude(r *hostRun, line []byte) (n hostNews) {
	var m struct {
		Type      string
		RequestID string `json:"request_id"`
		Request   struct {
			Subtype, Message string
		}
		Message struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(line, &m); err != nil {
		r.w.t.Errorf("%v in %s", err, line)
	}
	switch m.Type {
	case "result":
		n.ended = true
	case "control_request":
		if m.Request.Subtype != "elicitation" {
			r.w.t.Errorf("it asks for %s", line)
			return n
		}
		r.asked = append(r.asked, m.Request.Message)
		r.write(args{"type": "control_response", "response": args{"subtype": "success", "request_id": m.RequestID, "response": r.answer()}})
	case "user":
		var parts []struct {
			Type    string
			Content string
			IsError bool `json:"is_error"`
		}
		_ = json.Unmarshal(m.Message.Content, &parts) // a text where there is no tool
		for _, p := range parts {
			switch {
			case p.Type != "tool_result":
			case json.Valid([]byte(p.Content)): // the structured content: it shows no text twin
				n.result = json.RawMessage(p.Content)
			default:
				n.failed = p.Content
			}
		}
	}
	return n
}

// answer is what the user of a host decides.
func (r *hostRun) answer() args {
	if r.decide == "" {
		return args{"action": "cancel"}
	}
	return args{"action": "accept", "content": args{"decision": r.decide}}
}
