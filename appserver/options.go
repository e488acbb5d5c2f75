package appserver

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// runnerOptions are the options of this runner alone.
type runnerOptions struct {
	network      bool           // network_access: commands may use the network
	config       map[string]any // config: overrides of config.toml for this thread, by dotted name
	instructions string         // developer_instructions
	trust        bool           // trust_folder: Codex may mark the folder as trusted in config.toml
	goal         bool           // resume_goal: at a resume Codex goes on with the goal of the thread
	tokens       int64          // token_budget
	seconds      int64          // time_budget_seconds
}

// maxTimeBudget is a year.
const maxTimeBudget = 365 * 24 * time.Hour

func parseOptions(given map[string]any) (o runnerOptions, err error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		ok := false
		switch name {
		case "network_access":
			o.network, ok = given[name].(bool)
		case "config":
			o.config, ok = given[name].(map[string]any)
		case "developer_instructions":
			o.instructions, ok = given[name].(string)
		case "trust_folder":
			o.trust, ok = given[name].(bool)
		case "resume_goal":
			o.goal, ok = given[name].(bool)
		case optionTokens:
			o.tokens, ok = bound(given[name])
		case optionTime:
			o.seconds, ok = bound(given[name])
			ok = ok && o.seconds <= int64(maxTimeBudget/time.Second)
		default:
			return o, sessions.Errorf(sessions.CodeInvalidParams, "runner option %q is unknown to codex", name).
				Do("use network_access, trust_folder or resume_goal (true or false), token_budget or time_budget_seconds (whole numbers), config (an object) or developer_instructions (a text)")
		}
		if !ok {
			return o, sessions.Errorf(sessions.CodeInvalidParams, "runner option %q has the wrong type", name).
				Do("network_access, trust_folder and resume_goal are true or false, token_budget and time_budget_seconds whole numbers above 0, config is an object, developer_instructions a text")
		}
	}
	return o, nil
}

// startTrusted has the thread begin in the sandbox that was asked for, upon which Codex writes its folder as trusted into
// config.toml. What goes with the sandbox are overrides then: thread/start has no parameters for it.
func (o runnerOptions) startTrusted(t *threadParams, p sessions.OpenParams) {
	if p.Selection.Sandbox == "" {
		return
	}
	t.Sandbox = p.Selection.Sandbox
	if t.Sandbox != sessions.SandboxWorkspaceWrite {
		return
	}
	if len(p.WritableRoots) > 0 {
		t.Config["sandbox_workspace_write.writable_roots"] = p.WritableRoots
	}
	if o.network {
		t.Config["sandbox_workspace_write.network_access"] = true
	}
}

var serverName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// threadConfig is the overrides that go with a thread. Their values stay in the process: none was found in the files of
// CODEX_HOME.
func (o runnerOptions) threadConfig(effort string, servers []sessions.MCPServer) (map[string]any, error) {
	c := maps.Clone(o.config)
	if c == nil {
		c = map[string]any{}
	}
	if effort != "" {
		c["model_reasoning_effort"] = effort
	}
	for _, s := range servers {
		if !serverName.MatchString(s.Name) {
			return nil, sessions.Errorf(sessions.CodeInvalidParams, "MCP server name %q has a character that Codex does not take", s.Name).
				Do("use letters, digits, - and _")
		}
		server := map[string]any{}
		switch {
		case s.URL != "" && s.Command == "":
			server["url"] = s.URL
			if len(s.Headers) > 0 {
				server["http_headers"] = s.Headers
			}
		case s.Command != "" && s.URL == "":
			server["command"] = s.Command
			if len(s.Args) > 0 {
				server["args"] = s.Args
			}
			if len(s.Env) > 0 {
				server["env"] = s.Env
			}
		default:
			return nil, sessions.Errorf(sessions.CodeInvalidParams, "MCP server %q needs either a command or a url", s.Name).Do("give one of them")
		}
		c["mcp_servers."+s.Name] = server
	}
	return c, nil
}
