package appserver

import (
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// profileMinor is of the oldest version that the tests have with permission profiles that it enforces. 0.125 refuses one
// that writes outside of the workspace.
const profileMinor = 154

// readOnlyProfile is the one of Codex's own that ours begin with: it reads everything and writes nothing.
const readOnlyProfile = ":read-only"

// permissionProfile is the active one of a thread, as Codex reports it. What it allows is reported as the sandbox, but for
// the cwd, which is never listed there: so a profile of ours is named after the generation that defined it, and nothing
// else can have put anything into it.
type permissionProfile struct {
	ID      string  `json:"id"`
	Extends *string `json:"extends"`
}

// isOurs tells whether it is the profile of a name that we gave.
func (p *permissionProfile) isOurs(name string) bool {
	return p != nil && name != "" && p.ID == name && p.Extends != nil && *p.Extends == readOnlyProfile
}

// needsProfile tells a sandbox that writes only into folders beside or below a workspace that it does not write. No sandbox
// of Codex's is that.
func needsProfile(p sessions.OpenParams) bool {
	return p.Selection.Sandbox == sessions.SandboxReadOnly && len(p.WritableRoots) > 0
}

// checkProfile refuses roots whose names a profile cannot hold: 0.171.0 reads some characters as a pattern, and a folder
// called ** as everything beside it.
func checkProfile(p sessions.OpenParams) error {
	for _, root := range p.WritableRoots {
		if needsProfile(p) && strings.ContainsAny(root, "*?[]") {
			return sessions.Errorf(sessions.CodeInvalidParams, "writable_roots has %.200q, which Codex takes for a pattern in a sandbox %s", root, sessions.SandboxReadOnly).
				Do("name a folder without *, ?, [ and ], or ask for sandbox %s", sessions.SandboxWorkspaceWrite)
		}
	}
	return nil
}

// startWithProfile has the thread begin with a permission profile in place of a sandbox, and gives its name. The definition
// goes with the thread as an override of its configuration and is in no file; thread/resume needs it again, or the thread is
// read-only. Codex marks no folder as trusted for it.
func (o runnerOptions) startWithProfile(t *threadParams, p sessions.OpenParams) string {
	name := "baton-" + p.Generation
	write := map[string]string{}
	for _, root := range p.WritableRoots {
		write[root] = "write"
	}
	profile := map[string]any{"extends": readOnlyProfile, "filesystem": write}
	if o.network {
		profile["network"] = map[string]bool{"enabled": true}
	}
	t.Sandbox, t.Permissions = "", name
	t.Config["permissions."+name] = profile
	return name
}

// sandbox is the name of what is reported. A profile of ours is shown as a workspace-write sandbox with its roots alone.
func (s *selection) sandbox(r settings) string {
	if r.Sandbox.Type == "workspaceWrite" && r.Profile.isOurs(s.profile) && yes(r.Sandbox.ExcludeTmpdirEnvVar) && yes(r.Sandbox.ExcludeSlashTmp) {
		return sessions.SandboxReadOnly
	}
	return sandboxName(r.Sandbox.Type)
}

func yes(b *bool) bool { return b != nil && *b }

func errNoProfiles(v version) error {
	return sessions.Errorf(sessions.CodeUnsupported, "sandbox %s with writable_roots was asked, and Codex %s has no permission profile that gives it",
		sessions.SandboxReadOnly, v.text).
		Do("update Codex to 0.%d or later, ask for sandbox %s, or leave writable_roots out", profileMinor, sessions.SandboxWorkspaceWrite)
}

// profileRefused is why a thread did not begin with the profile: rules of the machine or of an organisation forbid it.
func profileRefused(err error, t threadParams) error {
	if t.Permissions == "" || refused(err) == nil || !strings.Contains(err.Error(), "load configuration") {
		return err
	}
	return sessions.Errorf(sessions.CodeSandboxUnavailable, "sandbox %s with writable_roots was asked: %w", sessions.SandboxReadOnly, err).
		Do("ask for another sandbox, or leave writable_roots out")
}
