package appserver

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// itemKey names an item: ids are unique within a thread.
type itemKey struct{ thread, id string }

// item is an item that has started and not completed.
type item struct {
	kind    string
	turn    string
	place   place
	streams sessions.EventKind // text and plan: an event that a delta of it has
	deltas  bool               // one was seen
	tool    *sessions.Tool
	changes []fileChange // for the request that asks about them and does not name them
}

// wireItem is what we read of an item. Everything of a tool that is not here goes along as it is.
type wireItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Text      string          `json:"text"`
	Phase     string          `json:"phase"`
	Delivery  string          `json:"delivery"`
	Questions json.RawMessage `json:"questions"`
	ClientID  string          `json:"clientId"`
	Summary   []string        `json:"summary"`
	Content   json.RawMessage `json:"content"`
	Review    string          `json:"review"`
	Fragments []struct {
		Text string `json:"text"`
	} `json:"fragments"`

	wireTool
	AgentThread string   `json:"agentThreadId"`
	AgentPath   string   `json:"agentPath"`
	Receivers   []string `json:"receiverThreadIds"`
	SubKind     string   `json:"kind"`
}

// itemStarted takes item/started.
func (a *Agent) itemStarted(raw json.RawMessage) error {
	n, it, err := decodeItem(raw)
	if err != nil {
		return err
	}
	p := a.place(n.ThreadID, n.TurnID)
	a.noteSubs(&it)
	open := &item{kind: it.Type, turn: n.TurnID, place: p, changes: it.Changes}
	switch it.Type {
	case "userMessage":
		a.userMessage(p, it.ClientID)
		return nil
	case "hookPrompt", "exitedReviewMode":
		return nil // all they have comes with their end
	case "agentMessage":
		a.abandonText(p.thread) // a message that has not completed by now is one that a retry or a steer cut off
		open.streams = sessions.EventText
	case "plan":
		open.streams = sessions.EventPlan
	case "reasoning":
	default:
		if it.Type == "commandExecution" {
			a.commandRuns(itemKey{p.thread, it.ID}, it.Command)
		}
		open.tool = it.tool(n.Item, "in_progress", a.o.Redact)
		e := p.event(sessions.EventToolStarted, it.ID)
		e.Tool = open.tool
		a.emit(e)
	}
	if !p.late { // after its turn nothing would ever take it away
		a.items[itemKey{p.thread, it.ID}] = open
	}
	return nil
}

// userMessage: the message of a command in a turn is proof that Codex took it. A message in a running turn is a steer,
// which cuts off what was being said.
func (a *Agent) userMessage(p place, clientID string) {
	a.abandonText(p.thread)
	if t := a.turn; t != nil && t.phase != ended && p.agent == "" && clientID != "" && clientID == t.command {
		a.accept(t)
	}
}

// itemCompleted takes item/completed. It is authoritative, and complete without anything that came before: the item of
// a command that outlives its turn comes after turn/completed.
func (a *Agent) itemCompleted(raw json.RawMessage) error {
	n, it, err := decodeItem(raw)
	if err != nil {
		return err
	}
	p := a.place(n.ThreadID, n.TurnID)
	a.noteSubs(&it)
	k := itemKey{p.thread, it.ID}
	open := a.items[k]
	delete(a.items, k)
	a.commandEnded(k)
	switch it.Type {
	case "userMessage":
	case "agentMessage":
		e := p.event(sessions.EventText, it.ID)
		e.Text, e.Final = it.Text, true
		for name, value := range map[string]string{"phase": it.Phase, "delivery": it.Delivery} {
			if value != "" {
				addData(&e, name, value)
			}
		}
		// The newest models ask in a message of their own; the answer is the next prompt.
		if len(it.Questions) > 0 && string(it.Questions) != "null" {
			addData(&e, "questions", it.Questions)
		}
		a.emit(e)
	case "plan":
		e := p.event(sessions.EventPlan, it.ID)
		e.Text, e.Final = it.Text, true
		a.emit(e)
	case "exitedReviewMode":
		e := p.event(sessions.EventText, it.ID)
		e.Text, e.Final = it.Review, true
		addData(&e, "phase", "review")
		a.emit(e)
	case "reasoning":
		if open == nil || !open.deltas { // it was not streamed
			if text := it.reasoning(); text != "" {
				e := p.event(sessions.EventReasoning, it.ID)
				e.Text = text
				a.emit(e)
			}
		}
	case "hookPrompt":
		for _, f := range it.Fragments {
			a.warn(p.event(sessions.EventWarning, it.ID), "a hook of yours told the agent: %s", f.Text)
		}
	default:
		if _, twice := a.told[k]; twice { // 0.125 completes a file change twice that was declined
			return nil
		}
		if !p.late {
			a.told[k] = n.TurnID
		}
		e := p.event(sessions.EventToolCompleted, it.ID)
		e.Tool = it.tool(n.Item, "completed", a.o.Redact)
		a.emit(e)
	}
	return nil
}

