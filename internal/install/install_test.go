package install

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/batonmcp/baton/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testCommand = Command{Program: "/opt/baton/bin/baton", Args: []string{"mcp"}}

func host(t *testing.T, name string) Host {
	t.Helper()
	h, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// hairy are configurations as people have them: what stands before Baton's entry and after it, and the entry itself.
// The parts around the entry must come out byte for byte.
var hairy = map[string]struct {
	host  string
	text  string
	after string // "" where the text must have the same parts, with the entry inserted
}{
	"comments": {"vscode", "// mine\n{\n\t// servers\n\t\"servers\": {\n\t\t\"other\": {\"command\": \"x\"} // keep\n\t}, /* end */\n\t\"inputs\": []\n}\n",
		"// mine\n{\n\t// servers\n\t\"servers\": {\n\t\t\"other\": {\"command\": \"x\"}, // keep\n\t\t\"baton\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"/opt/baton/bin/baton\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t}\n\t}, /* end */\n\t\"inputs\": []\n}\n"},
	"trailing comma": {"zed", "{\n  \"theme\": \"One Dark\",\n  \"context_servers\": {\n    \"other\": { \"command\": \"x\", \"args\": [\"a\",], }, // why\n  },\n}\n",
		"{\n  \"theme\": \"One Dark\",\n  \"context_servers\": {\n    \"other\": { \"command\": \"x\", \"args\": [\"a\",], }, // why\n    \"baton\": {\n      \"command\": \"/opt/baton/bin/baton\",\n      \"args\": [\"mcp\"]\n    },\n  },\n}\n"},
	"crlf and mark": {"cursor", "\xef\xbb\xbf{\r\n  \"mcpServers\": {\r\n    \"a\": {\"url\": \"http://127.0.0.1/\"}\r\n  }\r\n}",
		"\xef\xbb\xbf{\r\n  \"mcpServers\": {\r\n    \"a\": {\"url\": \"http://127.0.0.1/\"},\r\n    \"baton\": {\r\n      \"command\": \"/opt/baton/bin/baton\",\r\n      \"args\": [\"mcp\"]\r\n    }\r\n  }\r\n}"},
	"no servers yet": {"claude-code", "{\n  \"numStartups\": 12345678901234567890,\n  \"projects\": {\"/a\\u002fb\": {\"mcpServers\": {\"baton\": 1}}}\n}",
		"{\n  \"numStartups\": 12345678901234567890,\n  \"projects\": {\"/a\\u002fb\": {\"mcpServers\": {\"baton\": 1}}},\n  \"mcpServers\": {\n    \"baton\": {\n      \"type\": \"stdio\",\n      \"command\": \"/opt/baton/bin/baton\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}"},
	"one line": {"opencode", `{"$schema":"https://opencode.ai/config.json","mcp":{"x":{"type":"remote","url":"u"}}}`,
		`{"$schema":"https://opencode.ai/config.json","mcp":{"x":{"type":"remote","url":"u"}, "baton": {"type": "local", "command": ["/opt/baton/bin/baton", "mcp"], "enabled": true}}}`},
	"empty object":  {"claude-desktop", "{}", "{\n  \"mcpServers\": {\n    \"baton\": {\n      \"command\": \"/opt/baton/bin/baton\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}"},
	"empty file":    {"cursor", "", "{\n  \"mcpServers\": {\n    \"baton\": {\n      \"command\": \"/opt/baton/bin/baton\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n"},
	"comment alone": {"zed", "{\n    // nothing yet\n}\n", "{\n  \"context_servers\": {\n    \"baton\": {\n      \"command\": \"/opt/baton/bin/baton\",\n      \"args\": [\"mcp\"]\n    }\n  }\n    // nothing yet\n}\n"},
	"brace comment": {"zed", "{ // mine\n  \"context_servers\": { // theirs\n  },\n}\n", "{ // mine\n  \"context_servers\": { // theirs\n    \"baton\": {\n      \"command\": \"/opt/baton/bin/baton\",\n      \"args\": [\"mcp\"]\n    }\n  },\n}\n"},
	"comment after a comma in the brace's line": {"zed", "{\"context_servers\": {\"a\": {}, // c\n}}", "{\"context_servers\": {\"a\": {}, // c\n  \"baton\": {\n    \"command\": \"/opt/baton/bin/baton\",\n    \"args\": [\"mcp\"]\n  },\n}}"},
	"toml": {"codex", "model = \"m\" # why\n\n[mcp_servers.other]\ncommand = 'x'\nargs = [\n  \"a\", # one\n]\n\n[[notes]]\ntext = \"\"\"\n[mcp_servers.baton]\n\"\"\"\n",
		"model = \"m\" # why\n\n[mcp_servers.other]\ncommand = 'x'\nargs = [\n  \"a\", # one\n]\n\n[[notes]]\ntext = \"\"\"\n[mcp_servers.baton]\n\"\"\"\n\n[mcp_servers.baton]\ncommand = \"/opt/baton/bin/baton\"\nargs = [\"mcp\"]\nenv_vars = ENVVARS\n"},
	"toml without an end of line": {"codex", "\xef\xbb\xbfa = 1\r\nb = 2", "\xef\xbb\xbfa = 1\r\nb = 2\r\n\r\n[mcp_servers.baton]\r\ncommand = \"/opt/baton/bin/baton\"\r\nargs = [\"mcp\"]\r\nenv_vars = ENVVARS\r\n"},
	"toml inline": {"codex", "mcp_servers = { other = { command = \"x\" } } # all\n",
		"mcp_servers = { baton = { command = \"/opt/baton/bin/baton\", args = [\"mcp\"], env_vars = ENVVARS }, other = { command = \"x\" } } # all\n"},
	"toml dotted": {"codex", "mcp_servers.other.command = \"x\"\n[tui]\ntheme = \"t\"\n",
		"mcp_servers.other.command = \"x\"\n[tui]\ntheme = \"t\"\n\n[mcp_servers.baton]\ncommand = \"/opt/baton/bin/baton\"\nargs = [\"mcp\"]\nenv_vars = ENVVARS\n"},
	"toml empty": {"codex", "", "[mcp_servers.baton]\ncommand = \"/opt/baton/bin/baton\"\nargs = [\"mcp\"]\nenv_vars = ENVVARS\n"},
}

