package policy

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// folder is one that an agent keeps its own things in: writable, because an agent without state does not start.
type folder struct {
	path     string   // below the home folder; "": only where the variable says
	variable string   // names another place for it
	below    string   // of what the variable names
	keep     []string // in it, what decides what a later run does, outside of any session too: read-only where it is there
	secret   []string // in it, what the agent logs in with: hidden from the sessions of other agents
	file     bool     // a file
	// seed are files that the agent makes in it at its first start, and does not start without. In a folder that stays
	// read-only they are made before it, where they are missing; so is the folder, unless it is one of the workspace's.
	seed      map[string]string
	workspace bool // below the folders that the session may write, in place of the home folder
}

// opencodeSeed is what opencode 1.18.33 writes into each of its configuration folders, word for word.
var opencodeSeed = map[string]string{".gitignore": "node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore"}

// agents are the folders by runner. The versions are those that they were looked at in; what runs later but is state to
// the agent, so that it must stay writable, is named beside it.
var agents = map[string][]folder{
	// Codex 0.171.0. auth.json is refreshed, and so writable.
	"codex": {{path: ".codex", variable: "CODEX_HOME", secret: []string{"auth.json"},
		keep: []string{"config.toml", "managed_config.toml", "requirements.toml", "hooks.json", "hooks", "rules", "prompts", "agents", "plugins", "AGENTS.md", "AGENTS.override.md"}},
		{variable: "CODEX_SQLITE_HOME"}},
	// opencode 1.18.33. Its configuration is read-only.
	"opencode": {
		{path: ".config/opencode", variable: "XDG_CONFIG_HOME", below: "opencode", seed: opencodeSeed},
		{variable: "OPENCODE_CONFIG_DIR", seed: opencodeSeed},
		{path: ".opencode", workspace: true, seed: opencodeSeed},
		{path: ".local/share/opencode", variable: "XDG_DATA_HOME", below: "opencode", secret: []string{"auth.json", "mcp-auth.json"}},
		{path: ".local/state/opencode", variable: "XDG_STATE_HOME", below: "opencode"},
		{path: ".cache/opencode", variable: "XDG_CACHE_HOME", below: "opencode"}},
	// Gemini CLI 0.61.0. oauth_creds.json is refreshed, and so writable.
	"gemini": {{path: ".gemini", variable: "GEMINI_CLI_HOME", below: ".gemini", secret: []string{"oauth_creds.json", "mcp-oauth-tokens.json", ".env"},
		keep: []string{"settings.json", "trustedFolders.json", "GEMINI.md", "commands", "extensions", "policies", "skills", "agents", "hooks", ".env"}}},
	// Qwen Code 0.24.4, a relative of Gemini CLI.
	"qwen": {{path: ".qwen", secret: []string{"oauth_creds.json", "mcp-oauth-tokens.json", ".env"},
		keep: []string{"settings.json", "trustedFolders.json", "QWEN.md", "commands", "extensions", "policies", "skills", "agents", "hooks", ".env"}}},
	// claude-agent-acp 0.101.0. .claude.json is state, and has the user's MCP servers too: one can be planted there.
	"claude": {
		{path: ".claude", variable: "CLAUDE_CONFIG_DIR", secret: []string{".credentials.json"},
			keep: []string{"settings.json", "settings.local.json", "CLAUDE.md", "commands", "agents", "skills", "plugins", "hooks", "rules", "output-styles", "keybindings.json"}},
		{path: ".claude.json", variable: "CLAUDE_CONFIG_DIR", below: ".claude.json", file: true}},
	// Cursor, by its documentation. cli-config.json is state, and has what is allowed without asking: that can be planted.
	"cursor": {
		{path: ".cursor", variable: "CURSOR_CONFIG_DIR", keep: []string{"mcp.json", "hooks.json", "hooks", "rules", "commands", "skills", "agents", "permissions.json", "sandbox.json", "extensions"}},
		{path: ".cursor", variable: "CURSOR_DATA_DIR", keep: []string{"mcp.json", "hooks.json"}},
		{path: ".config/cursor", secret: []string{"auth.json"}}},
}

// relatives are runners that keep their things where another one does.
var relatives = map[string]string{"codex-acp": "codex"}