// decodeItem reads an item where it stands in its message: it may be all of a long text, or of what a command said.
func decodeItem(raw json.RawMessage) (n itemNote, it wireItem, err error) {
	if err = decode(wire.Without(raw, "item"), &n); err != nil {
		return n, it, err
	}
	n.Item = wire.Member(raw, "item")
	if own.Unmarshal(n.Item, &it) != nil { // one of the wrong type must not cost the others
		it = wireItem{}
		err = decode(n.Item, &it)
	}
	return n, it, err
}

func (it *wireItem) reasoning() string {
	if len(it.Summary) > 0 {
		return strings.Join(it.Summary, "\n\n")
	}
	var content []string
	_ = decode(it.Content, &content) // another shape is no text
	return strings.Join(content, "\n\n")
}

// noteSubs takes the names that an item gives to sub-agents.
func (a *Agent) noteSubs(it *wireItem) {
	a.nameSub(it.AgentThread, it.AgentPath)
	for _, thread := range it.Receivers {
		a.nameSub(thread, "")
	}
}

// streamed takes a delta of a text.
func streamed(kind sessions.EventKind) func(*Agent, json.RawMessage) error {
	return func(a *Agent, raw json.RawMessage) error {
		n, err := a.decodeDelta(raw)
		if err != nil {
			return err
		}
		p := a.place(n.ThreadID, n.TurnID)
		k := itemKey{p.thread, n.ItemID}
		it := a.items[k]
		if it == nil && kind != sessions.EventReasoning && !p.late {
			it = &item{turn: n.TurnID, place: p, streams: kind}
			a.items[k] = it
		}
		if it != nil {
			it.deltas = true
		}
		e := p.event(kind, n.ItemID)
		e.Text = n.Delta
		a.emit(e)
		return nil
	}
}

// reasoningPart takes the start of a further part of a summary.
func (a *Agent) reasoningPart(raw json.RawMessage) error {
	n, err := a.decodeDelta(raw)
	if err != nil {
		return err
	}
	if n.SummaryIndex > 0 {
		e := a.place(n.ThreadID, n.TurnID).event(sessions.EventReasoning, n.ItemID)
		e.Text = "\n\n"
		a.emit(e)
	}
	return nil
}

// toolOutput takes what a running tool says. The first output of a command can be missing here (line 1 of 8, once all
// of 6 MB): the completed item has it.
func (a *Agent) toolOutput(raw json.RawMessage) error {
	n, err := a.decodeDelta(raw)
	if err != nil {
		return err
	}
	p := a.place(n.ThreadID, n.TurnID)
	e := p.event(sessions.EventToolUpdated, n.ItemID)
	e.Tool = &sessions.Tool{Status: "in_progress", Output: clip(n.Delta+n.Message, a.o.Redact)}
	if it := a.items[itemKey{p.thread, n.ItemID}]; it != nil && it.tool != nil {
		e.Tool.Name = it.tool.Name
		if n.Changes != nil {
			it.changes = n.Changes
		}
	}
	if n.Stdin != "" {
		e.Tool.Detail, _ = json.Marshal(map[string]string{"stdin": clip(n.Stdin, a.o.Redact)})
	}
	if n.Changes != nil {
		e.Tool.Name, e.Tool.Paths, e.Tool.Detail = toolFileChange, paths(n.Changes), detail(map[string]any{"changes": n.Changes})
	}
	a.emit(e)
	return nil
}

// abandonText marks the texts of a thread that will never complete.
func (a *Agent) abandonText(thread string) {
	if a.isRoot(thread) {
		thread = a.root
	}
	a.abandonItems(false, func(k itemKey, it *item) bool { return k.thread == thread && it.streams != "" })
}

func (a *Agent) abandonItems(interrupted bool, which func(itemKey, *item) bool) {
	var keys []itemKey
	for k, it := range a.items {
		if which(k, it) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y itemKey) int { return strings.Compare(x.id, y.id) })
	for _, k := range keys {
		it := a.items[k]
		delete(a.items, k)
		switch {
		case it.streams != "":
			e := it.place.event(it.streams, k.id)
			e.Abandoned = true
			a.emit(e)
		case it.tool != nil && it.kind != "commandExecution" && interrupted:
			// Such an item gets no end of its own: a file change after the answer "cancel", for one. The end of a
			// command does come, when the command ends.
			e := it.place.event(sessions.EventToolCompleted, k.id)
			tool := *it.tool
			tool.Status = "cancelled"
			e.Tool = &tool
			a.emit(e)
		}
	}
}

// closeItems ends what a turn has left open.
func (a *Agent) closeItems(thread, turn string, interrupted bool) {
	for k, of := range a.told {
		if k.thread == thread && of == turn {
			delete(a.told, k)
		}
	}
	a.abandonItems(interrupted, func(k itemKey, it *item) bool { return k.thread == thread && it.turn == turn })
}

func addData(e *sessions.Event, name string, value any) {
	if e.Data == nil {
		e.Data = map[string]any{}
	}
	e.Data[name] = value
}
