package host

import (
	"slices"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// request keeps what the agent asks, under an id of ours, and lets the session's own policy answer where it may.
func (a *applier) request(tx *journal.Tx, c *changes, e sessions.Event) error {
	if e.Request == nil {
		a.add(e)
		return nil
	}
	q := *e.Request
	q.RequestID, q.Session, q.Generation, q.State = sessions.NewID(), a.session, a.generation, sessions.RequestPending
	q.AskedAt = e.At
	if q.Command == "" {
		q.Command = e.Command
	}
	if err := tx.InsertRequest(&journal.Request{Request: q}); err != nil {
		return err
	}
	c.touch(a.session, true)
	e.Request = &q
	a.add(e)
	s, err := tx.GetSession("", a.session)
	if err != nil {
		return err
	}
	answer, ok := policyAnswer(s.Settings.AutoAnswer, &q)
	if !ok {
		return nil
	}
	return a.answer(tx, c, &q, answer, "policy:"+s.Settings.AutoAnswer)
}

// edits are the tools that approve-edits speaks of, as the app-server and ACP name a change of files. What ACP calls a
// delete or a move is left to a person.
var edits = []string{"file_change", "edit"}

// policyAnswer is what a session's auto_answer policy says. It never widens: approve means this once, and where that is
// not one single option the request waits for a person.
func policyAnswer(policy string, q *sessions.Request) (sessions.Answer, bool) {
	decision := ""
	switch policy {
	case autoApproveAll:
		decision = "approve"
	case autoApproveEdits:
		if q.Tool == nil || !slices.Contains(edits, q.Tool.Name) {
			return sessions.Answer{}, false
		}
		decision = "approve"
	case autoDenyAll:
		decision = "deny"
	default:
		return sessions.Answer{}, false
	}
	if q.Kind != sessions.RequestApproval {
		return sessions.Answer{}, false
	}
	if decision == "approve" {
		once := 0
		for _, o := range q.Options {
			if o.Kind == sessions.OptionAllowOnce {
				once++
			}
		}
		if once != 1 {
			return sessions.Answer{}, false
		}
	}
	answer, err := q.Resolve(decision, "", "", nil, nil)
	return answer, err == nil
}

// answer writes the intent to answer. The first answer wins: the machine refuses the second.
func (a *applier) answer(tx *journal.Tx, c *changes, q *sessions.Request, answer sessions.Answer, by string) error {
	if _, err := tx.MoveRequest(q.RequestID, sessions.RequestAnswer, func(r *journal.Request) {
		r.Answer, r.AnsweredBy = &answer, by
	}); err != nil {
		return err
	}
	answer.Handle = q.Handle
	if _, err := tx.AppendInput(a.generation, string(bridge.InAnswer), q.RequestID, answer); err != nil {
		return err
	}
	c.touch(a.session, true)
	c.kick = append(c.kick, a.session)
	return nil
}

// withdrawn records that the agent no longer waits.
func (a *applier) withdrawn(tx *journal.Tx, c *changes, e sessions.Event) error {
	if e.Request == nil {
		a.add(e)
		return nil
	}
	r, found, err := tx.FindHandle(a.generation, e.Request.Handle)
	if err != nil {
		return err
	}
	if !found || (r.State != sessions.RequestPending && r.State != sessions.RequestAnswering) {
		return nil // our own answer resolved it
	}
	c.touch(a.session, true) // whoever answered it is waiting
	return a.resolve(tx, r, sessions.RequestWithdraw, e.Request.Reason, e)
}

// answerInput records that an answer was written, or was not.
func (a *applier) answerInput(tx *journal.Tx, c *changes, r bridge.InputResult) error {
	q, found, err := tx.FindHandle(a.generation, r.Ref)
	if err != nil || !found || q.State != sessions.RequestAnswering {
		return err
	}
	c.touch(a.session, true)
	ev, reason := sessions.RequestDeliver, ""
	switch r.State {
	case bridge.InputRefused:
		ev, reason = sessions.RequestWithdraw, "the agent no longer waited for an answer"
	case bridge.InputBroken:
		ev, reason = sessions.RequestLose, "the answer may have reached the agent in part"
	}
	return a.resolve(tx, q, ev, reason, sessions.Event{Kind: sessions.EventRequestResolved, At: tx.Now(), Command: q.Command})
}

// lose ends every open request of the session: its generation is over. What became of an answer on its way is not known,
// unless neverSent proves that it was not given.
func (a *applier) lose(tx *journal.Tx, c *changes, neverSent func(n uint64) bool) error {
	open, err := tx.PendingRequests(a.session)
	if err != nil {
		return err
	}
	for _, q := range open {
		c.touch(a.session, true)
		ev, reason := sessions.RequestLose, "the agent that asked is gone"
		if q.State == sessions.RequestAnswering {
			unsent, err := a.ungiven(tx, q.RequestID, bridge.InAnswer, neverSent)
			if err != nil {
				return err
			}
			if unsent {
				ev, reason = sessions.RequestNotDelivered, "the agent that asked is gone, and the answer was never given to it"
			}
		}
		if err := a.resolve(tx, q, ev, reason,
			sessions.Event{Kind: sessions.EventRequestResolved, At: tx.Now(), Command: q.Command}); err != nil {
			return err
		}
	}
	return nil
}

// resolve moves a request to its end and keeps the event that says so, without what was answered to a secret question.
func (a *applier) resolve(tx *journal.Tx, q journal.Request, ev sessions.RequestEvent, reason string, e sessions.Event) error {
	state, err := tx.MoveRequest(q.RequestID, ev, func(r *journal.Request) { r.Reason = reason })
	if err != nil {
		return err
	}
	shown := sessions.Request{RequestID: q.RequestID, Kind: q.Kind, State: state, Title: q.Title, Command: q.Command, AnsweredBy: q.AnsweredBy, Reason: reason}
	if state == sessions.RequestAnswered && q.Answer != nil {
		shown.Answer = &sessions.Answer{OptionID: q.Answer.OptionID, Decline: q.Answer.Decline}
	}
	e.Kind, e.Request = sessions.EventRequestResolved, &shown
	a.add(e)
	return nil
}
