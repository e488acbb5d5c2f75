package appserver

import "encoding/json"

// The parts of the protocol that we use, as 0.171.0 has them. Everything else stays in the raw message.

type initializeParams struct {
	ClientInfo   clientInfo   `json:"clientInfo"`
	Capabilities capabilities `json:"capabilities"`
}

type clientInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

// capabilities: without experimentalApi Codex refuses collaborationMode, settings/update and backgroundTerminals.
type capabilities struct {
	ExperimentalAPI bool `json:"experimentalApi"`
}

type initializeResult struct {
	UserAgent string `json:"userAgent"`
	CodexHome string `json:"codexHome"`
}

type accountResult struct {
	Account            *struct{ Type string } `json:"account"`
	RequiresOpenaiAuth bool                   `json:"requiresOpenaiAuth"`
}

type modelListParams struct {
	IncludeHidden bool   `json:"includeHidden"`
	Cursor        string `json:"cursor,omitempty"`
}

type modelListResult struct {
	Data       []model `json:"data"`
	NextCursor string  `json:"nextCursor"`
}

type model struct {
	ID          string `json:"id"`
	Model       string `json:"model"`
	DisplayName string `json:"displayName"`
	Hidden      bool   `json:"hidden"`
	IsDefault   bool   `json:"isDefault"`
	Efforts     []struct {
		Effort string `json:"reasoningEffort"`
	} `json:"supportedReasoningEfforts"`
	DefaultEffort string   `json:"defaultReasoningEffort"`
	Modalities    []string `json:"inputModalities"`
}

// threadParams is thread/start and thread/resume.
type threadParams struct {
	ThreadID              string         `json:"threadId,omitempty"`     // resume
	ExcludeTurns          bool           `json:"excludeTurns,omitempty"` // resume
	Cwd                   string         `json:"cwd,omitempty"`
	Model                 string         `json:"model,omitempty"`
	Sandbox               string         `json:"sandbox,omitempty"`     // or permissions: Codex refuses both
	Permissions           string         `json:"permissions,omitempty"` // the name of a permission profile
	ApprovalPolicy        string         `json:"approvalPolicy,omitempty"`
	ApprovalsReviewer     string         `json:"approvalsReviewer,omitempty"`
	DeveloperInstructions string         `json:"developerInstructions,omitempty"`
	Config                map[string]any `json:"config,omitempty"`
}

type threadResult struct {
	Thread struct {
		ID   string `json:"id"`
		Path string `json:"path"`
	} `json:"thread"`
	Model             string             `json:"model"`
	ModelProvider     string             `json:"modelProvider"`
	Cwd               string             `json:"cwd"`
	ApprovalPolicy    json.RawMessage    `json:"approvalPolicy"` // a name, or {"granular":{...}}
	ApprovalsReviewer string             `json:"approvalsReviewer"`
	Sandbox           sandboxPolicy      `json:"sandbox"`
	PermissionProfile *permissionProfile `json:"activePermissionProfile"`
	Effort            string             `json:"reasoningEffort"`   // null: the model's default
	Mode              *collaborationMode `json:"collaborationMode"` // resume only
	InstructionFiles  []string           `json:"instructionSources"`
}

// sandboxPolicy is one of dangerFullAccess, readOnly, externalSandbox and workspaceWrite by its type.
type sandboxPolicy struct {
	Type                string          `json:"type"`
	WritableRoots       []string        `json:"writableRoots,omitempty"`
	NetworkAccess       json.RawMessage `json:"networkAccess,omitempty"` // a bool; a name with externalSandbox
	ExcludeTmpdirEnvVar *bool           `json:"excludeTmpdirEnvVar,omitempty"`
	ExcludeSlashTmp     *bool           `json:"excludeSlashTmp,omitempty"`
}

func (p sandboxPolicy) network() bool { return string(p.NetworkAccess) == "true" }

// collaborationMode takes precedence over a model and effort given beside it, and needs the model.
type collaborationMode struct {
	Mode     string `json:"mode"`
	Settings struct {
		Model  string  `json:"model"`
		Effort *string `json:"reasoning_effort"`
		// nil: Codex's own instructions for the mode.
		DeveloperInstructions *string `json:"developer_instructions"`
	} `json:"settings"`
}

type settingsUpdateParams struct {
	ThreadID      string             `json:"threadId"`
	SandboxPolicy *sandboxPolicy     `json:"sandboxPolicy,omitempty"`
	Permissions   string             `json:"permissions,omitempty"`
	Approval      string             `json:"approvalPolicy,omitempty"`
	Model         string             `json:"model,omitempty"`
	Effort        string             `json:"effort,omitempty"`
	Mode          *collaborationMode `json:"collaborationMode,omitempty"`
}

type settingsUpdated struct {
	ThreadID string `json:"threadId"`
	Settings struct {
		Cwd               string             `json:"cwd"`
		Model             string             `json:"model"`
		Effort            string             `json:"effort"`
		ApprovalPolicy    json.RawMessage    `json:"approvalPolicy"`
		ApprovalsReviewer string             `json:"approvalsReviewer"`
		Sandbox           sandboxPolicy      `json:"sandboxPolicy"`
		PermissionProfile *permissionProfile `json:"activePermissionProfile"`
		Mode              collaborationMode  `json:"collaborationMode"`
	} `json:"threadSettings"`
}

// userInput is one part of a prompt. Codex requires text_elements beside a text, also when there are none.
type userInput map[string]any

func textInput(text string) userInput {
	return userInput{"type": "text", "text": text, "text_elements": []struct{}{}}
}

func imageInput(path string) userInput { return userInput{"type": "localImage", "path": path} }

type turnStartParams struct {
	ThreadID        string      `json:"threadId"`
	ClientMessageID string      `json:"clientUserMessageId"`
	Input           []userInput `json:"input"`
}

type turnStartResult struct {
	Turn wireTurn `json:"turn"`
}

type turnSteerParams struct {
	turnStartParams
	ExpectedTurnID string `json:"expectedTurnId"`
}

type turnInterruptParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"` // "": whatever turn is active
}

type threadID struct {
	ThreadID string `json:"threadId"`
}

type wireTurn struct {
	ID         string     `json:"id"`
	RootTurnID string     `json:"rootTurnId"`
	Status     string     `json:"status"` // inProgress, completed, interrupted, failed
	Error      *turnError `json:"error"`
}

// recordedTurn is a turn of a thread's record. Notes of a turn carry items too, which were told before.
type recordedTurn struct {
	wireTurn
	Items []json.RawMessage `json:"items"`
}

type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"` // a name, or {name: {...}}
	Details string          `json:"additionalDetails"`
}

// turnNote is turn/started and turn/completed.
type turnNote struct {
	ThreadID string   `json:"threadId"`
	Turn     wireTurn `json:"turn"`
}

type itemNote struct {
	ThreadID string          `json:"threadId"`
	TurnID   string          `json:"turnId"`
	Item     json.RawMessage `json:"item"`
}

type fileChange struct {
	Path string `json:"path"`
	Kind struct {
		Type     string `json:"type"`
		MovePath string `json:"move_path,omitempty"`
	} `json:"kind"`
	Diff string `json:"diff"`
}
