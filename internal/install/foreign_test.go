package install

import (
	"path/filepath"
	"testing"
)

// TestUninstallLeavesWhatIsNotBaton: an entry of the same name that starts something else is named and stays, also in a
// file that looks as if Install had made it.
func TestUninstallLeavesWhatIsNotBaton(t *testing.T) {
	for name, tt := range map[string]struct{ host, text, says string }{
		"another program":       {"cursor", `{"mcpServers": {"baton": {"command": "/usr/bin/conductor", "args": ["serve"]}}}`, "starts /usr/bin/conductor serve"},
		"as Install writes it":  {"cursor", "{\n  \"mcpServers\": {\n    \"baton\": {\n      \"command\": \"/usr/bin/conductor\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n", "starts /usr/bin/conductor mcp"},
		"another way to say it": {"claude-code", `{"mcpServers": {"baton": {"command": "npx", "args": ["baton", "mcp"]}}}`, "starts npx baton mcp"},
		"not as an MCP server":  {"zed", `{"context_servers": {"baton": {"command": "/opt/baton/bin/baton", "args": ["doctor"]}}}`, "starts /opt/baton/bin/baton doctor"},
		"elsewhere":             {"vscode", `{"servers": {"baton": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}}`, "is a server elsewhere (url)"},
		"no table":              {"cursor", `{"mcpServers": {"baton": true}}`, "names no command"},
		"opencode":              {"opencode", `{"mcp": {"baton": {"type": "local", "command": ["conductor"]}}}`, "starts conductor"},
		"toml":                  {"codex", "[mcp_servers.baton]\ncommand = \"conductor\"\n", "starts conductor"},
	} {
		t.Run(name, func(t *testing.T) {
			h, file := host(t, tt.host), write(t, tt.text)
			c := uninstall(t, h, file)
			if c.Changed() || c.Foreign != tt.says {
				t.Errorf("%q, %q", c.Foreign, c.After)
			}
			has(t, file, tt.text)
			only(t, filepath.Dir(file), "config")
		})
	}
	h, file := host(t, "cursor"), write(t, `{"mcpServers": {"baton": {"command": "/opt/conductor", "args": ["mcp"]}}}`)
	if c, err := h.Uninstall(file, "baton", "", "/opt/../opt/conductor"); err != nil || !c.Changed() || c.Foreign != "" {
		t.Errorf("a program that is named: %v, %+v", err, c)
	}
}
