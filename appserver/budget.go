package appserver

import (
	"cmp"
	"fmt"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// budget bounds what a session may use. It is enforced here, beside the agent, so that it holds whoever else is gone: the
// turn that uses it up is cancelled, and nothing is sent any more until a resume gives a larger one.
type budget struct {
	tokens int64         // of the conversation, that of its sub-agents included, as Codex counts; 0: no bound
	limit  time.Duration // of all turns since this process opened the conversation; 0: no bound

	subs  map[string]int64 // tokens of each sub-agent's thread
	spent time.Duration    // by turns that have ended
	began time.Time        // of the turn that runs, zero when none does
	alarm *alarm
}

// Outcomes of turns that were cancelled because of a budget.
const (
	outcomeTokenBudget = "token_budget"
	outcomeTimeBudget  = "time_budget"
)

// turnBegins starts the clock of a turn.
func (a *Agent) turnBegins() {
	b := &a.budget
	if b.limit == 0 || !b.began.IsZero() {
		return
	}
	b.began = time.Now()
	b.alarm = a.alarms.after(b.limit-b.spent, a.checkBudget)
}

func (a *Agent) turnOver() {
	b := &a.budget
	if b.began.IsZero() {
		return
	}
	b.spent += time.Since(b.began)
	b.began = time.Time{}
	b.alarm.off()
}

// overspent says which budget is used up, in the words of an outcome and of a sentence; "" when none is.
func (a *Agent) overspent() (outcome, why string) {
	b := &a.budget
	used := a.usage.total.Total
	for _, n := range b.subs {
		used += n
	}
	spent := b.spent
	if !b.began.IsZero() {
		spent += time.Since(b.began)
	}
	switch {
	case b.tokens > 0 && used >= b.tokens:
		return outcomeTokenBudget, fmt.Sprintf("the session's budget of %d tokens is used up: %d were used", b.tokens, used)
	case b.limit > 0 && spent >= b.limit:
		return outcomeTimeBudget, fmt.Sprintf("the session's budget of %s for its turns is used up", b.limit)
	}
	return "", ""
}

// checkBudget cancels what runs when a budget is used up.
func (a *Agent) checkBudget() {
	outcome, why := a.overspent()
	if outcome == "" {
		return
	}
	for _, t := range []*turn{a.turn, a.foreign} {
		if t == nil || t.phase == ended || t.cancel != nil {
			continue
		}
		t.over, t.why = outcome, why
		a.warn(sessions.Event{Command: t.command, Turn: t.id, Code: sessions.CodeLimitExceeded}, "%s; the turn is being cancelled", why)
		_ = a.cancel(t.command) // a write that fails has ended the link
	}
}

// budgetError refuses a prompt when a budget is used up.
func (a *Agent) budgetError() error {
	outcome, why := a.overspent()
	if outcome == "" {
		return nil
	}
	option := map[string]string{outcomeTokenBudget: optionTokens, outcomeTimeBudget: optionTime}[outcome]
	return sessions.Errorf(sessions.CodeLimitExceeded, "%s", why).Do("close the session and resume it with a larger %s in runner_options", option)
}

// The runner options of budgets.
const (
	optionTokens = "token_budget"
	optionTime   = "time_budget_seconds"
)

// bound reads a budget, which is a whole number above 0.
func bound(given any) (n int64, ok bool) {
	switch v := given.(type) {
	case float64:
		n, ok = int64(v), v >= 1 && v < 1<<53 && v == float64(int64(v))
	case int:
		n, ok = int64(v), v >= 1
	}
	return n, ok
}

// exhausted gives a turn that a budget ended its outcome.
func (t *turn) exhausted(s sessions.Settlement) sessions.Settlement {
	if t.over != "" && (s.State == sessions.CommandInterrupted || s.State == sessions.CommandCancelUnconfirmed) {
		s.Outcome, s.Reason = t.over, cmp.Or(t.why, s.Reason)
	}
	return s
}