// older are configurations with an entry of Baton's: what a user added to it stays.
var older = map[string]struct{ host, text, after string }{
	"json": {"cursor", "{\"mcpServers\": {\n  \"baton\": {\n    \"command\": \"/old/baton\", // there\n    \"args\": [\"mcp\", \"--principal\", \"x\"],\n    \"env\": {\"A\": \"b\"}, \"autoApprove\": [\"session_list\"]\n  },\n  \"z\": {}\n}}",
		"{\"mcpServers\": {\n  \"baton\": {\n    \"command\": \"/opt/baton/bin/baton\", // there\n    \"args\": [\"mcp\"],\n    \"env\": {\"A\": \"b\"}, \"autoApprove\": [\"session_list\"]\n  },\n  \"z\": {}\n}}"},
	"remote":   {"claude-code", "{\"mcpServers\":{\"baton\":{\"type\":\"http\",\"url\":\"http://127.0.0.1:1/mcp\",\"headers\":{\"Authorization\":\"x\"}}}}", "{\"mcpServers\":{\"baton\":{\"type\":\"stdio\", \"command\": \"/opt/baton/bin/baton\", \"args\": [\"mcp\"]}}}"},
	"no table": {"cursor", "{\n \"mcpServers\": {\n  \"baton\": \"old\"\n }\n}", "{\n \"mcpServers\": {\n  \"baton\": {\n   \"command\": \"/opt/baton/bin/baton\",\n   \"args\": [\"mcp\"]\n  }\n }\n}"},
	"disabled": {"opencode", "{\"mcp\": {\"baton\": {\"type\": \"local\", \"command\": [\"/old\"], \"enabled\": false, \"timeout\": 9}}}", "{\"mcp\": {\"baton\": {\"type\": \"local\", \"command\": [\"/opt/baton/bin/baton\", \"mcp\"], \"enabled\": true, \"timeout\": 9}}}"},
	"toml": {"codex", "[mcp_servers.baton] # ours\ncommand = \"/old/baton\" # was\ntool_timeout_sec = 600\n\n[mcp_servers.baton.env]\nA = \"b\"\n[tui]\n",
		"[mcp_servers.baton] # ours\nargs = [\"mcp\"]\nenv_vars = ENVVARS\ncommand = \"/opt/baton/bin/baton\" # was\ntool_timeout_sec = 600\n\n[mcp_servers.baton.env]\nA = \"b\"\n[tui]\n"},
	"toml remote": {"codex", "[mcp_servers.baton]\nurl = \"http://127.0.0.1:1/mcp\"\n[tui]\n", "[mcp_servers.baton]\ncommand = \"/opt/baton/bin/baton\"\nargs = [\"mcp\"]\nenv_vars = ENVVARS\n[tui]\n"},
	"toml inline": {"codex", "[mcp_servers]\nbaton = { command = '/old', enabled = false } # x\nother = { command = \"y\" }\n",
		"[mcp_servers]\nbaton = { args = [\"mcp\"], env_vars = ENVVARS, command = \"/opt/baton/bin/baton\", enabled = false } # x\nother = { command = \"y\" }\n"},
	"toml dotted": {"codex", "mcp_servers.baton.command = '/old'\nmcp_servers.other.command = 'y'\n",
		"mcp_servers.baton.args = [\"mcp\"]\nmcp_servers.baton.env_vars = ENVVARS\nmcp_servers.baton.command = \"/opt/baton/bin/baton\"\nmcp_servers.other.command = 'y'\n"},
}

