package sessions

import (
	"context"
	"encoding/json"
	"errors"
)

// How the writing of one input to an agent can fail. An adapter wraps exactly one of them; the bridge reports which.
var (
	// ErrNotWritten: no byte of the input left for the agent. It may be given again.
	ErrNotWritten = errors.New("not written")
	// ErrBroken: bytes may have left. It must never be given again.
	ErrBroken = errors.New("write broken off")
)

// Agent drives one native agent process through one protocol, for one generation of a session. acp and appserver
// implement it; the bridge calls it. Methods are safe for concurrent use and serialised by the adapter.
//
// Everything the agent does comes out of the Sink that the adapter was made with, in wire order. For every command
// given to Prompt the adapter emits exactly one EventCommandSettled while its link lives; when the link ends first, the
// bridge settles what is left.
type Agent interface {
	// Open does the handshake, creates or resumes the native conversation and confirms every selection. It returns an
	// *Error when anything stays unconfirmed; no prompt has been sent then.
	Open(ctx context.Context, p OpenParams) (Opened, error)
	// Prompt writes one command. nil means that it was written whole, not that the agent took it: that is
	// EventCommandAccepted. An error wraps ErrNotWritten or ErrBroken.
	Prompt(ctx context.Context, p Prompt) error
	// Answer writes the answer of an open request. An answer to a request that is no longer open is an *Error of
	// CodeWithdrawn and wraps ErrNotWritten.
	Answer(ctx context.Context, a Answer) error
	// Cancel asks the agent to end the command, and answers what is open on its behalf. It returns when the asking is
	// written or recorded; the end comes as EventCommandSettled, with CommandInterrupted only if the agent said so.
	// Cancelling a command that is not the running one changes nothing. "" names a turn that the agent began by itself.
	Cancel(ctx context.Context, commandID string) error
	// Close ends the conversation as the protocol has it and closes the agent's standard input.
	Close(ctx context.Context) error
	// Done is closed after the link ended (for whatever reason) and the last event was emitted. Err tells why.
	Done() <-chan struct{}
	Err() error
	// Standing tells whether a process with this command line is a helper that the agent keeps for itself, so that it
	// is not taken for something that a cancelled turn left behind.
	Standing(argv []string) bool
	// Command tells whether a process with this command line, which descends from the agent, is a command that the agent
	// runs for the turn or has left running since an earlier one. An adapter that cannot know says no. It is asked at the
	// turn.completed of an interrupted turn, within Emit; what the adapter has the agent end with the cancel it ends after.
	Command(argv []string) bool
}

// Sink takes an adapter's events in order. Emit blocks when the bridge's buffer is full; it never drops.
type Sink interface {
	Emit(e Event)
}

// OpenParams is what an adapter needs to open a conversation.
type OpenParams struct {
	Session    string
	Generation string
	Runner     string
	Cwd        string
	Selection  Selection
	// BridgeSandbox is the sandbox that the bridge itself enforces around the agent, "" when it enforces none. An
	// adapter whose agent cannot report a sandbox takes it as the evidence.
	BridgeSandbox string
	Files         *FilePolicy // what it enforces, nil for nothing
	Hidden        []string    // what the user hides from every agent, under whatever policy
	WritableRoots []string
	MCPServers    []MCPServer
	Options       map[string]any
	NativeID      string   // resume this conversation; "" starts a new one
	HadTurn       bool     // whether NativeID ever ran a turn
	Unknown       []string // command ids to settle by the agent's own record, at resume
	// Turns are those of the unknown commands whose turn the agent had named when it took them.
	Turns  map[string]string `json:",omitempty"`
	Spent  Spent             // by earlier generations
	Replay bool              // NativeID was never a session's: its history is wanted
}

// Opened is what the agent confirmed.
type Opened struct {
	NativeID   string         `json:"native_id"`
	Evidence   Evidence       `json:"evidence"`
	Capability Capabilities   `json:"capabilities"`
	Settled    []Settlement   `json:"settled,omitempty"`
	Recreated  bool           `json:"recreated,omitempty"` // NativeID had nothing to resume; this is a new conversation
	Data       map[string]any `json:"data,omitempty"`
	History    []Event        `json:"-"` // of the conversation, where Replay was asked; the bridge tells it as events
}

// Prompt is one command as the adapter gets it.
type Prompt struct {
	CommandID string   `json:"command_id"`
	Text      string   `json:"text"`
	Images    []string `json:"images,omitempty"` // absolute paths
	Steer     string   `json:"steer,omitempty"`  // the running command to steer instead of starting a turn
	// From this turn on; "" keeps what is set. A change is confirmed before, or by the start of, the turn.
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
	Mode   string `json:"mode,omitempty"`
}

// Probe is what an adapter reports about a runner without any session.
type Probe struct {
	Version    string          `json:"version,omitempty"`
	Login      string          `json:"login"` // yes, no, unknown
	Models     []Model         `json:"models,omitempty"`
	Modes      []string        `json:"modes,omitempty"`
	Capability map[string]any  `json:"capabilities,omitempty"`
	Raw        json.RawMessage `json:"raw,omitempty"`
}
