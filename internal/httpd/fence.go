package httpd

import (
	"context"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// fence is the API of a token that is bound to folders. Its sessions start in them and write nowhere else, and get
// nothing that runs outside of their sandbox: neither MCP servers nor options nor variables of the caller's choosing. They
// have no further writable roots: one session could make another's workspace a link through them.
type fence struct {
	sessions.API
	token Token
}

var _ sessions.API = fence{}

// Create refuses what leads out of the folders.
func (f fence) Create(ctx context.Context, who sessions.Caller, a sessions.CreateArgs) (sessions.CreateResult, error) {
	real, err := f.inside("cwd", a.Cwd)
	if err != nil {
		return sessions.CreateResult{}, err
	}
	a.Cwd, who.Folders = real, f.token.Folders // the host looks again, whatever was changed meanwhile
	if err := f.settings(a.Settings); err != nil {
		return sessions.CreateResult{}, err
	}
	return f.API.Create(ctx, who, a)
}

// Resume refuses what leads out of the folders, or has come to lead there since the session was created.
func (f fence) Resume(ctx context.Context, who sessions.Caller, a sessions.ResumeArgs) (sessions.ResumeResult, error) {
	if err := f.settings(a.Settings); err != nil {
		return sessions.ResumeResult{}, err
	}
	now := 0
	found, err := f.API.Wait(ctx, who, sessions.WaitArgs{SessionIDs: []string{a.SessionID}, WaitSeconds: &now})
	if err != nil {
		return sessions.ResumeResult{}, err
	}
	for _, w := range found.Sessions {
		if _, err := f.inside("cwd", w.Session.Cwd); err != nil {
			return sessions.ResumeResult{}, err
		}
	}
	who.Folders = f.token.Folders
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
		{"env_unset", len(s.EnvUnset) > 0}, {"profile", s.Profile != ""}, {"writable_roots", len(s.WritableRoots) > 0},
	} {
		if x.given {
			return sessions.Errorf(sessions.CodeUnsupported, "%s is not for a token that is bound to folders", x.name).
				Do("leave it out, or use a token for the folder /").With("token", f.token.ID)
		}
	}
	return nil
}

// inside is where a path really leads, within the folders.
func (f fence) inside(name, path string) (string, error) {
	real, err := realFolder(path)
	if err != nil {
		return "", err
	}
	for _, folder := range f.token.Folders {
		if real == folder || strings.HasPrefix(real, strings.TrimSuffix(folder, "/")+"/") {
			return real, nil
		}
	}
	return "", sessions.Errorf(sessions.CodeInvalidParams, "%s %q is outside of the folders of this token", name, path).
		Do("use one of: %s", strings.Join(f.token.Folders, ", ")).With("token", f.token.ID)
}
