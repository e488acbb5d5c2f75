package appserver

import (
	"encoding/json"

	"github.com/batonmcp/baton/sessions"
)

// usageMeter turns the thread's running total into what one turn used.
type usageMeter struct {
	total sessions.Usage // of our thread, as last reported
	base  sessions.Usage // what it was when the turn began
}

func (u *usageMeter) begin() { u.base = u.total }

type tokenUsage struct {
	Total      tokens `json:"total"`
	Last       tokens `json:"last"`
	ContextMax int64  `json:"modelContextWindow"`
}

type tokens struct {
	Total     int64 `json:"totalTokens"`
	Input     int64 `json:"inputTokens"`
	Cached    int64 `json:"cachedInputTokens"`
	Output    int64 `json:"outputTokens"`
	Reasoning int64 `json:"reasoningOutputTokens"`
}

func (t tokens) usage() sessions.Usage {
	return sessions.Usage{Input: t.Input, Cached: t.Cached, Output: t.Output, Reasoning: t.Reasoning, Total: t.Total}
}

func minus(a, b sessions.Usage) sessions.Usage {
	return sessions.Usage{Input: a.Input - b.Input, Cached: a.Cached - b.Cached, Output: a.Output - b.Output,
		Reasoning: a.Reasoning - b.Reasoning, Total: a.Total - b.Total}
}

// tokenUsage takes thread/tokenUsage/updated, which comes after each round trip to the model, and once after a resume
// for a turn of the past. The event says what the turn used so far; the thread's total is beside it.
func (a *Agent) tokenUsage(raw json.RawMessage) error {
	var n struct {
		ThreadID string     `json:"threadId"`
		TurnID   string     `json:"turnId"`
		Usage    tokenUsage `json:"tokenUsage"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	p := a.place(n.ThreadID, n.TurnID)
	total := n.Usage.Total.usage()
	past := a.turn == nil && a.foreign == nil && !p.late
	a.budget.count(p.thread, p.agent == "", past, total.Total, n.Usage.Last.Total)
	defer a.checkBudget() // after the event that shows it
	e := p.event(sessions.EventUsage, "")
	e.Spent = a.budget.tell()
	addData(&e, "thread", total)
	if p.agent != "" {
		total.Window = n.Usage.ContextMax
		e.Usage = &total
		a.emit(e)
		return nil
	}
	fresh := a.usage.total == (sessions.Usage{})
	a.usage.total = total
	if fresh { // the first report of this process: what came before it is not this turn's
		a.usage.base = minus(total, n.Usage.Last.usage())
	}
	if p.command == "" && a.foreign == nil && !p.late {
		if e.Spent != nil { // a crash has kept it from being told
			a.emit(e)
		}
		return nil
	}
	used := minus(total, a.usage.base)
	used.Window = n.Usage.ContextMax
	e.Usage = &used
	a.emit(e)
	return nil
}
