package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// form is one request as the user of a client is asked it, and how the answer is read.
type form struct {
	params any
	// answer reads the content of an accepted form; false when it decides nothing.
	answer func(content map[string]json.RawMessage, raw json.RawMessage) (sessions.RespondArgs, bool)
}

// titledEnums is the first version of MCP in which choices have titles and several can be chosen.
const titledEnums = "2025-11-25"

// read takes an answer of the client apart. Only an accepted one with a usable content decides.
func (f *form) read(raw json.RawMessage) (a sessions.RespondArgs, ok bool) {
	var r struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &r) != nil || r.Action != "accept" {
		return a, false
	}
	var content map[string]json.RawMessage
	_ = json.Unmarshal(r.Content, &content)
	return f.answer(content, r.Content)
}

// formFor writes a request as a question to the user of a client; nil where the client cannot ask it: secrets do not
// belong into forms, and older versions know no choice of several.
func formFor(s sessions.Session, q *sessions.Request, version string, asForm, asURL bool) *form {
	message := questionText(s, q)
	if q.URL != "" && asURL {
		i := slices.IndexFunc(q.Options, func(o sessions.Option) bool { return o.Kind == sessions.OptionAllowOnce })
		if i < 0 {
			return nil
		}
		id := q.Options[i].OptionID
		return &form{params: ordered{{"mode", "url"}, {"message", message}, {"elicitationId", q.RequestID}, {"url", q.URL}},
			answer: func(map[string]json.RawMessage, json.RawMessage) (sessions.RespondArgs, bool) {
				return sessions.RespondArgs{OptionID: id}, true
			}}
	}
	if !asForm {
		return nil
	}
	switch {
	case len(q.Schema) > 0:
		return schemaForm(q, message)
	case q.Kind == sessions.RequestQuestion:
		return questionForm(q, message, version)
	default:
		return approvalForm(q, message, version)
	}
}

// questionText is what the user reads. The words of the agent are marked as such: they may say anything.
func questionText(s sessions.Session, q *sessions.Request) string {
	what := "asks for your approval"
	if q.Kind == sessions.RequestQuestion {
		what = "asks you"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The coding agent %s, working in %s, %s:\n%s", s.Runner, clip(s.Cwd, 200), what, clip(q.Title, 1000))
	if q.Detail != "" && q.Detail != q.Title {
		b.WriteString("\n\n" + clip(q.Detail, 3000))
	}
	if q.URL != "" {
		b.WriteString("\n\n" + q.URL)
	}
	return b.String()
}

func formParams(message string, properties ordered, required []string) ordered {
	return ordered{{"message", message}, {"requestedSchema", ordered{{"type", "object"}, {"properties", properties}, {"required", required}}}}
}

// choice is one value that can be chosen, and what it is called.
type choice struct{ value, title string }

func choices(title, description string, all []choice, version string) ordered {
	o := ordered{{"type", "string"}, {"title", title}}
	if description != "" {
		o = append(o, pair{"description", description})
	}
	if version >= titledEnums {
		return append(o, pair{"oneOf", titled(all)})
	}
	values, names := make([]string, len(all)), make([]string, len(all))
	for i, c := range all {
		values[i], names[i] = c.value, c.title
	}
	return append(o, pair{"enum", values}, pair{"enumNames", names})
}

func titled(all []choice) []ordered {
	out := make([]ordered, len(all))
	for i, c := range all {
		out[i] = ordered{{"const", c.value}, {"title", c.title}}
	}
	return out
}

// approvalForm offers the options of the agent, none of them chosen beforehand.
func approvalForm(q *sessions.Request, message, version string) *form {
	var all []choice
	for _, o := range q.Options {
		title := o.Label
		if title == "" {
			title = string(o.Kind)
		}
		all = append(all, choice{o.OptionID, title})
	}
	own := len(all) > 0
	if !own {
		all = []choice{{"approve", "Approve this once"}, {"deny", "Deny"}}
	}
	return &form{params: formParams(message, ordered{{"decision", choices("Decision", "", all, version)}}, []string{"decision"}),
		answer: func(content map[string]json.RawMessage, _ json.RawMessage) (a sessions.RespondArgs, ok bool) {
			var given string
			if json.Unmarshal(content["decision"], &given) != nil {
				return a, false
			}
			value, ok := chosen(all, given)
			if own {
				a.OptionID = value
			} else {
				a.Decision = value
			}
			return a, ok
		}}
}

// chosen finds a choice by its value, or by its title where that names exactly one: some clients send that.
func chosen(all []choice, given string) (string, bool) {
	found := ""
	n := 0
	for _, c := range all {
		if c.value == given {
			return given, true
		}
		if c.title == given {
			found = c.value
			n++
		}
	}
	return found, n == 1
}

// inOwnWords names the member for an answer in own words beside offered ones.
func inOwnWords(id string) string { return id + " (own words)" }

func questionForm(q *sessions.Request, message, version string) *form {
	var properties ordered
	var required []string
	for _, x := range q.Questions {
		title := x.Header
		if title == "" {
			title = clip(x.Text, 80)
		}
		var all []choice
		for _, o := range x.Options {
			text := o.Label
			if o.Description != "" {
				text += ": " + o.Description
			}
			all = append(all, choice{o.ID, clip(text, 300)})
		}
		switch {
		case x.Secret, x.Multiple && version < titledEnums:
			return nil
		case len(all) == 0:
			properties = append(properties, pair{x.ID, ordered{{"type", "string"}, {"title", title}, {"description", x.Text}}})
		case x.Multiple:
			properties = append(properties, pair{x.ID, ordered{{"type", "array"}, {"title", title}, {"description", x.Text}, {"items", ordered{{"anyOf", titled(all)}}}}})
		default:
			properties = append(properties, pair{x.ID, choices(title, x.Text, all, version)})
		}
		if len(all) > 0 && x.FreeText {
			properties = append(properties, pair{inOwnWords(x.ID), ordered{{"type", "string"}, {"title", title + ": in your own words"}}})
			continue
		}
		required = append(required, x.ID)
	}
	if len(properties) == 0 {
		return nil
	}
	if required == nil {
		required = []string{}
	}
	return &form{params: formParams(message, properties, required),
		answer: func(content map[string]json.RawMessage, _ json.RawMessage) (a sessions.RespondArgs, ok bool) {
			a.Answers = map[string][]string{}
			for _, x := range q.Questions {
				var one string
				var many []string
				switch {
				case json.Unmarshal(content[inOwnWords(x.ID)], &one) == nil && strings.TrimSpace(one) != "":
					many = []string{one}
				case json.Unmarshal(content[x.ID], &one) == nil && strings.TrimSpace(one) != "":
					many = []string{one}
				case json.Unmarshal(content[x.ID], &many) != nil:
				}
				if len(many) == 0 {
					return a, false
				}
				a.Answers[x.ID] = many
			}
			return a, true
		}}
}

// schemaForm passes a form of the agent on as it is.
func schemaForm(q *sessions.Request, message string) *form {
	var s struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(q.Schema, &s) != nil || s.Type != "object" {
		return nil
	}
	return &form{params: ordered{{"message", message}, {"requestedSchema", q.Schema}},
		answer: func(content map[string]json.RawMessage, raw json.RawMessage) (a sessions.RespondArgs, ok bool) {
			a.Form = bytes.Clone(raw)
			return a, content != nil
		}}
}

// pair and ordered are a JSON object whose members keep their order: a user reads a form from above.
type pair struct {
	name  string
	value any
}

type ordered []pair

// MarshalJSON writes the members in their order.
func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(p.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(p.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
