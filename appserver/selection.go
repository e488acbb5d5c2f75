package appserver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// selection is what was asked of the thread and what Codex reports about it. It belongs to the loop.
type selection struct {
	asked    sessions.Selection
	roots    []string // further writable directories
	network  bool     // whether commands may use the network
	profile  string   // the permission profile that is the sandbox, "" where a sandbox of Codex's is
	cwd      string
	memories string // a directory of Codex's own that 0.125 makes writable whatever is asked
	evidence sessions.Evidence
	others   []sessions.Difference // what else was asked and differs
	settings settings              // as last reported
	rerouted string                // the model that Codex moved to by itself
	missing  string                // the model that Codex turned out not to know
	drift    error                 // why no prompt may be sent
	change   *change               // under way
}

// settings is what thread/start, thread/resume and thread/settings/updated all report.
type settings struct {
	Model, Effort, Mode, Cwd, Approval, Reviewer string
	Sandbox                                      sandboxPolicy
	Profile                                      *permissionProfile
}

func (r *threadResult) settings() settings {
	s := settings{Model: r.Model, Effort: r.Effort, Cwd: r.Cwd, Approval: approvalName(r.ApprovalPolicy), Reviewer: r.ApprovalsReviewer,
		Sandbox: r.Sandbox, Profile: r.PermissionProfile}
	if r.Mode != nil {
		s.Mode = r.Mode.Mode
	}
	return s
}

func (n *settingsUpdated) settings() settings {
	t := n.Settings
	return settings{Model: t.Model, Effort: t.Effort, Mode: t.Mode.Mode, Cwd: t.Cwd, Approval: approvalName(t.ApprovalPolicy), Reviewer: t.ApprovalsReviewer,
		Sandbox: t.Sandbox, Profile: t.PermissionProfile}
}

// approvalName is the policy's name; {"granular":{...}} is called after its key.
func approvalName(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	return key(raw)
}

// key is the only name of an object, "" for anything else.
func key(raw json.RawMessage) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil && len(object) == 1 {
		for name := range object {
			return name
		}
	}
	return ""
}

// sandboxes pairs our names with the policy types.
var sandboxes = []struct{ name, policy string }{
	{sessions.SandboxReadOnly, "readOnly"},
	{sessions.SandboxWorkspaceWrite, "workspaceWrite"},
	{sessions.SandboxFullAccess, "dangerFullAccess"},
}

func sandboxName(policy string) string {
	for _, s := range sandboxes {
		if s.policy == policy {
			return s.name
		}
	}
	return policy
}

// policy is the sandbox asked for.
func (s *selection) policy() *sandboxPolicy {
	no, network := false, json.RawMessage("false")
	if s.network {
		network = json.RawMessage("true")
	}
	switch s.asked.Sandbox {
	case sessions.SandboxWorkspaceWrite:
		return &sandboxPolicy{Type: "workspaceWrite", WritableRoots: slices.Clone(s.roots), NetworkAccess: network,
			ExcludeTmpdirEnvVar: &no, ExcludeSlashTmp: &no}
	case sessions.SandboxFullAccess:
		return &sandboxPolicy{Type: "dangerFullAccess"}
	}
	return &sandboxPolicy{Type: "readOnly", NetworkAccess: network}
}

// report takes what Codex says about the thread.
func (s *selection) report(r settings, models catalog, v version) {
	s.settings = r
	e := sessions.Evidence{Model: r.Model, Effort: r.Effort, Mode: r.Mode, Sandbox: s.sandbox(r), SandboxBy: "agent",
		ApprovalPolicy: r.Approval, Cwd: r.Cwd, AgentName: "codex", AgentVersion: v.text, Raw: s.evidence.Raw}
	if r.Sandbox.Type == "" {
		e.SandboxBy = ""
	}
	if s.rerouted != "" {
		e.Model = s.rerouted
	}
	m := models.find(e.Model)
	if m != nil && (s.asked.Model == m.ID || s.asked.Model == m.Model) {
		e.Model = s.asked.Model // both are names of one model
	}
	if s.missing != "" && s.missing == r.Model {
		e.Model = "" // the echo is worth nothing
	}
	// Codex reports null for the model's own default, and sends that. It proves no effort that was asked for.
	if e.Effort == "" && s.asked.Effort == "" && m != nil {
		e.Effort = m.DefaultEffort
	}
	s.evidence = e
	s.others = s.compareOthers(r)
}

// compareOthers compares what a Selection has no field for.
func (s *selection) compareOthers(r settings) []sessions.Difference {
	var d []sessions.Difference
	if s.cwd != "" && !sameDir(s.cwd, r.Cwd) {
		d = append(d, sessions.Difference{Name: "cwd", Asked: s.cwd, Reported: r.Cwd})
	}
	if r.Sandbox.Type == "readOnly" || r.Sandbox.Type == "workspaceWrite" {
		if s.network != r.Sandbox.network() {
			d = append(d, sessions.Difference{Name: "network_access", Asked: fmt.Sprint(s.network), Reported: fmt.Sprint(r.Sandbox.network())})
		}
	}
	reported := slices.DeleteFunc(slices.Clone(r.Sandbox.WritableRoots), func(dir string) bool {
		return s.memories != "" && filepath.Clean(dir) == s.memories && !slices.Contains(s.roots, dir)
	})
	if (r.Sandbox.Type == "workspaceWrite" || s.profile != "") && !sameSet(s.roots, reported) {
		d = append(d, sessions.Difference{Name: "writable_roots", Asked: list(s.roots), Reported: list(reported)})
	}
	// Older versions have no reviewer but the user. Another one would answer approvals in the user's place.
	if r.Reviewer != "" && r.Reviewer != reviewerUser {
		d = append(d, sessions.Difference{Name: "approvals_reviewer", Asked: reviewerUser, Reported: r.Reviewer})
	}
	return d
}

const reviewerUser = "user"

// sameDir: Codex may name a directory by its real path.
func sameDir(asked, reported string) bool {
	if filepath.Clean(asked) == filepath.Clean(reported) {
		return true
	}
	a, errA := os.Stat(asked)
	b, errB := os.Stat(reported)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func sameSet(a, b []string) bool {
	clean := func(in []string) []string {
		out := make([]string, len(in))
		for i, s := range in {
			out[i] = filepath.Clean(s)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return slices.EqualFunc(clean(a), clean(b), sameDir)
}

// differences is everything asked that is not confirmed.
func (s *selection) differences() []sessions.Difference {
	return append(s.asked.Unconfirmed(s.evidence), s.others...)
}

// pair is what events carry.
func (s *selection) pair() *sessions.Selections {
	return &sessions.Selections{Asked: s.asked, Evidence: s.evidence}
}

// checkNames refuses what this runner has no word for, before anything is sent.
func checkNames(s sessions.Selection) error {
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{
		{"mode", s.Mode, []string{modeDefault, modePlan}},
		{"sandbox", s.Sandbox, []string{sessions.SandboxReadOnly, sessions.SandboxWorkspaceWrite, sessions.SandboxFullAccess}},
		{"approval_policy", s.ApprovalPolicy, []string{sessions.ApprovalUntrusted, sessions.ApprovalOnRequest, sessions.ApprovalNever}},
	} {
		if f.value != "" && !slices.Contains(f.allowed, f.value) {
			return sessions.Errorf(sessions.CodeInvalidParams, "%s %q is none of %s", f.name, f.value, list(f.allowed)).Do("use one of them")
		}
	}
	return nil
}

// Modes of collaboration.
const (
	modeDefault = "default"
	modePlan    = "plan"
)
