package acp

import (
	"encoding/json"
	"errors"
)

// protocolVersion is the only version spoken. Version 2 is a draft (schema of 2.4.0, experimental); six real agents
// answered 1 even to 99.
const protocolVersion = 1

// Methods of the protocol, and Cursor's own.
const (
	methodInitialize   = "initialize"
	methodAuthenticate = "authenticate"
	methodNew          = "session/new"
	methodLoad         = "session/load"
	methodResume       = "session/resume"
	methodClose        = "session/close"
	methodPrompt       = "session/prompt"
	methodCancel       = "session/cancel"
	methodSetMode      = "session/set_mode"
	methodSetOption    = "session/set_config_option"
	methodUpdate       = "session/update"
	methodPermission   = "session/request_permission"
	methodElicit       = "elicitation/create"
	methodElicited     = "elicitation/complete"
	methodCancelReq    = "$/cancel_request"
	methodList         = "session/list"

	methodReadFile    = "fs/read_text_file"
	methodWriteFile   = "fs/write_text_file"
	methodTermCreate  = "terminal/create"
	methodTermOutput  = "terminal/output"
	methodTermWait    = "terminal/wait_for_exit"
	methodTermKill    = "terminal/kill"
	methodTermRelease = "terminal/release"

	cursorAsk    = "cursor/ask_question"
	cursorPlan   = "cursor/create_plan"
	cursorTodos  = "cursor/update_todos"
	cursorTask   = "cursor/task"
	cursorImage  = "cursor/generate_image"
	cursorModels = "cursor/list_available_models"
	cursorLogin  = "cursor_login" // an authentication method
)

// Error codes of the protocol beside JSON-RPC's.
const (
	codeCancelled    = -32800
	codeAuthRequired = -32000
	codeNoResource   = -32002
)

// decode reads what a peer sent. A member of the wrong type is left at its zero value and costs nothing else, as the
// protocol's schema asks of every reader; only what is no JSON at all is an error. Nothing and null are the zero value.
func decode(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	err := json.Unmarshal(raw, v)
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return nil
	}
	return err
}

type initializeParams struct {
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientCapabilities clientCapabilities `json:"clientCapabilities"`
	ClientInfo         implementation     `json:"clientInfo"`
}

// clientCapabilities leaves fs and terminal out where they are not served.
type clientCapabilities struct {
	FS       *fileCapabilities `json:"fs,omitempty"`
	Terminal bool              `json:"terminal,omitempty"`
	Session  struct {
		ConfigOptions struct {
			Boolean struct{} `json:"boolean"`
		} `json:"configOptions"`
	} `json:"session"`
	Elicitation struct {
		Form struct{} `json:"form"`
		URL  struct{} `json:"url"`
	} `json:"elicitation"`
	Meta struct {
		// Without it Cursor offers one fixed variant per model (seen in 2026.06 to 2026.10).
		ParameterizedModelPicker bool `json:"parameterizedModelPicker"`
	} `json:"_meta"`
}

type fileCapabilities struct {
	Read  bool `json:"readTextFile"`
	Write bool `json:"writeTextFile"`
}

type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

func newInitialize(o Options) initializeParams {
	p := initializeParams{
		ProtocolVersion: protocolVersion,
		ClientInfo:      implementation{Name: "baton", Title: "Baton", Version: o.ClientVersion},
	}
	p.ClientCapabilities.Meta.ParameterizedModelPicker = true
	return p
}

type initializeResult struct {
	ProtocolVersion   json.RawMessage   `json:"protocolVersion"`
	AgentCapabilities agentCapabilities `json:"agentCapabilities"`
	AuthMethods       []authMethod      `json:"authMethods"`
	AgentInfo         implementation    `json:"agentInfo"`
}

type agentCapabilities struct {
	LoadSession        bool `json:"loadSession"`
	PromptCapabilities struct {
		Image bool `json:"image"`
	} `json:"promptCapabilities"`
	SessionCapabilities struct {
		Resume json.RawMessage `json:"resume"`
		Close  json.RawMessage `json:"close"`
		List   json.RawMessage `json:"list"`
	} `json:"sessionCapabilities"`
	raw json.RawMessage
}

func (c *agentCapabilities) UnmarshalJSON(raw []byte) error {
	type plain agentCapabilities
	c.raw = append(json.RawMessage(nil), raw...)
	return decode(raw, (*plain)(c))
}

// offered tells whether a capability that is an object is there: {} offers, null and nothing do not.
func offered(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "null" && string(raw) != "false"
}

type authMethod struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"` // terminal: a program to run, never a method to call
}

type sessionParams struct {
	SessionID  string     `json:"sessionId,omitempty"`
	Cwd        string     `json:"cwd"`
	MCPServers []struct{} `json:"mcpServers"` // required, also when empty
}

// sessionResult answers session/new, load and resume. For the latter two it may be null and carries no sessionId.
type sessionResult struct {
	SessionID     string          `json:"sessionId"`
	Modes         *modes          `json:"modes"`
	Models        *models         `json:"models"` // no longer in the schema, still sent
	ConfigOptions json.RawMessage `json:"configOptions"`
}

type modes struct {
	Current   string `json:"currentModeId"`
	Available []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"availableModes"`
}

type models struct {
	Current   string `json:"currentModelId"`
	Available []struct {
		ID   string `json:"modelId"`
		Name string `json:"name"`
	} `json:"availableModels"`
}

type setOptionParams struct {
	SessionID string `json:"sessionId"`
	ConfigID  string `json:"configId"`
	Type      string `json:"type,omitempty"` // boolean, with a boolean value
	Value     any    `json:"value"`
}

type setOptionResult struct {
	ConfigOptions json.RawMessage `json:"configOptions"`
}

type setModeParams struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

type sessionID struct {
	SessionID string `json:"sessionId"`
}

type promptParams struct {
	SessionID string  `json:"sessionId"`
	Prompt    []block `json:"prompt"`
}

type promptResult struct {
	StopReason string     `json:"stopReason"`
	Usage      *turnUsage `json:"usage"` // unstable; opencode, codex-acp and claude send it
}

type turnUsage struct {
	Input     int64 `json:"inputTokens"`
	Output    int64 `json:"outputTokens"`
	Total     int64 `json:"totalTokens"`
	Thought   int64 `json:"thoughtTokens"`
	CacheRead int64 `json:"cachedReadTokens"`
}

// block is a content block, sent and received. Kinds that are not known keep their type and nothing else.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
	Data     string `json:"data,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	Resource *struct {
		URI  string `json:"uri"`
		Text string `json:"text"`
	} `json:"resource,omitempty"`
}

// text is what of a block can be read as text: links and embedded resources in Markdown, nothing of images and audio.
func (b block) text() string {
	switch b.Type {
	case "text":
		return b.Text
	case "resource_link":
		return "[" + b.Name + "](" + b.URI + ")"
	case "resource":
		if b.Resource != nil {
			return b.Resource.Text
		}
	}
	return ""
}
