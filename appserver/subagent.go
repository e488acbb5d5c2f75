package appserver

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// subAgent is a thread that our thread began. It appears on the same link without any thread/started, runs turns of its
// own and asks for approvals under its own thread id.
type subAgent struct {
	thread      string
	path        string // "/root/name" where Codex gives names, else the thread id
	command     string // the command that was running when it was first seen
	turn        string // its running turn, "" while it has none
	ended       string // the turn before
	interrupted string // the turn we have asked it to end
}

func (a *Agent) sub(thread string) *subAgent {
	s := a.subs[thread]
	if s == nil {
		s = &subAgent{thread: thread, path: thread}
		if a.turn != nil {
			s.command = a.turn.command
		}
		a.subs[thread] = s
	}
	return s
}

// nameSub takes the name that an item of our thread gives a sub-agent.
func (a *Agent) nameSub(thread, path string) {
	if thread == "" || a.isRoot(thread) {
		return
	}
	s := a.sub(thread)
	if path != "" {
		s.path = path
	}
}

func (a *Agent) activeSubs() []*subAgent {
	var active []*subAgent
	for _, s := range a.subs {
		if s.turn != "" {
			active = append(active, s)
		}
	}
	slices.SortFunc(active, func(x, y *subAgent) int { return cmp.Compare(x.thread, y.thread) })
	return active
}

func (a *Agent) subStarted(n turnNote) {
	s := a.sub(n.ThreadID)
	s.turn = n.Turn.ID
	fenced := a.turn != nil && a.turn.cancel != nil
	if p, ok := a.past.turns[n.Turn.RootTurnID]; ok {
		s.command, fenced = p.command, fenced || p.cancelled
	}
	a.emit(sessions.Event{Kind: sessions.EventTurnStarted, Command: s.command, Turn: s.turn, Agent: s.path})
	if fenced { // one that begins after its root was cancelled belongs to what was cancelled
		a.interruptSub(s)
	}
}

func (a *Agent) subEnded(n turnNote) {
	s := a.sub(n.ThreadID)
	a.closeItems(n.ThreadID, n.Turn.ID, n.Turn.Status == "interrupted")
	a.withdrawTurn(n.ThreadID, n.Turn.ID, "the turn ended")
	if s.turn == n.Turn.ID {
		s.ended, s.turn = s.turn, ""
	}
	e := sessions.Event{Kind: sessions.EventTurnCompleted, Command: s.command, Turn: n.Turn.ID, Agent: s.path,
		Data: map[string]any{"status": n.Turn.Status}}
	if n.Turn.Error != nil {
		e.Text = n.Turn.Error.Message
	}
	a.emit(e)
	a.cleaned()
}

// interruptSub stops a sub-agent: interrupting the root does not.
func (a *Agent) interruptSub(s *subAgent) {
	if s.interrupted == s.turn {
		return
	}
	turn := s.turn
	err := a.call(context.WithoutCancel(a.life), "turn/interrupt", turnInterruptParams{ThreadID: s.thread, TurnID: turn},
		func(_ json.RawMessage, err error) {
			if noActiveTurn(err) && s.turn == turn && a.life.Err() == nil {
				a.o.Logger.Debug().Str("thread", s.thread).Msg("the sub-agent's turn is not active")
			}
		})
	if err == nil {
		s.interrupted = turn
	}
}

// place is where a message of Codex belongs.
type place struct {
	thread, turn, command, agent string
	late                         bool // its turn has ended
	cancelled                    bool // its turn is being cancelled
}

func (a *Agent) place(thread, id string) place {
	p := place{thread: thread, turn: id}
	if !a.isRoot(thread) {
		s := a.sub(thread)
		p.command, p.agent, p.late = s.command, s.path, id != "" && s.ended == id
		return p
	}
	p.thread = a.root
	if past, ok := a.past.turns[id]; ok { // before any turn whose id is not known yet
		p.command, p.late, p.cancelled = past.command, true, past.cancelled
		return p
	}
	for _, t := range []*turn{a.turn, a.foreign} {
		if t != nil && t.phase != ended && (id == "" || t.id == "" || t.id == id) {
			p.command, p.cancelled = t.command, t.cancel != nil
			return p
		}
	}
	return p
}

func (p place) event(kind sessions.EventKind, item string) sessions.Event {
	e := sessions.Event{Kind: kind, Command: p.command, Turn: p.turn, Item: item, Agent: p.agent, Late: p.late}
	if p.cancelled { // so that nobody takes it for progress
		e.Data = map[string]any{"after_cancel": true}
	}
	return e
}
