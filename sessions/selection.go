package sessions

import (
	"encoding/json"
	"fmt"
)

// Sandbox names, as asked in a selection and reported as evidence.
const (
	SandboxReadOnly       = "read-only"
	SandboxWorkspaceWrite = "workspace-write"
	SandboxFullAccess     = "danger-full-access"
)

// Approval policies, as asked in a selection and reported as evidence.
const (
	ApprovalUntrusted = "untrusted"
	ApprovalOnRequest = "on-request"
	ApprovalNever     = "never"
)

// Selection is what a caller asks of a runner. An empty field means: the runner's own default, nothing to confirm,
// except Sandbox and ApprovalPolicy, which Create fills with workspace-write and on-request.
type Selection struct {
	Model          string `json:"model,omitempty"`
	Effort         string `json:"effort,omitempty"`
	Mode           string `json:"mode,omitempty"` // default, plan
	Sandbox        string `json:"sandbox,omitempty"`
	ApprovalPolicy string `json:"approval_policy,omitempty"`
	Profile        string `json:"profile,omitempty"`
}

// Evidence is what the agent, or the bridge's own enforcement, reported about a selection. An empty field is missing
// evidence and confirms nothing.
type Evidence struct {
	Model          string          `json:"model,omitempty"`
	Effort         string          `json:"effort,omitempty"`
	Mode           string          `json:"mode,omitempty"`
	Sandbox        string          `json:"sandbox,omitempty"`
	SandboxBy      string          `json:"sandbox_by,omitempty"` // agent, bridge: who enforces Sandbox
	ApprovalPolicy string          `json:"approval_policy,omitempty"`
	Cwd            string          `json:"cwd,omitempty"`
	AgentName      string          `json:"agent_name,omitempty"`
	AgentVersion   string          `json:"agent_version,omitempty"`
	Files          *FilePolicy     `json:"files,omitempty"`  // what the bridge enforces, whoever enforces Sandbox
	Hidden         []string        `json:"hidden,omitempty"` // of the user's own list, what the bridge sees to be hidden
	Raw            json.RawMessage `json:"raw,omitempty"`    // the agent's own report, where it carries more
}

// FilePolicy is what the bridge enforces around an agent on the machine's files. Nothing may be changed but what it
// names, unless it only hides.
type FilePolicy struct {
	Name     string   `json:"name"` // a sandbox; or hidden, which leaves the rest to the agent's own sandbox
	Writable []string `json:"writable,omitempty"`
	Private  []string `json:"private,omitempty"` // folders that the session has for itself
	ReadOnly int      `json:"read_only"`         // paths in writable folders that may not be changed: hooks, configuration
	Hidden   int      `json:"hidden"`            // paths that may not even be read: credentials, sockets
	Holes    []string `json:"holes,omitempty"`   // what was found and cannot be held, a sentence each
	// Watched are folders of git's in which no file commondir may come to be: it is removed, and ends the session.
	Watched []string `json:"watched,omitempty"`
}

// Selections pairs what was asked with what was confirmed.
type Selections struct {
	Asked    Selection `json:"asked"`
	Evidence Evidence  `json:"evidence"`
}

// Difference is one selection that the evidence does not confirm.
type Difference struct {
	Name     string `json:"name"`
	Asked    string `json:"asked"`
	Reported string `json:"reported"` // "" when the agent said nothing
}

// Unconfirmed returns the selections asked for that the evidence does not confirm word for word.
// An adapter whose agent uses other names for the same thing puts the asked name into its evidence once it has proven
// that both are one.
func (s Selection) Unconfirmed(e Evidence) []Difference {
	var d []Difference
	for _, f := range []struct{ name, asked, reported string }{
		{"model", s.Model, e.Model}, {"effort", s.Effort, e.Effort}, {"mode", s.Mode, e.Mode},
		{"sandbox", s.Sandbox, e.Sandbox}, {"approval_policy", s.ApprovalPolicy, e.ApprovalPolicy},
	} {
		if f.asked != "" && f.asked != f.reported {
			d = append(d, Difference{f.name, f.asked, f.reported})
		}
	}
	return d
}

// UnconfirmedError is the refusal for differences; nil when there are none.
func UnconfirmedError(d []Difference) error {
	if len(d) == 0 {
		return nil
	}
	said := fmt.Sprintf("the agent reported %q", d[0].Reported)
	if d[0].Reported == "" {
		said = "the agent reported nothing"
	}
	return Errorf(CodeSelectionUnconfirmed, "%s %q was asked, %s", d[0].Name, d[0].Asked, said).
		Do("ask for a value that runner_list shows for this runner, or leave it out").With("differences", d)
}
