package sessions

import (
	"context"
	"encoding/json"
)

// Limits of the interface. Times are in seconds where the name says so.
const (
	DefaultPrincipal   = "local"
	MaxPromptBytes     = 1 << 20
	MaxQueue           = 100
	MaxWaitSessions    = 50
	MaxWaitSeconds     = 50
	DefaultWaitSeconds = 20
	DefaultSlice       = 25 // seconds after which a tool answers by default
	DefaultReadLimit   = 200
	MaxReadLimit       = 500
	DefaultMaxChars    = 8000
	MaxChars           = 40000
	MaxReadBytes       = 2 << 20
)

// Caller is who makes a call, and from where. A front end fills it once; it is never part of a call's meaning.
type Caller struct {
	Principal string   `json:"principal"`
	Env       []string `json:"env,omitempty"` // the allow-listed part of the front end's environment, for create and resume
	Client    string   `json:"client,omitempty"`
	// Folders are those that the caller is bound to: real paths, in which its sessions work and in no other. None: it is not
	// bound.
	Folders []string `json:"folders,omitempty"`
}

// API is everything a front end can ask of Baton. The host implements it; a client of the host's socket implements it
// for other processes. Every error is, or wraps, an *Error of the table. Contexts end the call and its wait, never the
// work that it started.
type API interface {
	RunnerList(ctx context.Context, who Caller, a RunnerListArgs) (RunnerListResult, error)
	Create(ctx context.Context, who Caller, a CreateArgs) (CreateResult, error)
	Send(ctx context.Context, who Caller, a SendArgs) (SendResult, error)
	Wait(ctx context.Context, who Caller, a WaitArgs) (WaitResult, error)
	Read(ctx context.Context, who Caller, a ReadArgs) (ReadResult, error)
	Respond(ctx context.Context, who Caller, a RespondArgs) (RespondResult, error)
	Cancel(ctx context.Context, who Caller, a CancelArgs) (CancelResult, error)
	Close(ctx context.Context, who Caller, a CloseArgs) (CloseResult, error)
	Resume(ctx context.Context, who Caller, a ResumeArgs) (ResumeResult, error)
	List(ctx context.Context, who Caller, a ListArgs) (ListResult, error)
	Changed(ctx context.Context, who Caller, a ChangedArgs) (ChangedResult, error)
}

// Guard may be given with any call on a session: what is named must hold, or nothing is done.
type Guard struct {
	LeaseID    string `json:"lease_id,omitempty" jsonschema:"only while this lease steers the session"`
	Generation string `json:"generation,omitempty" jsonschema:"only while this generation is the live one"`
}

// RunnerListArgs asks for the runners.
type RunnerListArgs struct {
	Refresh bool `json:"refresh,omitempty" jsonschema:"ask the installed programs again instead of using what is cached"`
}

// RunnerListResult is the answer of RunnerList.
type RunnerListResult struct {
	Runners []Runner `json:"runners"`
}

