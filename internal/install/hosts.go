package install

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// Command is how a host starts Baton: the program with its absolute path, its arguments, and further environment.
type Command struct {
	Program string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
}

// syntax is how a configuration is written.
type syntax int

const (
	jsonc syntax = iota // JSON, with comments and trailing commas where the host takes them
	tomls
)

// Host is a program that starts MCP servers by its own configuration.
type Host struct {
	Name  string // as the command line names it
	Title string
	// Restart is what its user does so that it sees a change.
	Restart string

	syntax syntax
	// servers leads to the table of servers, one member for each.
	servers []string
	// files are where the configuration may be, the first one that is there counts, else the last one is made.
	files func(e environment) []string
	// entry are the members of Baton's entry, in their order.
	entry func(Command) []field
	// passes are the variables that the host hands to its servers; nil: all.
	passes []string
	// foreign are members of an entry that would make it mean another server.
	foreign []string
	// command reads an entry back.
	command func(entry map[string]any) (Command, bool)
}

// field is one member of an entry. Its value is a string, a bool, a list of strings or a map of strings.
type field struct {
	name  string
	value any
}

// environment answers for variables, and for the operating system that a host runs on.
type environment struct {
	getenv func(string) string
	goos   string
}

func (e environment) home(parts ...string) string {
	return filepath.Join(append([]string{e.getenv("HOME")}, parts...)...)
}

// config is a folder of the user's configuration: XDG_CONFIG_HOME, else ~/.config.
func (e environment) config(parts ...string) string {
	if dir := e.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(append([]string{dir}, parts...)...)
	}
	return e.home(append([]string{".config"}, parts...)...)
}

// application is where programs of a desktop keep their settings.
func (e environment) application(parts ...string) string {
	if e.goos == "darwin" {
		return e.home(append([]string{"Library", "Application Support"}, parts...)...)
	}
	return e.config(parts...)
}

// in is a path below the folder that a variable names, or else below a folder of HOME.
func (e environment) in(variable, folder string, parts ...string) string {
	if dir := e.getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(append([]string{dir}, parts...)...)
	}
	return e.home(append([]string{folder}, parts...)...)
}

func one(path func(environment) string) func(environment) []string {
	return func(e environment) []string { return []string{path(e)} }
}

// codexPasses are the variables that Codex hands to a server only when they are named (0.171): without them Baton would
// look for another state, another host and other agents than a shell does.
var codexPasses = []string{"BATON_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CODEX_HOME", "CURSOR_CONFIG_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE"}