func expand(s string) string { return strings.ReplaceAll(s, "ENVVARS", tomlValue(codexPasses)) }

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return file
}

func install(t *testing.T, h Host, file string) *Change {
	t.Helper()
	c, err := h.Install(file, "baton", testCommand)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(); err != nil {
		t.Fatal(err)
	}
	return c
}

func uninstall(t *testing.T, h Host, file string) *Change {
	t.Helper()
	c, err := h.Uninstall(file, "baton")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(); err != nil {
		t.Fatal(err)
	}
	return c
}

func has(t *testing.T, file, want string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%v\n--- got\n%q\n--- want\n%q", err, got, want)
	}
}

// only wants a folder to hold nothing but some names.
func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("the folder holds %q, not %q", names, want)
	}
}

func TestInstallKeepsEverythingElse(t *testing.T) {
	for name, tt := range hairy {
		t.Run(name, func(t *testing.T) {
			h, file := host(t, tt.host), write(t, tt.text)
			c := install(t, h, file)
			has(t, file, expand(tt.after))
			has(t, c.Backup, tt.text)
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if again, err := h.Install(file, "baton", testCommand); err != nil || again.Changed() {
				t.Errorf("a second time: %v, %q", err, again.After)
			}
			if cmd, err := h.Registered(file, "baton"); err != nil || cmd.Program != testCommand.Program || !slices.Equal(cmd.Args, testCommand.Args) {
				t.Errorf("registered: %+v, %v", cmd, err)
			}
			uninstall(t, h, file)
			has(t, file, tt.text)
			only(t, filepath.Dir(file), "config")
		})
	}
}

// TestUninstallWithoutABackup: where others went on writing, only the entry goes, and everything else stays.
func TestUninstallWithoutABackup(t *testing.T) {
	for name, tt := range hairy {
		t.Run(name, func(t *testing.T) {
			h, file := host(t, tt.host), write(t, expand(tt.after))
			c := uninstall(t, h, file)
			d, err := h.parse(file, bytes.TrimPrefix(c.After, byteOrderMark))
			if err != nil {
				t.Fatal(err)
			}
			before, err := h.parse(file, bytes.TrimPrefix([]byte(tt.text), byteOrderMark))
			if err != nil {
				t.Fatal(err)
			}
			path := append(slices.Clone(h.servers), "baton")
			if !same(without(d.values(), path), without(before.values(), path)) || lookup(d.values(), path) != nil {
				t.Errorf("left:\n%s", c.After)
			}
			if strings.Contains(string(c.After), testCommand.Program) {
				t.Errorf("left:\n%s", c.After)
			}
			for _, comment := range []string{"// keep", "// why", "# one", "# why", "// nothing yet", "// theirs", "# all"} {
				if strings.Contains(tt.text, comment) != strings.Contains(string(c.After), comment) {
					t.Errorf("the comment %q was lost:\n%s", comment, c.After)
				}
			}
			if again, err := h.Uninstall(file, "baton"); err != nil || again.Changed() {
				t.Errorf("a second time: %v, %q", err, again.After)
			}
		})
	}
}

