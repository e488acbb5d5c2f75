package cli

import (
	"context"
	"strings"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/internal/transcript"
	"github.com/batonmcp/baton/sessions"
)

// Respond answers a request. Where its id is left out the session must have exactly one.
func (f *Front) Respond(ctx context.Context, a sessions.RespondArgs) error {
	if a.RequestID == "" {
		q, err := f.onlyRequest(ctx, a.SessionID)
		if err != nil {
			return err
		}
		a.RequestID = q
	}
	if err := f.nameAnswers(ctx, &a); err != nil {
		return err
	}
	res, err := f.api.Respond(ctx, f.who, a)
	if err != nil {
		return err
	}
	return f.print(res, res.Request.RequestID, func() {
		f.talk.Line(term.Plain, string(res.Request.Kind)+" "+res.Request.RequestID+" is "+transcript.Resolution(&res.Request))
	})
}

func (f *Front) onlyRequest(ctx context.Context, id string) (string, error) {
	s, err := f.look(ctx, id)
	if err != nil {
		return "", err
	}
	var open []string
	for i := range s.Requests {
		if q := &s.Requests[i]; q.State == sessions.RequestPending {
			open = append(open, q.RequestID)
		}
	}
	switch len(open) {
	case 1:
		return open[0], nil
	case 0:
		return "", sessions.Errorf(sessions.CodeNotFound, "session %s asks nothing", id).Do("baton wait %s returns when it does", id)
	}
	return "", sessions.Errorf(sessions.CodeInvalidParams, "session %s asks %d things", id, len(open)).Do("name one: %s", strings.Join(open, ", "))
}

// look is a session as it is now.
func (f *Front) look(ctx context.Context, id string) (*sessions.Session, error) {
	zero := 0
	res, err := f.api.Wait(ctx, f.who, sessions.WaitArgs{SessionIDs: []string{id}, WaitSeconds: &zero, MaxChars: 1})
	if err != nil {
		return nil, err
	}
	if len(res.Sessions) != 1 {
		return nil, sessions.Errorf(sessions.CodeInternal, "the host showed %d sessions for %s", len(res.Sessions), id)
	}
	return &res.Sessions[0].Session, nil
}

// unnamed stands for the question of an answer that names none.
const unnamed = ""

// Answers reads answers to questions, each as QUESTION=ANSWER; a question may come again. Where no question is named the
// request's only one is meant.
func Answers(given []string) (map[string][]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	out := map[string][]string{}
	for _, g := range given {
		id, text, ok := strings.Cut(g, "=")
		switch {
		case ok && id == "":
			return nil, Usage("--answer %q names no question; give QUESTION=ANSWER", g)
		case !ok:
			id, text = unnamed, g
		}
		out[id] = append(out[id], text)
	}
	return out, nil
}

// nameAnswers finds the question of answers that name none.
func (f *Front) nameAnswers(ctx context.Context, a *sessions.RespondArgs) error {
	texts, missing := a.Answers[unnamed]
	if !missing {
		return nil
	}
	s, err := f.look(ctx, a.SessionID)
	if err != nil {
		return err
	}
	for i := range s.Requests {
		q := &s.Requests[i]
		if q.RequestID != a.RequestID {
			continue
		}
		if len(q.Questions) != 1 || len(a.Answers) > 1 {
			var ids []string
			for _, x := range q.Questions {
				ids = append(ids, x.ID)
			}
			return Usage("--answer %q names no question, and the request has %d; give QUESTION=ANSWER for each of: %s", texts[0], len(q.Questions), strings.Join(ids, ", "))
		}
		a.Answers = map[string][]string{q.Questions[0].ID: texts}
		return nil
	}
	return sessions.Errorf(sessions.CodeNotFound, "session %s has no open request %s", a.SessionID, a.RequestID).Do("baton wait %s shows what it asks", a.SessionID)
}