// MCPServer is an MCP server that the agent shall use in this session. Its env and headers are secret.
type MCPServer struct {
	Name    string            `json:"name"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Settings are the selections and surroundings that create and resume take alike.
type Settings struct {
	Model          string            `json:"model,omitempty" jsonschema:"model id as runner_list shows it; confirmed with the agent before the first prompt"`
	Effort         string            `json:"effort,omitempty" jsonschema:"reasoning effort; confirmed like the model"`
	Mode           string            `json:"mode,omitempty" jsonschema:"default or plan"`
	Sandbox        string            `json:"sandbox,omitempty" jsonschema:"read-only, workspace-write (default) or danger-full-access"`
	ApprovalPolicy string            `json:"approval_policy,omitempty" jsonschema:"untrusted, on-request (default) or never"`
	AutoAnswer     string            `json:"auto_answer,omitempty" jsonschema:"a policy that answers approvals for you: none (default), approve-edits, approve-all, deny-all; events name it"`
	WritableRoots  []string          `json:"writable_roots,omitempty" jsonschema:"further absolute directories the agent may write"`
	Env            map[string]string `json:"env,omitempty" jsonschema:"extra environment of the agent; values are secret and never stored"`
	EnvUnset       []string          `json:"env_unset,omitempty" jsonschema:"names to leave out of the agent's environment"`
	MCPServers     []MCPServer       `json:"mcp_servers,omitempty" jsonschema:"MCP servers the agent shall use"`
	RunnerOptions  map[string]any    `json:"runner_options,omitempty" jsonschema:"options of this runner alone"`
	Profile        string            `json:"profile,omitempty" jsonschema:"account profile"`
}

// Selection is the part of the settings that must be confirmed.
func (s Settings) Selection() Selection {
	return Selection{Model: s.Model, Effort: s.Effort, Mode: s.Mode, Sandbox: s.Sandbox, ApprovalPolicy: s.ApprovalPolicy, Profile: s.Profile}
}

// CreateArgs asks for a new session.
type CreateArgs struct {
	Runner    string `json:"runner" jsonschema:"codex, cursor, or a runner of the configuration"`
	Cwd       string `json:"cwd" jsonschema:"absolute path of an existing directory the agent works in"`
	SessionID string `json:"session_id,omitempty" jsonschema:"reserve this lowercase UUID: creating it again returns the same session"`
	Title     string `json:"title,omitempty"`
	Settings
	Prompt      string `json:"prompt,omitempty" jsonschema:"first command, sent once everything is confirmed"`
	CommandID   string `json:"command_id,omitempty" jsonschema:"id of that first command"`
	WaitSeconds *int   `json:"wait_seconds,omitempty" jsonschema:"how long to wait for the session to be ready (default 20), and for its prompt"`
	Key         string `json:"key,omitempty" jsonschema:"idempotency key; a session_id is one too"`
}

// CreateResult is the answer of Create.
type CreateResult struct {
	Session Session  `json:"session"`
	Command *Command `json:"command,omitempty"`
	Text    string   `json:"text,omitempty"`
}

// SendArgs asks for a turn.
type SendArgs struct {
	SessionID       string   `json:"session_id"`
	Text            string   `json:"text" jsonschema:"the prompt, at most 1 MiB"`
	Images          []string `json:"images,omitempty" jsonschema:"paths of images in the workspace"`
	CommandID       string   `json:"command_id,omitempty" jsonschema:"a new id for this command, up to 128 characters; sending it again never runs it twice"`
	WhenBusy        string   `json:"when_busy,omitempty" jsonschema:"refuse (default), queue or steer"`
	Model           string   `json:"model,omitempty"`
	Effort          string   `json:"effort,omitempty"`
	Mode            string   `json:"mode,omitempty"`
	DeadlineSeconds int      `json:"deadline_seconds,omitempty" jsonschema:"cancel the turn when it runs longer"`
	WaitSeconds     *int     `json:"wait_seconds,omitempty" jsonschema:"how long to wait for the end of the turn (default 0)"`
	MaxChars        int      `json:"max_chars,omitempty"`
	Guard
}

// SendResult is the answer of Send. Text and usage are there when the command settled in time.
type SendResult struct {
	Command Command `json:"command"`
	Session Session `json:"session"`
	Text    string  `json:"text,omitempty"`
	Usage   *Usage  `json:"usage,omitempty"`
}

// WaitArgs asks to be woken.
type WaitArgs struct {
	SessionIDs  []string          `json:"session_ids,omitempty" jsonschema:"up to 50; none means any session of yours"`
	After       map[string]string `json:"after,omitempty" jsonschema:"cursor by session id: only what is newer counts"`
	Until       string            `json:"until,omitempty" jsonschema:"settled_or_input (default) or event"`
	WaitSeconds *int              `json:"wait_seconds,omitempty" jsonschema:"at most 50 (default 20)"`
	MaxChars    int               `json:"max_chars,omitempty"`
}

// WaitResult is the answer of Wait.
type WaitResult struct {
	Sessions []Waited `json:"sessions"`
	TimedOut bool     `json:"timed_out"`
	Next     string   `json:"next,omitempty"` // one sentence: what to call next
}

// Waited is one session of a WaitResult.
type Waited struct {
	Session Session `json:"session"`
	Text    string  `json:"text,omitempty"` // the final message since the cursor, budgeted
	Cursor  string  `json:"cursor"`
}

// ReadArgs asks for a page of events.
type ReadArgs struct {
	SessionID string      `json:"session_id"`
	After     string      `json:"after,omitempty" jsonschema:"cursor; left out: from the beginning"`
	Limit     int         `json:"limit,omitempty" jsonschema:"events per page (200, at most 500)"`
	Kinds     []EventKind `json:"kinds,omitempty"`
	MaxChars  int         `json:"max_chars,omitempty" jsonschema:"budget of all texts together (8000, at most 40000)"`
	Guard
}

// ReadResult is the answer of Read.
type ReadResult struct {
	Events  []Event `json:"events"`
	Cursor  string  `json:"cursor"`
	HasMore bool    `json:"has_more"`
	Gap     *Gap    `json:"gap,omitempty"`
}

// RespondArgs answers a request.
type RespondArgs struct {
	SessionID string              `json:"session_id"`
	RequestID string              `json:"request_id"`
	Decision  string              `json:"decision,omitempty" jsonschema:"approve or deny"`
	OptionID  string              `json:"option_id,omitempty" jsonschema:"the exact option, where approve and deny are too coarse"`
	Answers   map[string][]string `json:"answers,omitempty" jsonschema:"answers by question id"`
	Form      json.RawMessage     `json:"form,omitempty" jsonschema:"a JSON object, for an elicitation"`
	Scope     string              `json:"scope,omitempty" jsonschema:"once (default) or session"`
	Key       string              `json:"key,omitempty" jsonschema:"idempotency key"`
	Guard
}

// RespondResult is the answer of Respond.
type RespondResult struct {
	Request Request `json:"request"`
	Session Session `json:"session"`
}

// CancelArgs cancels a command, or fences one that does not exist yet.
type CancelArgs struct {
	SessionID string `json:"session_id"`
	CommandID string `json:"command_id,omitempty" jsonschema:"default: the command that runs now"`
	Key       string `json:"key,omitempty" jsonschema:"idempotency key"`
	Guard
}

// CancelResult is the answer of Cancel.
type CancelResult struct {
	Command *Command `json:"command,omitempty"`
	Session *Session `json:"session,omitempty"`
	Fenced  bool     `json:"fenced,omitempty"` // nothing existed yet; it can never start now
}

// CloseArgs ends a session.
type CloseArgs struct {
	SessionID   string `json:"session_id"`
	Delete      bool   `json:"delete,omitempty" jsonschema:"forget the session and its events for good"`
	Key         string `json:"key,omitempty" jsonschema:"idempotency key"`
	WaitSeconds *int   `json:"wait_seconds,omitempty"`
	Guard
}

// CloseResult is the answer of Close.
type CloseResult struct {
	Session Session `json:"session"`
	Stopped string  `json:"stopped"` // confirmed, unconfirmed
	Proof   string  `json:"proof"`   // what proves it, or why nothing does
}

// ResumeArgs starts a new generation of a closed or failed session.
type ResumeArgs struct {
	SessionID string `json:"session_id"`
	Settings
	RunQueue           bool   `json:"run_queue,omitempty" jsonschema:"send what was still queued"`
	AcceptUnconfirmed  bool   `json:"accept_unconfirmed,omitempty" jsonschema:"start although the end of the old process is not proven"`
	AcknowledgeUnknown bool   `json:"acknowledge_unknown,omitempty" jsonschema:"free the session from a command whose outcome is unknown"`
	WaitSeconds        *int   `json:"wait_seconds,omitempty"`
	Key                string `json:"key,omitempty" jsonschema:"idempotency key"`
	Guard
}

// ResumeResult is the answer of Resume.
type ResumeResult struct {
	Session Session   `json:"session"`
	Settled []Command `json:"settled"` // commands settled by evidence or acknowledged
}

// ListArgs asks for sessions.
type ListArgs struct {
	Cwd    string       `json:"cwd,omitempty"`
	Runner string       `json:"runner,omitempty"`
	State  SessionState `json:"state,omitempty"`
	All    bool         `json:"all,omitempty" jsonschema:"closed and failed ones too"`
	Limit  int          `json:"limit,omitempty"`
	After  string       `json:"after,omitempty" jsonschema:"cursor of the page before"`
}

// ListResult is the answer of List.
type ListResult struct {
	Sessions []Session `json:"sessions"`
	Cursor   string    `json:"cursor"`
}