// folders are those of a runner. An agent that nobody looked at has those that the conventions give it: a folder of its
// name for data, state and cache. Its configuration is then read-only.
func folders(runner string) (own []folder, known bool) {
	if other := relatives[runner]; other != "" {
		runner = other
	}
	if own, known = agents[runner]; known {
		return own, true
	}
	return []folder{{path: ".local/share/" + runner, variable: "XDG_DATA_HOME", below: runner}, {path: ".local/state/" + runner, variable: "XDG_STATE_HOME", below: runner},
		{path: ".cache/" + runner, variable: "XDG_CACHE_HOME", below: runner}, {path: "." + runner}}, false
}

// state makes the agent's own folders writable, with what is to be kept in them.
func (c *compiler) state() error {
	own, known := folders(c.Runner)
	for _, f := range own {
		if f.workspace {
			for _, root := range c.roots {
				if path := filepath.Join(root, f.path); c.real(path) == path { // as what is kept from changes there
					c.plant(path, f.seed)
				}
			}
			continue
		}
		path := c.path(f)
		if path == "" {
			continue
		}
		if link := c.leadsOut(path); link != "" {
			return sessions.Errorf(sessions.CodeInvalidParams, "%s, which the agent writes its state to, leads by %s out of the folders that the session is bound to", path, link).
				Do("put a directory there, or keep the agent's state outside of: %s", strings.Join(c.Bound, ", "))
		}
		if known && !f.file {
			if err := os.MkdirAll(path, 0o700); err != nil {
				c.hole("%s, which the agent writes its state to, is not there: %v", path, err)
				continue
			}
		}
		real := c.real(path)
		if f.seed != nil {
			c.plant(real, f.seed)
			continue
		}
		switch fi, err := os.Stat(path); {
		case err != nil || real == "": // an agent may do without
			continue
		case fi.IsDir() == f.file:
			c.hole("%s, which the agent writes its state to, is not what it should be", path)
			continue
		case c.home != "" && within(c.home, real), slices.ContainsFunc(system, func(s string) bool { return within(s, real) || within(real, s) }):
			c.hole("%s, which the agent writes its state to, leads to %s and stays read-only", path, real)
			continue
		}
		if c.rules[real] != sandbox.ReadOnly {
			c.rules[real] = sandbox.Writable
		}
		for _, name := range f.keep {
			c.keep(real, filepath.Join(real, name))
		}
	}
	return nil
}

// plant makes the files that an agent's folder lacks, in that folder and nowhere that a link in it leads.
func (c *compiler) plant(folder string, files map[string]string) {
	dir, err := os.OpenRoot(folder)
	if err != nil {
		c.hole("%s, which the agent starts with, cannot be looked into: %v", folder, err)
		return
	}
	defer dir.Close()
	for name, text := range files {
		f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			c.hole("%s, which the agent may not start without, could not be made in %s: %v", name, folder, err)
		}
	}
}

// leadsOut is the symbolic link by which a path leads out of the folders that the caller is bound to, "" when none does:
// whatever lies in them, the caller's sessions may have put there.
func (c *compiler) leadsOut(path string) (link string) {
	in := func(p string) bool { return slices.ContainsFunc(c.Bound, func(f string) bool { return within(p, f) }) }
	at, rest := "/", strings.Split(filepath.Clean(path), "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		target, err := os.Readlink(next)
		if err != nil { // no link, or nothing: what is made there is made here
			at = next
			continue
		}
		if in(next) && link == "" {
			link = next
		}
		if links++; links > 40 {
			return link // and nothing opens it
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = slices.Concat(strings.Split(target, "/"), rest)
	}
	if in(at) {
		return ""
	}
	return link
}

// path is where the folder is for this session, "" when nobody knows.
func (c *compiler) path(f folder) string {
	if f.variable != "" {
		if dir := c.getenv(f.variable); filepath.IsAbs(dir) {
			return filepath.Join(dir, f.below)
		}
	}
	if c.home == "" || f.path == "" {
		return ""
	}
	return filepath.Join(c.home, f.path)
}

// othersSecrets are what the other agents log in with, below the home folder.
func (c *compiler) othersSecrets() []string {
	mine := c.Runner
	if other := relatives[mine]; other != "" {
		mine = other
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if name == mine {
			continue
		}
		for _, f := range agents[name] {
			for _, s := range f.secret {
				out = append(out, filepath.Join(f.path, s))
			}
		}
	}
	return slices.DeleteFunc(out, func(p string) bool { return strings.HasSuffix(p, "/.env") })
}
