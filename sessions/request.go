package sessions

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// RequestKind is what the agent waits for.
type RequestKind string

const (
	RequestApproval RequestKind = "approval"
	RequestQuestion RequestKind = "question"
)

// OptionKind says what choosing an option does, whatever the agent calls it.
type OptionKind string

const (
	OptionAllowOnce    OptionKind = "allow_once"
	OptionAllowSession OptionKind = "allow_session" // until this agent session ends
	OptionAllowAlways  OptionKind = "allow_always"  // beyond this session; the label says how far
	OptionRejectOnce   OptionKind = "reject_once"
	OptionRejectAlways OptionKind = "reject_always"
	OptionCancelTurn   OptionKind = "cancel_turn" // rejects and ends the turn
)

// Option is one answer that the agent offers. OptionID is the agent's own and is echoed exactly.
type Option struct {
	OptionID string     `json:"option_id"`
	Kind     OptionKind `json:"kind"`
	Label    string     `json:"label"` // says how far the choice reaches
}

// Question is one question of a request.
type Question struct {
	ID       string           `json:"id"`
	Header   string           `json:"header,omitempty"`
	Text     string           `json:"text"`
	Multiple bool             `json:"multiple,omitempty"` // several options may be chosen
	FreeText bool             `json:"free_text,omitempty"`
	Secret   bool             `json:"secret,omitempty"`
	Options  []QuestionOption `json:"options,omitempty"`
}