func TestInstallOverAnOlderEntry(t *testing.T) {
	for name, tt := range older {
		t.Run(name, func(t *testing.T) {
			h, file := host(t, tt.host), write(t, tt.text)
			install(t, h, file)
			has(t, file, expand(tt.after))
			if again, err := h.Install(file, "baton", testCommand); err != nil || again.Changed() {
				t.Errorf("a second time: %v, %q", err, again.After)
			}
			c := uninstall(t, h, file)
			if d, err := h.parse(file, c.After); err != nil || lookup(d.values(), append(slices.Clone(h.servers), "baton")) != nil {
				t.Errorf("left: %v\n%s", err, c.After)
			}
		})
	}
}

// TestArgumentsOfAUser stay where none are given.
func TestArgumentsOfAUser(t *testing.T) {
	h, file := host(t, "cursor"), write(t, `{"mcpServers": {"baton": {"command": "/old/baton", "args": ["mcp", "--principal", "x"]}}}`)
	c, err := h.Install(file, "baton", Command{Program: "/new/baton"})
	if err != nil || string(c.After) != `{"mcpServers": {"baton": {"command": "/new/baton", "args": ["mcp", "--principal", "x"]}}}` {
		t.Errorf("%v: %s", err, c.After)
	}
	c, err = h.Install(write(t, ""), "baton", Command{Program: "/new/baton"})
	if err != nil || !strings.Contains(string(c.After), `["mcp"]`) {
		t.Errorf("%v: %s", err, c.After)
	}
}

