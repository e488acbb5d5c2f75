package host

import (
	"slices"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// defaults fills what every session has a value for, so that leaving it out and naming it is one.
func defaults(s *sessions.Settings) {
	if s.Sandbox == "" {
		s.Sandbox = sessions.SandboxWorkspaceWrite
	}
	if s.ApprovalPolicy == "" {
		s.ApprovalPolicy = sessions.ApprovalOnRequest
	}
	if s.AutoAnswer == autoNone {
		s.AutoAnswer = ""
	}
}

// keptSettings is what of the settings may be stored: names in place of secrets.
func keptSettings(s sessions.Settings, folders []string) journal.Settings {
	k := journal.Settings{Folders: folders, AutoAnswer: s.AutoAnswer, WritableRoots: s.WritableRoots, EnvUnset: s.EnvUnset, RunnerOptions: s.RunnerOptions}
	for name := range s.Env {
		k.EnvNames = append(k.EnvNames, name)
	}
	slices.Sort(k.EnvNames)
	for _, m := range s.MCPServers {
		k.MCPServers = append(k.MCPServers, m.Name)
	}
	return k
}
