package acp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// Foreign asks an agent about the conversations that it keeps. The protocol tells of them with session/list, and of what
// happened in one with session/load alone, which takes it up: who reads one has it open as long as the agent runs. It owns
// the link and has closed it when it returns.
func Foreign(ctx context.Context, conn *wire.Conn, ask sessions.ForeignAsk, o Options) (said sessions.ForeignSaid, err error) {
	o.Files, o.Start = false, nil
	a := New(conn, discard{}, o)
	defer func() {
		conn.Close()
		<-a.Done()
	}()
	err = a.do(ctx, func(reply func(error)) {
		var failed error
		said, failed = a.foreign(ctx, ask)
		reply(failed)
	})
	return said, err
}

// discard is the sink of a link without a session.
type discard struct{}

func (discard) Emit(sessions.Event) {}

// foreign is Foreign, on the loop.
func (a *Agent) foreign(ctx context.Context, ask sessions.ForeignAsk) (said sessions.ForeignSaid, err error) {
	a.phase = phaseOpening // what the agent asks meanwhile is declined
	if err := a.initialize(ctx, ""); err != nil {
		return said, err
	}
	if !offered(a.initial.AgentCapabilities.SessionCapabilities.List) {
		return said, sessions.Errorf(sessions.CodeUnsupported, "this agent does not tell of its conversations (no session/list)").
			Do("look at them in the agent itself")
	}
	if ask.NativeID != "" { // a list, perhaps of every agent there is, is no reason for one of them to open a browser
		if err := a.authenticate(ctx); err != nil {
			return said, err
		}
	}
	_, err = a.conversations(ctx, ask.Cwd, func(c conversation) bool {
		if ask.NativeID == "" {
			said.Conversations = append(said.Conversations, c.shown())
			return ask.Limit <= 0 || len(said.Conversations) < ask.Limit
		}
		if c.ID == ask.NativeID {
			said.Conversations = []sessions.Conversation{c.shown()}
		}
		return len(said.Conversations) == 0
	})
	if err != nil || ask.NativeID == "" {
		return said, err
	}
	if len(said.Conversations) == 0 {
		return said, sessions.Errorf(sessions.CodeNotFound, "the agent has no conversation %.80q", ask.NativeID).
			Do("baton list --foreign shows what there is")
	}
	if !ask.Events {
		return said, nil
	}
	if _, err := a.resume(ctx, sessions.OpenParams{NativeID: ask.NativeID, Cwd: said.Conversations[0].Cwd, HadTurn: true, Replay: true}); err != nil {
		return said, err
	}
	said.Events = a.retold()
	return said, nil
}

// conversation is an entry of session/list.
type conversation struct {
	ID      string `json:"sessionId"`
	Cwd     string `json:"cwd"`
	Title   string `json:"title"`
	Updated string `json:"updatedAt"`
}

func (c conversation) shown() sessions.Conversation {
	s := sessions.Conversation{NativeID: c.ID, Cwd: c.Cwd, Title: c.Title}
	if at, err := time.Parse(time.RFC3339, c.Updated); err == nil {
		s.UpdatedAt = at.UTC()
	}
	return s
}

// retelling collects the replay of a conversation that was never a session's. It is what the agent says of itself: of a
// tool that was rejected some say that it was completed (zed's codex-acp 0.16.0).
type retelling struct {
	past sessions.History
	feed *feed
	user *item // a prompt of the user's, while its chunks come
}

func newRetelling(hide sessions.Redactor) *retelling {
	r := &retelling{}
	r.feed = &feed{command: "past", hide: hide, tools: map[string]*tool{}, ids: map[string]bool{}}
	r.feed.emit = func(e sessions.Event) {
		switch e.Kind {
		case sessions.EventText, sessions.EventPlan:
			if !e.Final {
				return
			}
		case sessions.EventReasoning, sessions.EventToolCompleted:
		default:
			return
		}
		e.Raw = nil
		r.past.Add(e)
	}
	return r
}

// take is one update of the replay.
func (r *retelling) take(kind, message string, raw json.RawMessage) {
	if kind == updateUser {
		r.prompt(message, readBlock(raw))
		return
	}
	r.prompted()
	switch kind {
	case updateText:
		r.feed.chunk(sessions.EventText, message, readBlock(raw), raw)
	case updateThought:
		r.feed.chunk(sessions.EventReasoning, message, readBlock(raw), raw)
	case updatePlan:
		r.feed.plan(raw)
	case updateTool, updateToolMore:
		var c toolCall
		if decode(raw, &c) == nil && c.ID != "" {
			r.feed.call(c, raw)
		}
	}
}

// prompt takes a chunk of a user's message; one with another id, or after something else, begins a new one.
func (r *retelling) prompt(message string, content block) {
	if r.user != nil && message != "" && r.user.message != message {
		r.prompted()
	}
	if r.user == nil {
		r.feed.finish("unfinished")
		r.feed.tools, r.feed.order = map[string]*tool{}, nil
		r.user = &item{message: message}
	}
	r.user.whole.WriteString(content.text())
}

func (r *retelling) prompted() {
	if r.user == nil {
		return
	}
	r.past.Add(sessions.Event{Kind: sessions.EventCommandSubmitted, Text: r.user.whole.String()})
	r.user = nil
}

// retold is what the replay told.
func (a *Agent) retold() []sessions.Event {
	r := a.retelling
	a.retelling = nil
	if r == nil {
		return nil // session/resume replays nothing
	}
	r.prompted()
	r.feed.finish("unfinished")
	return r.past.Events()
}