// QuestionOption is one offered answer of a question.
type QuestionOption struct {
	ID          string `json:"id"` // what goes into the answer
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Request is an approval or a question that the agent raised and waits for.
// RequestID is Baton's, made by the host; Handle names the request to the adapter within one generation.
type Request struct {
	RequestID  string          `json:"request_id,omitempty"`
	Session    string          `json:"session,omitempty"`
	Generation string          `json:"generation,omitempty"`
	Command    string          `json:"command,omitempty"`
	Handle     string          `json:"handle,omitempty"`
	Kind       RequestKind     `json:"kind,omitempty"`
	State      RequestState    `json:"state,omitempty"`
	Title      string          `json:"title,omitempty"`
	Detail     string          `json:"detail,omitempty"`
	Tool       *Tool           `json:"tool,omitempty"`
	Agent      string          `json:"agent,omitempty"`
	Options    []Option        `json:"options,omitempty"`
	Questions  []Question      `json:"questions,omitempty"`
	Schema     json.RawMessage `json:"schema,omitempty"` // an elicitation's requested schema
	URL        string          `json:"url,omitempty"`    // an elicitation in URL mode
	AskedAt    time.Time       `json:"asked_at,omitzero"`
	AnsweredBy string          `json:"answered_by,omitempty"` // the principal, or the policy that answered
	Answer     *Answer         `json:"answer,omitempty"`
	Reason     string          `json:"reason,omitempty"` // why it is withdrawn, expired or unknown
}

// Answer is what goes back to the agent. For an approval exactly one of OptionID and Decline is set.
type Answer struct {
	Handle   string              `json:"handle,omitempty"`
	OptionID string              `json:"option_id,omitempty"`
	Decline  bool                `json:"decline,omitempty"` // deny where the agent offers no rejecting option: cancelled
	Answers  map[string][]string `json:"answers,omitempty"`
	Form     json.RawMessage     `json:"form,omitempty"`
}

// Resolve turns what a caller said into the answer for the agent, by kind and never by position: approve means the
// narrowest allowing option of the asked scope, deny the narrowest rejecting one.
func (r *Request) Resolve(decision, optionID, scope string, answers map[string][]string, form json.RawMessage) (Answer, error) {
	given := 0
	for _, set := range []bool{decision != "", optionID != "", answers != nil, form != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		return Answer{}, Errorf(CodeInvalidParams, "%d of decision, option_id, answers and form were given, exactly one is needed", given).
			Do("give one of them")
	}
	switch {
	case optionID != "":
		if !slices.ContainsFunc(r.Options, func(o Option) bool { return o.OptionID == optionID }) {
			return Answer{}, Errorf(CodeInvalidParams, "option_id %q is not offered by request %s", optionID, r.RequestID).
				Do("choose one of: %s", r.optionList())
		}
		return Answer{Handle: r.Handle, OptionID: optionID}, nil
	case decision != "":
		return r.decide(decision, scope)
	case answers != nil:
		return r.answerQuestions(answers)
	default:
		if len(r.Schema) == 0 {
			return Answer{}, Errorf(CodeInvalidParams, "request %s is no form", r.RequestID).Do("answer it with decision, option_id or answers")
		}
		return Answer{Handle: r.Handle, Form: form}, nil
	}
}

func (r *Request) decide(decision, scope string) (Answer, error) {
	var kinds []OptionKind
	switch {
	case decision == "approve" && (scope == "" || scope == "once"):
		kinds = []OptionKind{OptionAllowOnce}
	case decision == "approve" && scope == "session":
		kinds = []OptionKind{OptionAllowSession}
	case decision == "deny" && scope != "" && scope != "once":
		return Answer{}, Errorf(CodeInvalidParams, "scope %q goes with decision approve only", scope).Do("leave scope out, or choose by option_id")
	case decision == "deny":
		kinds = []OptionKind{OptionRejectOnce, OptionCancelTurn}
	case decision == "approve":
		return Answer{}, Errorf(CodeInvalidParams, "scope %q is neither once nor session", scope).Do("use once or session")
	default:
		return Answer{}, Errorf(CodeInvalidParams, "decision %q is neither approve nor deny", decision).Do("use approve or deny, or choose by option_id")
	}
	if r.Kind != RequestApproval && decision == "approve" {
		return Answer{}, Errorf(CodeInvalidParams, "request %s is a question, not an approval", r.RequestID).Do("answer it with answers")
	}
	for _, k := range kinds {
		for _, o := range r.Options {
			if o.Kind == k {
				return Answer{Handle: r.Handle, OptionID: o.OptionID}, nil
			}
		}
	}
	if decision == "deny" { // no rejecting option: say that nothing was chosen
		return Answer{Handle: r.Handle, Decline: true}, nil
	}
	return Answer{}, Errorf(CodeUnsupported, "request %s offers no option of kind %s", r.RequestID, kinds[0]).
		Do("choose one of: %s", r.optionList())
}

func (r *Request) answerQuestions(answers map[string][]string) (Answer, error) {
	if r.Kind != RequestQuestion {
		return Answer{}, Errorf(CodeInvalidParams, "request %s is an approval, not a question", r.RequestID).Do("answer it with decision or option_id")
	}
	known := make(map[string]Question, len(r.Questions))
	for _, q := range r.Questions {
		known[q.ID] = q
	}
	out := make(map[string][]string, len(answers))
	for id, given := range answers {
		q, ok := known[id]
		if !ok {
			return Answer{}, Errorf(CodeInvalidParams, "question %q is not part of request %s", id, r.RequestID).Do("answer the questions that the request lists")
		}
		if len(given) > 1 && !q.Multiple {
			return Answer{}, Errorf(CodeInvalidParams, "question %q takes one answer, %d were given", id, len(given)).Do("give one")
		}
		for _, g := range given {
			choice, ok := q.choose(g)
			if !ok {
				return Answer{}, q.notOffered(g)
			}
			out[id] = append(out[id], choice)
		}
	}
	for _, q := range r.Questions {
		if len(out[q.ID]) == 0 {
			return Answer{}, Errorf(CodeInvalidParams, "question %q has no answer", q.ID).Do("answer every question, or deny the request")
		}
	}
	return Answer{Handle: r.Handle, Answers: out}, nil
}

// choose takes an option by id first, by its label when that names exactly one, and free text where it is allowed.
func (q Question) choose(given string) (string, bool) {
	var byLabel []string
	for _, o := range q.Options {
		if o.ID == given {
			return o.ID, true
		}
		if o.Label == given {
			byLabel = append(byLabel, o.ID)
		}
	}
	if len(byLabel) == 1 {
		return byLabel[0], true
	}
	return given, len(byLabel) == 0 && (q.FreeText || len(q.Options) == 0)
}

// notOffered refuses an answer. What was given is not repeated: the answer to a secret question is a secret.
func (q Question) notOffered(given string) *Error {
	n := 0
	for _, o := range q.Options {
		if o.Label == given {
			n++
		}
	}
	if n > 1 {
		return Errorf(CodeInvalidParams, "question %q has %d options of the label that was given", q.ID, n).Do("name one by its id: %s", q.optionList())
	}
	return Errorf(CodeInvalidParams, "question %q does not offer the answer given, and takes no text of one's own", q.ID).
		Do("give the id or the label of an option: %s", q.optionList())
}

// optionList names the options by their ids, with the labels that differ.
func (q Question) optionList() string {
	ids := make([]string, len(q.Options))
	for i, o := range q.Options {
		if ids[i] = o.ID; o.Label != "" && o.Label != o.ID {
			ids[i] += " (" + o.Label + ")"
		}
	}
	return strings.Join(ids, ", ")
}

func (r *Request) optionList() string {
	ids := make([]string, len(r.Options))
	for i, o := range r.Options {
		ids[i] = o.OptionID + " (" + string(o.Kind) + ")"
	}
	return strings.Join(ids, ", ")
}
