package httpd

import (
	"context"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// fence is the API of a token that is bound to folders. Its sessions start in them and write nowhere else, and get
// nothing that runs outside of their sandbox: neither MCP servers nor options nor variables of the caller's choosing.
type fence struct {
	sessions.API
	token Token
}

var _ sessions.API = fence{}

// Create refuses what leads out of the folders.
func (f fence) Create(ctx context.Context, who sessions.Caller, a sessions.CreateArgs) (sessions.CreateResult, error) {
	if err := f.inside("cwd", a.Cwd); err != nil {
		return sessions.CreateResult{}, err
	}
	if err := f.settings(a.Settings); err != nil {
		return sessions.CreateResult{}, err
	}
	return f.API.Create(ctx, who, a)
}

// Resume refuses what leads out of the folders.
func (f fence) Resume(ctx context.Context, who sessions.Caller, a sessions.ResumeArgs) (sessions.ResumeResult, error) {
	if err := f.settings(a.Settings); err != nil {
		return sessions.ResumeResult{}, err
	}
	return f.API.Resume(ctx, who, a)
}

func (f fence) settings(s sessions.Settings) error {
	for _, x := range []struct {
		name  string
		given bool
	}{
		{"sandbox " + sessions.SandboxFullAccess, s.Sandbox == sessions.SandboxFullAccess},
		{"auto_answer " + s.AutoAnswer, s.AutoAnswer != "" && s.AutoAnswer != "none" && s.AutoAnswer != "deny-all"},
		{"mcp_servers", len(s.MCPServers) > 0}, {"runner_options", len(s.RunnerOptions) > 0}, {"env", len(s.Env) > 0},
		{"env_unset", len(s.EnvUnset) > 0}, {"profile", s.Profile != ""},
	} {
		if x.given {
			return sessions.Errorf(sessions.CodeUnsupported, "%s is not for a token that is bound to folders", x.name).
				Do("leave it out, or use a token for the folder /").With("token", f.token.ID)
		}
	}
	for _, root := range s.WritableRoots {
		if err := f.inside("writable_roots", root); err != nil {
			return err
		}
	}
	return nil
}

func (f fence) inside(name, path string) error {
	real, err := realFolder(path)
	if err != nil {
		return err
	}
	for _, folder := range f.token.Folders {
		if real == folder || strings.HasPrefix(real, strings.TrimSuffix(folder, "/")+"/") {
			return nil
		}
	}
	return sessions.Errorf(sessions.CodeInvalidParams, "%s %q is outside of the folders of this token", name, path).
		Do("use one of: %s", strings.Join(f.token.Folders, ", ")).With("token", f.token.ID)
}
