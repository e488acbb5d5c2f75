package appserver

import (
	"context"
	"encoding/json"

	"github.com/batonmcp/baton/sessions"
)

// goalActive and goalPaused are statuses of a goal; the others are blocked, usageLimited, budgetLimited and complete. Codex
// goes on with an active one by itself.
const (
	goalActive = "active"
	goalPaused = "paused"
)

// goalParams is thread/goal/set, and without a status thread/goal/get.
type goalParams struct {
	ThreadID string `json:"threadId"`
	Status   string `json:"status,omitempty"`
}

type wireGoal struct {
	Objective string `json:"objective"`
	Status    string `json:"status"`
	Budget    *int64 `json:"tokenBudget"`
	Tokens    int64  `json:"tokensUsed"`
	Seconds   int64  `json:"timeUsedSeconds"`
}

// data is the goal as events carry it.
func (g wireGoal) data() map[string]any {
	d := map[string]any{"objective": g.Objective, "status": g.Status, "tokens_used": g.Tokens, "seconds_used": g.Seconds}
	if g.Budget != nil {
		d["token_budget"] = *g.Budget
	}
	return d
}

// holdGoal pauses the goal of a thread that is about to be resumed. Codex (0.171.0) begins a turn for an active one as soon
// as the thread is loaded: before anything that was asked for is confirmed. It answers for a thread that is not loaded,
// too. release takes the pause back, for when the thread turns out to be another's.
func (a *Agent) holdGoal(ctx context.Context, thread string) (g wireGoal, release func(), err error) {
	release = func() {}
	if thread == "" {
		return g, release, nil
	}
	var r struct {
		Goal *wireGoal `json:"goal"`
	}
	if err = a.ask(ctx, "thread/goal/get", goalParams{ThreadID: thread}, &r); err != nil || r.Goal == nil {
		return g, release, ignoreRefusal(err) // before goals there are none, and an unknown thread is refused by its resume
	}
	if g = *r.Goal; g.Status != goalActive {
		return g, release, nil
	}
	if err = a.ask(ctx, "thread/goal/set", goalParams{thread, goalPaused}, nil); err != nil {
		return g, release, ignoreRefusal(err)
	}
	return g, func() { _ = a.ask(context.WithoutCancel(ctx), "thread/goal/set", goalParams{thread, goalActive}, nil) }, nil
}

func ignoreRefusal(err error) error {
	if refused(err) != nil {
		return nil
	}
	return err
}

// tellGoal says what became of the goal of a resumed thread: it waits, or goes on because that was asked for.
func (a *Agent) tellGoal(g wireGoal, goOn bool) {
	if g.Status != goalActive && g.Status != goalPaused {
		return
	}
	held := g.Status == goalActive
	g.Status, a.goal = goalPaused, goalPaused
	if !goOn {
		if held {
			a.warn(sessions.Event{Data: map[string]any{"goal": g.data()}},
				"the thread's goal %q is paused, so that nothing begins by itself; resume the session with runner_options resume_goal to go on with it", g.Objective)
		}
		return
	}
	err := a.call(a.life, "thread/goal/set", goalParams{a.root, goalActive}, func(_ json.RawMessage, err error) {
		if err != nil && a.life.Err() == nil {
			a.warn(sessions.Event{Data: map[string]any{"goal": g.data()}}, "the thread's goal %q stays paused: %s", g.Objective, err)
		}
	})
	if err != nil {
		a.o.Logger.Debug().Err(err).Msg("the goal is not gone on with")
	}
}

// goalUpdated: a thread with an active goal begins turns by itself. It comes also when a goal has used more.
func (a *Agent) goalUpdated(raw json.RawMessage) error {
	var n struct {
		ThreadID string   `json:"threadId"`
		TurnID   string   `json:"turnId"`
		Goal     wireGoal `json:"goal"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	if !a.isRoot(n.ThreadID) || !a.opened && n.Goal.Status == goalPaused { // that is our own doing, and told at the end of it
		return nil
	}
	before := a.goal
	a.goal = n.Goal.Status
	if a.goal == before {
		return nil
	}
	e := a.place(n.ThreadID, n.TurnID).event(sessions.EventWarning, "")
	e.Raw = raw
	addData(&e, "goal", n.Goal.data())
	if a.goal == goalActive {
		a.warn(e, "the thread has the goal %q now, for which Codex can begin turns by itself", n.Goal.Objective)
		return nil
	}
	a.warn(e, "the thread's goal %q is %s now", n.Goal.Objective, n.Goal.Status)
	return nil
}

// goalCleared comes also after each resume of a thread that has none.
func (a *Agent) goalCleared(raw json.RawMessage) error {
	var n threadID
	if err := decode(raw, &n); err != nil {
		return err
	}
	if !a.isRoot(n.ThreadID) || a.goal == "" {
		return nil
	}
	a.goal = ""
	e := a.place(n.ThreadID, "").event(sessions.EventWarning, "")
	e.Raw = raw
	a.warn(e, "the thread has no goal any more")
	return nil
}