// Hosts are the hosts that are known, by their names.
func Hosts() []Host {
	standard := func(typed bool) func(Command) []field {
		return func(c Command) []field {
			var f []field
			if typed {
				f = append(f, field{"type", "stdio"})
			}
			f = append(f, field{"command", c.Program}, field{"args", c.Args})
			return withEnv(f, "env", c)
		}
	}
	remote := []string{"url", "serverUrl", "headers"}
	return []Host{
		{Name: "claude-code", Title: "Claude Code", Restart: "start a new session of Claude Code", servers: []string{"mcpServers"},
			files: one(func(e environment) string { return e.in("CLAUDE_CONFIG_DIR", "", ".claude.json") }),
			entry: standard(true), foreign: remote, command: plainCommand("env")},
		{Name: "claude-desktop", Title: "Claude Desktop", Restart: "quit and start Claude Desktop", servers: []string{"mcpServers"},
			files: one(func(e environment) string { return e.application("Claude", "claude_desktop_config.json") }),
			entry: standard(false), foreign: remote, command: plainCommand("env")},
		{Name: "codex", Title: "Codex", Restart: "start a new session of Codex", syntax: tomls, servers: []string{"mcp_servers"},
			files: one(func(e environment) string { return e.in("CODEX_HOME", ".codex", "config.toml") }),
			entry: func(c Command) []field {
				return withEnv([]field{{"command", c.Program}, {"args", c.Args}, {"env_vars", codexPasses}}, "env", c)
			}, passes: append([]string{"HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"}, codexPasses...),
			foreign: []string{"url", "bearer_token_env_var", "http_headers", "env_http_headers"}, command: plainCommand("env")},
		{Name: "cursor", Title: "Cursor", Restart: "Cursor asks to enable the server, or see its MCP settings", servers: []string{"mcpServers"},
			files: one(func(e environment) string { return e.home(".cursor", "mcp.json") }),
			entry: standard(false), foreign: remote, command: plainCommand("env")},
		{Name: "vscode", Title: "VS Code", Restart: "VS Code asks to start the server", servers: []string{"servers"},
			files: one(func(e environment) string { return e.application("Code", "User", "mcp.json") }),
			entry: standard(true), foreign: remote, command: plainCommand("env")},
		{Name: "zed", Title: "Zed", Restart: "Zed starts the server by itself", servers: []string{"context_servers"},
			files: one(func(e environment) string { return e.config("zed", "settings.json") }),
			entry: standard(false), foreign: append([]string{"settings"}, remote...), command: plainCommand("env")},
		{Name: "opencode", Title: "opencode", Restart: "start opencode again", servers: []string{"mcp"},
			files: func(e environment) []string {
				if f := e.getenv("OPENCODE_CONFIG"); filepath.IsAbs(f) {
					return []string{f}
				}
				return []string{e.config("opencode", "opencode.jsonc"), e.config("opencode", "opencode.json")}
			},
			entry: func(c Command) []field {
				return withEnv([]field{{"type", "local"}, {"command", append([]string{c.Program}, c.Args...)}, {"enabled", true}}, "environment", c)
			}, foreign: remote,
			command: func(entry map[string]any) (Command, bool) {
				words, ok := stringsOf(entry["command"])
				if !ok || len(words) == 0 {
					return Command{}, false
				}
				env, ok := mapOf(entry["environment"])
				return Command{words[0], words[1:], env}, ok
			}},
	}
}

// Find returns a host by its name.
func Find(name string) (Host, error) {
	var names []string
	for _, h := range Hosts() {
		if h.Name == name {
			return h, nil
		}
		names = append(names, h.Name)
	}
	return Host{}, sessions.Errorf(sessions.CodeInvalidParams, "%q is no host that is known", name).Do("use one of: %s", strings.Join(names, ", "))
}

// File is where the configuration of a host is for the user of an environment, or where it would be made.
func (h Host) File(getenv func(string) string, goos string) (string, error) {
	if !filepath.IsAbs(getenv("HOME")) {
		return "", sessions.Errorf(sessions.CodeInvalidParams, "HOME is %q, so nobody knows where the configuration of %s is", getenv("HOME"), h.Title).
			Do("set HOME, or name the file with --file")
	}
	files := h.files(environment{getenv, goos})
	i := slices.IndexFunc(files, func(f string) bool { _, err := os.Lstat(f); return err == nil })
	if i < 0 {
		i = len(files) - 1
	}
	return files[i], nil
}

func withEnv(f []field, name string, c Command) []field {
	if len(c.Env) > 0 {
		f = append(f, field{name, c.Env})
	}
	return f
}

func plainCommand(env string) func(map[string]any) (Command, bool) {
	return func(entry map[string]any) (Command, bool) {
		program, ok := entry["command"].(string)
		args, isList := stringsOf(entry["args"])
		more, isMap := mapOf(entry[env])
		return Command{program, args, more}, ok && isList && isMap && program != ""
	}
}

func stringsOf(v any) ([]string, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, v == nil
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], ok = e.(string); !ok {
			return nil, false
		}
	}
	return out, true
}

func mapOf(v any) (map[string]string, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, v == nil
	}
	out := map[string]string{}
	for name, e := range m {
		if out[name], ok = e.(string); !ok {
			return nil, false
		}
	}
	return out, true
}

// Environ is the environment in which a host starts a command that is registered with it, where its own is environ.
func (h Host) Environ(environ []string, cmd Command) []string {
	var out []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if h.passes == nil || slices.Contains(h.passes, name) {
			out = append(out, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
		out = append(out, name+"="+cmd.Env[name])
	}
	return out
}
