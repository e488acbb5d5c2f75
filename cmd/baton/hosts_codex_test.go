package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"

	"github.com/batonmcp/baton/fixtures/responses"
)

// codexAsHost is Codex 0.171.0. Over stdio it speaks 2025-06-18. `codex exec` closes every question to its user, `codex
// app-server` puts them to its client.
var codexAsHost = mcpHost{
	name: "codex", variable: "BATON_TEST_CODEX", installer: "codex-acp",
	prepare: func(w *world) {
		mock := responses.Start(w.t)
		w.realCodex()
		w.env = append(w.env, "CODEX_HOME="+w.path("codex"), "CODEX_API_KEY=mock")
		if err := responses.WriteHome(w.path("codex"), mock.URL); err != nil {
			w.t.Fatal(err)
		}
	},
	settle: func(w *world) {
		w.write("codex/config.toml", awaited(string(w.read(w.path("codex/config.toml"))), "baton"))
	},
	connect: func(w *world, url, secret string) {
		add := exec.Command(os.Getenv("BATON_TEST_CODEX"), "mcp", "add", "baton", "--url", url, "--bearer-token-env-var", "BATON_TOKEN")
		w.env = append(w.env, "BATON_TOKEN="+secret)
		add.Env, add.Dir = w.env, w.work
		if out, err := add.CombinedOutput(); err != nil {
			w.t.Fatalf("%v: %s", err, out)
		}
	},
	allow: func(w *world, tool string) {
		w.write("codex/config.toml", string(w.read(w.path("codex/config.toml")))+"\n[mcp_servers.baton.tools."+tool+"]\napproval_mode = \"approve\"\n")
	},
	call: func(tool, arguments string) string { return "[mcp baton " + tool + " " + arguments + "]" },
	once: func(prompt string) []string {
		return []string{"exec", "--json", "--skip-git-repo-check", prompt}
	},
	live: []string{"app-server"},
	hello: func(r *hostRun) {
		r.codexCall("initialize", args{"clientInfo": args{"name": "test", "version": "1"}})
		r.write(args{"method": "initialized"})
		var started struct{ Thread struct{ ID string } }
		if err := json.Unmarshal(r.codexCall("thread/start", args{"cwd": r.w.work}), &started); err != nil {
			r.w.t.Fatal(err)
		}
		r.thread = started.Thread.ID
	},
	prompt: func(r *hostRun, text string) {
		r.codexCall("turn/start", args{"threadId": r.thread, "input": []args{{"type": "text", "text": text}}})
	},
	interrupt: func(r *hostRun) {
		r.n++
		r.write(args{"id": r.n, "method": "turn/interrupt", "params": args{"threadId": r.thread, "turnId": r.turnID}})
	},
	read: readCodex,
}

// awaited has Codex wait for an MCP server of its configuration: it begins a thread meanwhile, and what a model calls before
// the server is there is no tool.
func awaited(config, server string) string {
	table := "[mcp_servers." + server + "]\n"
	return strings.Replace(config, table, table+"required = true\nstartup_timeout_sec = 60\n", 1)
}

// codexCall makes a request and returns its result.
func (r *hostRun) codexCall(method string, params args) json.RawMessage {
	r.w.t.Helper()
	r.n++
	id := r.n
	r.write(args{"id": id, "method": method, "params": params})
	for {
		line, err := r.out.ReadBytes('\n')
		if err != nil {
			r.w.t.Fatalf("codex: %v\n%s", err, r.errs.Bytes())
		}
		var m struct {
			ID            int
			Method        string
			Result, Error json.RawMessage
		}
		if json.Unmarshal(line, &m) == nil && m.ID == id && m.Method == "" {
			if m.Error != nil {
				r.w.t.Fatalf("codex: %s: %s", method, m.Error)
			}
			return m.Result
		}
		r.take(line)
	}
}

// codexItem is a tool call as app-server and exec show it.
type codexItem struct {
	Type, Status string
	Error        *struct{ Message string }
	Result       *struct {
		App  json.RawMessage `json:"structuredContent"`
		Exec json.RawMessage `json:"structured_content"`
	}
}

func (i codexItem) news() (n hostNews) {
	switch {
	case i.Type != "mcpToolCall" && i.Type != "mcp_tool_call":
	case i.Error != nil:
		n.failed = i.Error.Message
	case i.Result != nil && i.Result.App != nil:
		n.result = i.Result.App
	case i.Result != nil:
		n.result = i.Result.Exec
	}
	return n
}

func readCodex(r *hostRun, line []byte) (n hostNews) {
	var m struct {
		ID           json.RawMessage
		Method, Type string
		Item         codexItem // of exec
		Params       struct {
			Item    codexItem
			Message string
			Turn    struct{ ID string }
		}
	}
	if err := json.Unmarshal(line, &m); err != nil {
		r.w.t.Errorf("%v in %s", err, line)
	}
	switch m.Method + m.Type {
	case "turn/started":
		r.turnID = m.Params.Turn.ID
	case "turn/completed":
		n.ended = true
	case "item/completed":
		n = m.Params.Item.news()
	case "item.completed":
		n = m.Item.news()
	case "mcpServer/elicitation/request":
		r.asked = append(r.asked, m.Params.Message)
		r.write(args{"id": m.ID, "result": r.answer()})
	default:
		if m.ID != nil && m.Method != "" {
			r.w.t.Errorf("it asks for %s", line)
		}
	}
	return n
}
