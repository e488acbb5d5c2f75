package main

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

// settings are the selections that create, run and resume take alike, as flags.
type settings struct {
	sessions.Settings
	roots, env, unset, options, servers []string
}

func (s *settings) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&s.Model, "model", "m", "", "model, as baton runners --json shows it; confirmed with the agent before the first prompt")
	f.StringVar(&s.Effort, "effort", "", "reasoning effort; confirmed like the model")
	f.StringVar(&s.Mode, "mode", "", "default or plan")
	f.StringVar(&s.Sandbox, "sandbox", "", "read-only, workspace-write (default) or danger-full-access")
	f.StringVar(&s.ApprovalPolicy, "approval-policy", "", "untrusted, on-request (default) or never")
	f.StringVar(&s.AutoAnswer, "auto-answer", "", "a policy that answers approvals for you: none (default), approve-edits, approve-all, deny-all")
	f.StringArrayVar(&s.roots, "writable-root", nil, "a further directory that the agent may write; may be given again")
	f.StringArrayVar(&s.env, "env", nil, "NAME=VALUE for the agent, or NAME for that of this environment; secret, never stored")
	f.StringArrayVar(&s.unset, "env-unset", nil, "a name to leave out of the agent's environment")
	f.StringArrayVar(&s.options, "option", nil, "NAME=VALUE, an option of this runner alone; VALUE is JSON or a string")
	f.StringArrayVar(&s.servers, "mcp-server", nil, `an MCP server for the agent, as JSON: {"name": "x", "command": "/path", "args": []}`)
	f.StringVar(&s.Profile, "profile", "", "account profile")
	complete(c, "mode", func() []string { return []string{"default", "plan"} })
	complete(c, "sandbox", func() []string {
		return []string{sessions.SandboxReadOnly, sessions.SandboxWorkspaceWrite, sessions.SandboxFullAccess}
	})
	complete(c, "approval-policy", func() []string {
		return []string{sessions.ApprovalUntrusted, sessions.ApprovalOnRequest, sessions.ApprovalNever}
	})
	complete(c, "auto-answer", func() []string { return []string{"none", "approve-edits", "approve-all", "deny-all"} })
	completeModels(c)
}

// read is what the flags ask for.
func (s *settings) read() (sessions.Settings, error) {
	out := s.Settings
	for _, r := range s.roots {
		abs, err := absoluteDir(r)
		if err != nil {
			return out, err
		}
		out.WritableRoots = append(out.WritableRoots, abs)
	}
	out.EnvUnset = s.unset
	for _, e := range s.env {
		name, value, given := strings.Cut(e, "=")
		if !given {
			var there bool
			if value, there = os.LookupEnv(name); !there {
				return out, cli.Usage("--env %s has no value, and this environment has none either", name)
			}
		}
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[name] = value
	}
	for _, o := range s.options {
		name, value, given := strings.Cut(o, "=")
		if !given || name == "" {
			return out, cli.Usage("--option %q is not NAME=VALUE", o)
		}
		if out.RunnerOptions == nil {
			out.RunnerOptions = map[string]any{}
		}
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			v = value
		}
		out.RunnerOptions[name] = v
	}
	for _, m := range s.servers {
		var server sessions.MCPServer
		d := json.NewDecoder(strings.NewReader(m))
		d.DisallowUnknownFields()
		if err := d.Decode(&server); err != nil {
			return out, cli.Usage("--mcp-server cannot be read: %v", err)
		}
		out.MCPServers = append(out.MCPServers, server)
	}
	return out, nil
}
