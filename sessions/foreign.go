package sessions

import (
	"context"
	"fmt"
	"time"
)

// Origins of a session, and of a conversation that is none.
const (
	OriginBaton   = "baton"
	OriginAdopted = "adopted" // a session whose conversation its agent had before
	OriginForeign = "foreign" // no session: only the agent knows of it
)

// ForeignAPI is what a front end can ask about the conversations that agents keep and Baton did not begin. The host
// implements it, as a client of its socket does. Errors are those of API.
type ForeignAPI interface {
	Foreign(ctx context.Context, who Caller, a ForeignArgs) (ForeignResult, error)
	ForeignRead(ctx context.Context, who Caller, a ForeignReadArgs) (ForeignReadResult, error)
	Adopt(ctx context.Context, who Caller, a AdoptArgs) (CreateResult, error)
}

// Conversation is one that an agent keeps and that is no session.
type Conversation struct {
	NativeID  string    `json:"native_id"`
	Runner    string    `json:"runner"`
	Cwd       string    `json:"cwd"` // as its agent has it on record
	Title     string    `json:"title,omitempty"`
	Origin    string    `json:"origin"` // foreign
	Source    string    `json:"source,omitempty"`
	Model     string    `json:"model,omitempty"`
	HeldBy    *Holder   `json:"held_by,omitempty"` // nil: nobody is known to hold it
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	// Files are those whose lock, or whose being open, tells who writes the conversation, the surest first. They go no
	// further than the host.
	Files []string `json:"files,omitempty"`
}

// Holder is a process that has a conversation open for writing.
type Holder struct {
	PID     int    `json:"pid"`
	Program string `json:"program,omitempty"` // the name of its program, without arguments: they may hold a prompt
}

// ForeignArgs asks for conversations, newest first.
type ForeignArgs struct {
	Runner string `json:"runner,omitempty"` // "": every installed one
	Cwd    string `json:"cwd,omitempty"`
	Limit  int    `json:"limit,omitempty"` // of each runner; 0: 1000
}

// ForeignResult is the answer of Foreign.
type ForeignResult struct {
	Conversations []Conversation    `json:"conversations"`
	Problems      map[string]string `json:"problems,omitempty"` // why a runner could not be asked, by its name
}

// ForeignReadArgs asks for what was said and done in a conversation.
type ForeignReadArgs struct {
	Runner   string `json:"runner"`
	NativeID string `json:"native_id"`
}

// ForeignReadResult is the answer of ForeignRead. The events are numbered from 1 and marked as replay.
type ForeignReadResult struct {
	Conversation Conversation `json:"conversation"`
	Events       []Event      `json:"events"`
}

// AdoptArgs asks for a session that goes on with a conversation.
type AdoptArgs struct {
	Runner    string `json:"runner"`
	NativeID  string `json:"native_id"`
	Cwd       string `json:"cwd,omitempty"` // must be the conversation's own; "" takes that
	SessionID string `json:"session_id,omitempty"`
	Title     string `json:"title,omitempty"` // "": the conversation's own
	Settings
	WaitSeconds *int   `json:"wait_seconds,omitempty"`
	Key         string `json:"key,omitempty"`
}

// ForeignAsk is one question to an agent about its conversations: for one, with what happened in it where Events is set,
// or, without an id, for their list.
type ForeignAsk struct {
	NativeID string `json:"native_id,omitempty"`
	Events   bool   `json:"events,omitempty"`
	Cwd      string `json:"cwd,omitempty"`
	Limit    int    `json:"limit,omitempty"`
}

// ForeignSaid is an agent's answer.
type ForeignSaid struct {
	Conversations []Conversation `json:"conversations,omitempty"`
	Events        []Event        `json:"events,omitempty"`
}

// Bounds of what is taken of an agent's own record.
const (
	MaxConversations = 1000
	maxHistory       = 16 << 20 // bytes of texts
)

// History collects what happened in a conversation before it was Baton's, oldest first. What it cannot keep is the oldest.
type History struct {
	events []Event
	size   int
	lost   int
}

// Add takes an event. It is history: it belongs to no command, and proves nothing.
func (h *History) Add(e Event) {
	e.Command, e.Replay, e.Late = "", true, false
	h.events = append(h.events, e)
	h.size += weight(&e)
	for h.size > maxHistory && len(h.events) > 1 {
		h.size -= weight(&h.events[0])
		h.events = h.events[1:]
		h.lost++
	}
}

func weight(e *Event) int {
	n := 256 + len(e.Text) + len(e.Raw)
	if e.Tool != nil {
		n += len(e.Tool.Output) + len(e.Tool.Detail)
	}
	return n
}

// Events is what was kept, and before it that something was not.
func (h *History) Events() []Event {
	if h.lost == 0 {
		return h.events
	}
	gap := Event{Kind: EventWarning, Replay: true, Code: CodeLimitExceeded, Data: map[string]any{"left_out": h.lost},
		Text: "the conversation is too long to be taken over whole: its oldest part is left out here, and still in the agent's own record"}
	return append([]Event{gap}, h.events...)
}

// HeldError refuses to take up a conversation that another process has open.
func HeldError(runner string, c *Conversation) error {
	who := "another process"
	if h := c.HeldBy; h != nil {
		if who = fmt.Sprintf("process %d", h.PID); h.Program != "" {
			who += " (" + h.Program + ")"
		}
	}
	e := Errorf(CodeBusy, "conversation %s of %s is held by %s", c.NativeID, runner, who)
	if c.HeldBy != nil {
		e = e.With("held_by", c.HeldBy)
	}
	return e.Do("leave the conversation there, or end that process, then adopt it again")
}
