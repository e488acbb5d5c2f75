package host

import (
	"context"
	"reflect"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// deliveryPatience is how long respond waits to tell whether the answer was written.
const deliveryPatience = 10 * time.Second

// Respond answers a request. The first answer wins; repeating it is a success without a second write.
func (h *Host) Respond(ctx context.Context, who sessions.Caller, a sessions.RespondArgs) (sessions.RespondResult, error) {
	if err := named(who); err != nil {
		return sessions.RespondResult{}, err
	}
	if err := sessions.CheckUUID("session_id", a.SessionID); err != nil {
		return sessions.RespondResult{}, err
	}
	if err := sessions.CheckUUID("request_id", a.RequestID); err != nil {
		return sessions.RespondResult{}, err
	}
	if err := checkKey(a.Key); err != nil {
		return sessions.RespondResult{}, err
	}
	if a.Scope == "once" {
		a.Scope = "" // which it is when it is left out
	}
	if err := h.seal(ctx, who, &a); err != nil {
		return sessions.RespondResult{}, err
	}
	defer h.forgetAnswers()
	mean := meaning("respond", a)
	err := h.update(ctx, func(tx *journal.Tx, c *changes) error {
		s, err := tx.GetSession(who.Principal, a.SessionID)
		if err != nil {
			return err
		}
		if _, found, err := replay(tx, who, a.Key, "respond", mean); err != nil || found {
			return err
		}
		if err := guard(s, a.Guard); err != nil {
			return err
		}
		q, err := tx.GetRequest(a.SessionID, a.RequestID)
		if err != nil {
			return err
		}
		answer, err := q.Resolve(a.Decision, a.OptionID, a.Scope, a.Answers, a.Form)
		if err != nil {
			return err
		}
		keep := func() error { // the key, which stands for this answer from now on
			if a.Key == "" {
				return nil
			}
			return tx.PutOperation(journal.Operation{Principal: who.Principal, Key: a.Key, Verb: "respond", Scope: s.ID, Meaning: mean, State: "done"})
		}
		if q.State == sessions.RequestAnswering || q.State == sessions.RequestAnswered {
			if q.Answer != nil && q.AnsweredBy == who.Principal && sameAnswer(*q.Answer, answer) {
				return keep()
			}
			return sessions.Errorf(sessions.CodeAlreadyAnswered, "request %s was answered by %s%s", q.RequestID, q.AnsweredBy, said(q.Answer)).
				Do("look at the session: the first answer stands")
		}
		if s.State == sessions.SessionClosing {
			return sessions.Errorf(sessions.CodeNotRunning, "session %s is being closed, and takes no answer any more", s.ID).Do("wait until it is closed")
		}
		if err := h.unserved(s.ID); err != nil {
			return err
		}
		ap := applier{h: h, session: s.ID, generation: q.Generation}
		if err := ap.answer(tx, c, &q.Request, answer, who.Principal); err != nil {
			return err
		}
		if err := keep(); err != nil {
			return err
		}
		return ap.flush(tx, c)
	})
	if err != nil {
		return sessions.RespondResult{}, err
	}
	var res sessions.RespondResult
	res.Session, _, err = h.await(ctx, who.Principal, a.SessionID, deliveryPatience, func(tx *journal.Tx, _ *sessions.Session) (bool, error) {
		q, err := tx.GetRequest(a.SessionID, a.RequestID)
		if err != nil {
			return false, err
		}
		res.Request = q.Request
		return q.State != sessions.RequestPending && q.State != sessions.RequestAnswering, nil
	})
	if err == nil {
		err = undelivered(&res.Request)
	}
	return res, err
}

// undelivered is the error of an answer that was taken and did not reach the agent, or may not have.
func undelivered(q *sessions.Request) error {
	switch q.State {
	case sessions.RequestWithdrawn:
		return sessions.Errorf(sessions.CodeWithdrawn, "request %s is no longer waited for, and the answer was not given: %s", q.RequestID, q.Reason).
			Do("look at the session's events for what the agent did instead")
	case sessions.RequestExpired:
		return sessions.Errorf(sessions.CodeStaleGeneration, "request %s has expired: %s", q.RequestID, q.Reason).
			Do("resume the session; the agent asks again if it still needs to know")
	case sessions.RequestUnknown:
		return sessions.Errorf(sessions.CodeOutcomeUnknown, "whether the answer to request %s reached the agent is not known: %s", q.RequestID, q.Reason).
			Do("look at the session; resume it if it has ended")
	}
	return nil
}

func sameAnswer(a, b sessions.Answer) bool {
	a.Handle, b.Handle = "", ""
	return reflect.DeepEqual(a, b)
}

// said names an approval's answer; what was answered to a question is nobody else's business.
func said(a *sessions.Answer) string {
	switch {
	case a == nil:
		return ""
	case a.OptionID != "":
		return " with " + a.OptionID
	case a.Decline:
		return " with a refusal"
	}
	return ""
}
