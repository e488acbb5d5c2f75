package sessions

import (
	"encoding/json"
	"time"
)

// Session is one conversation with one native agent, as every front end shows it.
type Session struct {
	SessionID   string         `json:"session_id"`
	Principal   string         `json:"principal,omitempty"`
	Runner      string         `json:"runner"`
	Cwd         string         `json:"cwd"`
	Title       string         `json:"title,omitempty"`
	State       SessionState   `json:"state"`
	NeedsInput  bool           `json:"needs_input"`
	Generation  string         `json:"generation,omitempty"`
	NativeID    string         `json:"native_id,omitempty"`
	Selections  Selections     `json:"selections"`
	Capability  Capabilities   `json:"capabilities"`
	Requests    []Request      `json:"requests"`          // pending and answering ones, oldest first
	Running     *Command       `json:"running,omitempty"` // submitted or accepted
	Queued      []Command      `json:"queued"`
	Last        *Command       `json:"last,omitempty"` // the command that settled last
	Lease       string         `json:"lease,omitempty"`
	WorkspaceID string         `json:"workspace_id,omitempty"`
	NodeID      string         `json:"node_id"` // local
	Origin      string         `json:"origin"`  // baton, adopted
	Containment Containment    `json:"containment"`
	Cursor      string         `json:"cursor"`             // the end of its events now
	Recovery    string         `json:"recovery,omitempty"` // one sentence: what the user can do next
	Error       *Error         `json:"error,omitempty"`    // why it failed
	Usage       *Usage         `json:"usage,omitempty"`
	Spent       *Spent         `json:"spent,omitempty"` // in all generations, where it is counted
	Options     map[string]any `json:"runner_options,omitempty"`
	CreatedAt   time.Time      `json:"created_at"`
	UpdatedAt   time.Time      `json:"updated_at"`
}

// Containment says how the session's processes are held and which policy is enforced by whom.
type Containment struct {
	Rung   string `json:"rung,omitempty"`   // pid_namespace, subreaper, process_group
	Policy string `json:"policy,omitempty"` // the sandbox in force
	By     string `json:"by,omitempty"`     // agent, bridge, none: who enforces the policy
}

// Capabilities is what the agent behind a session can do, as it reported itself.
type Capabilities struct {
	Resume  bool            `json:"resume"`
	Steer   bool            `json:"steer"`
	Images  bool            `json:"images"`
	Modes   []string        `json:"modes,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// Command is one send, named by a caller-chosen id; it becomes at most one turn.
type Command struct {
	CommandID   string       `json:"command_id"`
	Session     string       `json:"session_id,omitempty"`
	Generation  string       `json:"generation,omitempty"`
	State       CommandState `json:"state"`
	Outcome     string       `json:"outcome,omitempty"`
	Reason      string       `json:"reason,omitempty"`
	Turn        string       `json:"turn,omitempty"` // the agent's turn id
	CreatedAt   time.Time    `json:"created_at,omitzero"`
	SubmittedAt time.Time    `json:"submitted_at,omitzero"`
	SettledAt   time.Time    `json:"settled_at,omitzero"`
	CancelAsked bool         `json:"cancel_asked,omitempty"`
	Acked       bool         `json:"acknowledged,omitempty"` // a caller acknowledged the unknown outcome
	Usage       *Usage       `json:"usage,omitempty"`
}

// Runner is one kind of native agent, as runner_list shows it.
type Runner struct {
	Name       string          `json:"name"`
	Protocol   string          `json:"protocol"` // app-server, acp
	Installed  bool            `json:"installed"`
	Executable string          `json:"executable,omitempty"`
	Version    string          `json:"version,omitempty"`
	Login      string          `json:"login"` // yes, no, unknown
	Models     []Model         `json:"models"`
	Modes      []string        `json:"modes"`
	Capability map[string]any  `json:"capabilities"`
	Problem    string          `json:"problem,omitempty"` // why it cannot be used, and what to do
	Raw        json.RawMessage `json:"-"`
}

// Model is one model that a runner offers.
type Model struct {
	ID      string   `json:"id"`
	Name    string   `json:"name,omitempty"`
	Efforts []string `json:"efforts,omitempty"`
	Default bool     `json:"default,omitempty"`
}
