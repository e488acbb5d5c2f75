package acp

import (
	"encoding/json"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

type elicited struct {
	Action  string          `json:"action"` // accept, decline, cancel
	Content json.RawMessage `json:"content,omitempty"`
}

// elicit handles elicitation/create: a form to fill in, or an address to visit.
func (a *Agent) elicit(m wire.Message) {
	var p struct {
		SessionID string          `json:"sessionId"`
		ToolID    string          `json:"toolCallId"`
		Mode      string          `json:"mode"`
		Message   string          `json:"message"`
		Schema    json.RawMessage `json:"requestedSchema"`
		URL       string          `json:"url"`
	}
	readable := decode(m.Params, &p) == nil
	cancelled := elicited{Action: "cancel"}
	if !a.mayAsk(m, p.SessionID, p.ToolID, cancelled) {
		return
	}
	r := sessions.Request{Title: told(p.Message, 200, a.o.Redact), Detail: p.Message}
	q := &pending{cancelled: cancelled, tool: a.feedOf("").tools[p.ToolID]}
	switch {
	case readable && (p.Mode == "form" || p.Mode == "") && len(p.Schema) > 0 && p.Schema[0] == '{':
		r.Schema = p.Schema
		q.answer = func(answer sessions.Answer) (any, decision, error) {
			var form map[string]json.RawMessage
			switch {
			case answer.Decline:
				return elicited{Action: "decline"}, denied, nil
			case json.Unmarshal(answer.Form, &form) != nil || form == nil:
				return nil, 0, invalid("the form of this request was not given as a JSON object").Do("answer with form, or deny the request")
			}
			return elicited{Action: "accept", Content: answer.Form}, decided, nil
		}
	case readable && p.Mode == "url" && p.URL != "":
		r.URL = p.URL
		r.Options = []sessions.Option{
			{OptionID: "accept", Kind: sessions.OptionAllowOnce, Label: "Done at the address (this time only)"},
			{OptionID: "decline", Kind: sessions.OptionRejectOnce, Label: "Do not go there (this time only)"},
		}
		q.answer = func(answer sessions.Answer) (any, decision, error) {
			switch {
			case answer.Decline || answer.OptionID == "decline":
				return elicited{Action: "decline"}, denied, nil
			case answer.OptionID == "accept":
				return elicited{Action: "accept"}, decided, nil
			}
			return nil, 0, invalid("this request is answered with option accept or decline")
		}
	default:
		a.declineBroken(m, cancelled, "its kind of elicitation is not understood")
		return
	}
	a.ask(m, q, sessions.EventQuestionRequested, r)
}