func TestEnvironmentOfTheEntry(t *testing.T) {
	for _, h := range Hosts() {
		t.Run(h.Name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "deep", "config")
			cmd := Command{Program: "/a b/bat\"on", Args: []string{"mcp", "--principal", "ü\\"}, Env: map[string]string{"BATON_HOME": "/x y"}}
			for range 2 {
				c, err := h.Install(file, "my baton", cmd)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Apply(); err != nil {
					t.Fatal(err)
				}
				if got, err := h.Registered(file, "my baton"); err != nil || !same(got, cmd) {
					t.Errorf("%+v, %v in %s", got, err, c.After)
				}
				cmd.Env["FURTHER"] = "1" // the second time it is added to what is there
			}
			c, err := h.Uninstall(file, "my baton", cmd.Program)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Apply(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestNothingIsLeftOfAFileThatWasMade: a configuration that Install made goes with the entry.
func TestNothingIsLeftOfAFileThatWasMade(t *testing.T) {
	for _, h := range Hosts() {
		file := filepath.Join(t.TempDir(), "config")
		install(t, h, file)
		uninstall(t, h, file)
		only(t, filepath.Dir(file))
	}
}

func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct{ host, text, says string }{
		"no JSON":          {"cursor", "{\n  \"mcpServers\": {\n    oops\n}", "line 3"},
		"a list":           {"cursor", "[]", "no JSON object"},
		"servers a list":   {"cursor", `{"mcpServers": []}`, "mcpServers is no object"},
		"servers twice":    {"cursor", `{"mcpServers": {}, "mcpServers": {}}`, "twice"},
		"entry twice":      {"cursor", `{"mcpServers": {"baton": {}, "b\u0061ton": {}}}`, "twice"},
		"not UTF-8":        {"cursor", "{\"a\": \"\xff\"}", "UTF-8"},
		"UTF-16":           {"zed", "\xff\xfe{\x00}\x00", "UTF-8"},
		"no TOML":          {"codex", "a = 1\nb = \n", "line 2"},
		"TOML twice":       {"codex", "[mcp_servers.a]\n[mcp_servers.a]\n", "line 2"},
		"servers no table": {"codex", "mcp_servers = 3\n", "no table"},
		"servers an array": {"codex", "[[mcp_servers]]\n", "no table"},
	} {
		t.Run(name, func(t *testing.T) {
			h, file := host(t, tt.host), write(t, tt.text)
			_, err := h.Install(file, "baton", testCommand)
			e := sessions.AsError(err)
			if err == nil || e.Code != sessions.CodeInvalidParams || e.Action == "" || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v", err)
			}
			has(t, file, tt.text)
			only(t, filepath.Dir(file), "config")
		})
	}
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	h := host(t, "cursor")
	t.Run("read-only", func(t *testing.T) {
		file := write(t, "{}")
		if err := os.Chmod(file, 0o440); err != nil {
			t.Fatal(err)
		}
		c, err := h.Install(file, "baton", testCommand)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Error(err)
		}
		has(t, file, "{}")
		only(t, filepath.Dir(file), "config")
	})
	t.Run("a folder", func(t *testing.T) {
		if _, err := h.Install(t.TempDir(), "baton", testCommand); err == nil || !strings.Contains(err.Error(), "no file") {
			t.Error(err)
		}
	})
	t.Run("a link to nothing", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "config")
		if err := os.Symlink("nowhere", link); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Install(link, "baton", testCommand); err == nil || !strings.Contains(err.Error(), "leads to nothing") {
			t.Error(err)
		}
	})
	t.Run("changed meanwhile", func(t *testing.T) {
		file := write(t, "{}")
		c, err := h.Install(file, "baton", testCommand)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(`{"mcpServers": {}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(); err == nil || !strings.Contains(err.Error(), "meanwhile") {
			t.Error(err)
		}
		has(t, file, `{"mcpServers": {}}`)
		only(t, filepath.Dir(file), "config")
	})
}

func TestALinkStaysALink(t *testing.T) {
	h, file := host(t, "zed"), write(t, "{}\n")
	link := filepath.Join(t.TempDir(), "settings.json")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	c := install(t, h, link)
	if to, err := os.Readlink(link); err != nil || to != file {
		t.Errorf("%q, %v", to, err)
	}
	has(t, file, string(c.After))
	only(t, filepath.Dir(file), "config")
	if err := c.Revert(); err != nil {
		t.Fatal(err)
	}
	has(t, file, "{}\n")
	only(t, filepath.Dir(link), "settings.json")
}

// TestPlaces: where each host looks, by its documentation.
func TestPlaces(t *testing.T) {
	for _, tt := range []struct{ host, goos, env, want string }{
		{"claude-code", "linux", "", "/h/.claude.json"},
		{"claude-code", "darwin", "CLAUDE_CONFIG_DIR=/c", "/c/.claude.json"},
		{"claude-desktop", "linux", "", "/h/.config/Claude/claude_desktop_config.json"},
		{"claude-desktop", "darwin", "", "/h/Library/Application Support/Claude/claude_desktop_config.json"},
		{"codex", "linux", "", "/h/.codex/config.toml"},
		{"codex", "linux", "CODEX_HOME=/c", "/c/config.toml"},
		{"cursor", "darwin", "", "/h/.cursor/mcp.json"},
		{"vscode", "linux", "XDG_CONFIG_HOME=/x", "/x/Code/User/mcp.json"},
		{"vscode", "darwin", "", "/h/Library/Application Support/Code/User/mcp.json"},
		{"zed", "darwin", "", "/h/.config/zed/settings.json"},
		{"opencode", "linux", "", "/h/.config/opencode/opencode.json"},
		{"opencode", "linux", "OPENCODE_CONFIG=/o.json", "/o.json"},
	} {
		name, value, _ := strings.Cut(tt.env, "=")
		got, err := host(t, tt.host).File(func(n string) string {
			if n == "HOME" {
				return "/h"
			}
			if n == name {
				return value
			}
			return ""
		}, tt.goos)
		if err != nil || got != tt.want {
			t.Errorf("%s on %s with %q: %s, %v; want %s", tt.host, tt.goos, tt.env, got, err, tt.want)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "opencode"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "opencode", "opencode.jsonc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := host(t, "opencode").File(func(n string) string {
		return map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": dir}[n]
	}, "linux")
	if err != nil || got != filepath.Join(dir, "opencode", "opencode.jsonc") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Find("emacs"); err == nil || !strings.Contains(sessions.AsError(err).Action, "claude-code") {
		t.Error(err)
	}
}

func TestPrintIsAConfiguration(t *testing.T) {
	for _, h := range Hosts() {
		text, err := h.Print("baton", testCommand)
		if err != nil {
			t.Fatal(err)
		}
		if h.syntax == jsonc && !json.Valid([]byte(text)) {
			t.Errorf("%s: %s", h.Name, text)
		}
		file := write(t, text)
		if cmd, err := h.Registered(file, "baton"); err != nil || !same(cmd, testCommand) {
			t.Errorf("%s: %+v, %v", h.Name, cmd, err)
		}
	}
}
