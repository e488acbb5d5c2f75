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

// Answers reads answers to questions, each as ID=TEXT; an id may come again.
func Answers(given []string) (map[string][]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	out := map[string][]string{}
	for _, g := range given {
		id, text, ok := strings.Cut(g, "=")
		if !ok || id == "" {
			return nil, Usage("--answer %q is not QUESTION=TEXT", g)
		}
		out[id] = append(out[id], text)
	}
	return out, nil
}
