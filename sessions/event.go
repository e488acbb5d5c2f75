package sessions

import (
	"encoding/json"
	"time"
)

// EventKind names what happened. The list only grows.
type EventKind string

const (
	EventSessionStarted    EventKind = "session.started"
	EventSessionClosed     EventKind = "session.closed"
	EventSessionFailed     EventKind = "session.failed"
	EventTurnStarted       EventKind = "turn.started"
	EventTurnCompleted     EventKind = "turn.completed"
	EventText              EventKind = "text"
	EventReasoning         EventKind = "reasoning"
	EventPlan              EventKind = "plan"
	EventToolStarted       EventKind = "tool.started"
	EventToolUpdated       EventKind = "tool.updated"
	EventToolCompleted     EventKind = "tool.completed"
	EventApprovalRequested EventKind = "approval.requested"
	EventQuestionRequested EventKind = "question.requested"
	EventRequestResolved   EventKind = "request.resolved"
	EventCommandSubmitted  EventKind = "command.submitted"
	EventCommandAccepted   EventKind = "command.accepted"
	EventCommandSettled    EventKind = "command.settled"
	EventSelectionConfirm  EventKind = "selection.confirmed"
	EventSelectionChanged  EventKind = "selection.changed"
	EventUsage             EventKind = "usage"
	EventWarning           EventKind = "warning"
	EventError             EventKind = "error"
	EventGap               EventKind = "gap"
)

// EventKinds is every kind there is, in the order of the documentation.
func EventKinds() []EventKind {
	return []EventKind{EventSessionStarted, EventSessionClosed, EventSessionFailed, EventTurnStarted, EventTurnCompleted,
		EventText, EventReasoning, EventPlan, EventToolStarted, EventToolUpdated, EventToolCompleted,
		EventApprovalRequested, EventQuestionRequested, EventRequestResolved, EventCommandSubmitted,
		EventCommandAccepted, EventCommandSettled, EventSelectionConfirm, EventSelectionChanged, EventUsage,
		EventWarning, EventError, EventGap}
}

// Event is one thing that happened in a session. Adapters fill what they know (Kind, Command, Turn, Item, Agent and one
// payload); the bridge stamps At; the host stamps Session, Generation, Seq and Lease when it journals the event.
type Event struct {
	Session    string    `json:"session,omitempty"`
	Generation string    `json:"generation,omitempty"`
	Seq        int64     `json:"seq,omitempty"` // from 1 per session, without gaps
	At         time.Time `json:"at,omitzero"`
	Kind       EventKind `json:"kind"`
	Command    string    `json:"command,omitempty"` // our command id
	Turn       string    `json:"turn,omitempty"`    // the agent's turn id, where it has one
	Item       string    `json:"item,omitempty"`    // the agent's item or tool id; text is keyed by it
	Agent      string    `json:"agent,omitempty"`   // sub-agent path, empty for the root
	Lease      string    `json:"lease,omitempty"`

	Text      string          `json:"text,omitempty"`      // text, reasoning, plan: a delta; warning, error: the message; command.submitted: the prompt, where events are read
	Final     bool            `json:"final,omitempty"`     // text, plan: Text is the item's whole and last text, not a delta
	Abandoned bool            `json:"abandoned,omitempty"` // text: the item will never complete (a retry or steer replaced it)
	Late      bool            `json:"late,omitempty"`      // arrived after its turn had ended
	Replay    bool            `json:"replay,omitempty"`    // from before the session was Baton's, as the agent's record has it: evidence of nothing
	Redacted  bool            `json:"redacted,omitempty"`  // something in it was taken for a secret, and [redacted] stands in its place
	Tool      *Tool           `json:"tool,omitempty"`      // tool.*
	Request   *Request        `json:"request,omitempty"`   // approval.requested, question.requested, request.resolved
	Settled   *Settlement     `json:"settled,omitempty"`   // command.settled, turn.completed
	Selection *Selections     `json:"selection,omitempty"` // selection.*
	Usage     *Usage          `json:"usage,omitempty"`     // usage
	Spent     *Spent          `json:"spent,omitempty"`     // usage, turn.completed: what the session has used, where that is counted and has changed
	Code      Code            `json:"code,omitempty"`      // error, session.failed, warning
	Gap       *Gap            `json:"gap,omitempty"`       // gap
	Data      map[string]any  `json:"data,omitempty"`      // what a kind carries beyond the above
	Raw       json.RawMessage `json:"raw,omitempty"`       // the agent's own message, where it carries more

	// From an adapter to its bridge, which looks for secrets in all of a text: Cut, with Final, tells that the agent had not
	// come to the end of it, and Follows is the item that was cut so and that this one goes on with.
	Cut     bool   `json:"-"`
	Follows string `json:"-"`
}

// Tool is a tool call of the agent.
type Tool struct {
	Name   string          `json:"name,omitempty"` // command, file_change, mcp, search, ...: the agent's kind
	Title  string          `json:"title,omitempty"`
	Status string          `json:"status,omitempty"` // in_progress, completed, failed, declined, cancelled, unfinished (its turn ended without it)
	Output string          `json:"output,omitempty"`
	Exit   *int            `json:"exit,omitempty"` // a command's exit status
	Paths  []string        `json:"paths,omitempty"`
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Settlement is how a command ended.
type Settlement struct {
	Command string       `json:"command,omitempty"`
	State   CommandState `json:"state"`
	Outcome string       `json:"outcome,omitempty"` // the agent's or our word: end_turn, max_tokens, refusal, an error code
	Reason  string       `json:"reason,omitempty"`  // one sentence for a person
	By      string       `json:"by,omitempty"`      // evidence that settled an unknown: the agent's record, no delivery
}

// Usage counts tokens; zero fields were not reported.
type Usage struct {
	Input     int64   `json:"input_tokens,omitempty"`
	Cached    int64   `json:"cached_input_tokens,omitempty"`
	Output    int64   `json:"output_tokens,omitempty"`
	Reasoning int64   `json:"reasoning_tokens,omitempty"`
	Total     int64   `json:"total_tokens,omitempty"`
	Window    int64   `json:"context_window,omitempty"`
	Cost      float64 `json:"cost_usd,omitempty"`
}

// Spent is what a session has used in all its generations, as its adapter counts it. Budgets go by it.
type Spent struct {
	Tokens      int64 `json:"tokens,omitempty"`       // of the conversation, as the agent counts
	AgentTokens int64 `json:"agent_tokens,omitempty"` // of its sub-agents
	TurnMillis  int64 `json:"turn_ms,omitempty"`      // that turns ran
}

// Gap is a range of events that can no longer be read.
type Gap struct {
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Reason string `json:"reason"`
}
