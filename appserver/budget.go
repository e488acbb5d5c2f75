package appserver

import (
	"cmp"
	"fmt"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// budget bounds what a session may use. It is enforced here, beside the agent, so that it holds whoever else is gone: the
// turn that uses it up is cancelled, and nothing is sent any more until a resume gives a larger one. What earlier
// generations used counts: the host keeps what is told of it, and gives it back at the next opening.
type budget struct {
	tokens int64         // of the conversation, that of its sub-agents included, as Codex counts; 0: no bound
	limit  time.Duration // of all turns of the session; 0: no bound

	threads map[string]int64 // total of each thread, as it was last reported to this process
	used    sessions.Spent   // tokens, in all generations
	spent   time.Duration    // by turns that have ended, in all generations
	began   time.Time        // of the turn that runs, zero when none does
	told    sessions.Spent   // the last that was told
	alarm   *alarm
	tick    *alarm
}

// Outcomes of turns that were cancelled because of a budget.
const (
	outcomeTokenBudget = "token_budget"
	outcomeTimeBudget  = "time_budget"
)

// inherit takes what earlier generations used.
func (b *budget) inherit(s sessions.Spent) {
	b.used, b.told, b.spent = s, s, time.Duration(s.TurnMillis)*time.Millisecond
}

// time is what all turns took until now.
func (b *budget) time() time.Duration {
	if b.began.IsZero() {
		return b.spent
	}
	return b.spent + time.Since(b.began)
}

// count takes a thread's report: its total, and what its last round used. The total of our own thread outlives its
// process, and Codex reports it once after a resume, for a turn of the past; that of a sub-agent is the process's own.
func (b *budget) count(thread string, root, past bool, total, last int64) {
	before, seen := b.threads[thread]
	b.threads[thread] = total
	used := cmp.Or(last, total)
	switch {
	case seen && total >= before:
		used = total - before
	case past:
		used = 0
	}
	if !root {
		b.used.AgentTokens += used
		return
	}
	b.used.Tokens = max(b.used.Tokens+used, total) // the total knows what a crash kept from being told
}

// tell is what the session has used until now, nil when that was told before.
func (b *budget) tell() *sessions.Spent {
	now := b.used
	now.TurnMillis = b.time().Milliseconds()
	if now == b.told {
		return nil
	}
	b.told = now
	return &now
}

// turnBegins starts the clock of a turn.
func (a *Agent) turnBegins() {
	b := &a.budget
	if !b.began.IsZero() {
		return
	}
	b.began = time.Now()
	if b.limit > 0 {
		b.alarm = a.alarms.after(b.limit-b.spent, a.checkBudget)
		a.tickOn()
	}
}

// tickOn tells from time to time how long a turn has taken, where that is bounded: a crash loses no more than a twentieth
// of the budget, or a second.
func (a *Agent) tickOn() {
	b := &a.budget
	b.tick = a.alarms.after(max(b.limit/20, time.Second), func() {
		if b.time() >= b.limit {
			return
		}
		if s := b.tell(); s != nil {
			a.emit(sessions.Event{Kind: sessions.EventUsage, Command: a.runningCommand(), Spent: s})
		}
		a.tickOn()
	})
}

// runningCommand is the command whose turn runs, "" for none.
func (a *Agent) runningCommand() string {
	if a.turn == nil {
		return ""
	}
	return a.turn.command
}

func (a *Agent) turnOver() {
	b := &a.budget
	b.spent, b.began = b.time(), time.Time{}
	b.alarm.off()
	b.tick.off()
}

// overspent says which budget is used up, in the words of an outcome and of a sentence; "" when none is.
func (a *Agent) overspent() (outcome, why string) {
	b := &a.budget
	switch used := b.used.Tokens + b.used.AgentTokens; {
	case b.tokens > 0 && used >= b.tokens:
		return outcomeTokenBudget, fmt.Sprintf("the session's budget of %d tokens is used up: %d were used", b.tokens, used)
	case b.limit > 0 && b.time() >= b.limit:
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
