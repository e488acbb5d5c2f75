package appserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// askUser surfaces item/tool/requestUserInput. It has no time limit: autoResolutionMs was never seen to be kept, and
// nobody answers in the user's place.
func askUser(a *Agent, r *request, head requestHead, raw json.RawMessage) error {
	var p struct {
		Questions []struct {
			ID       string `json:"id"`
			Header   string `json:"header"`
			Question string `json:"question"`
			IsOther  bool   `json:"isOther"`
			IsSecret bool   `json:"isSecret"`
			Options  []struct {
				Label       string `json:"label"`
				Description string `json:"description"`
			} `json:"options"`
		} `json:"questions"`
		IsBlocking *bool `json:"isBlocking"`
	}
	if err := decode(raw, &p); err != nil {
		return err
	}
	if len(p.Questions) == 0 {
		return errors.New("there is no question in it")
	}
	r.shown.Kind, r.shown.Title = sessions.RequestQuestion, p.Questions[0].Question
	r.outlives = p.IsBlocking != nil && !*p.IsBlocking
	labels := map[string]map[string]string{} // by question and option id
	for _, q := range p.Questions {
		if _, twice := labels[q.ID]; twice {
			return fmt.Errorf("two of its questions are called %q", q.ID)
		}
		labels[q.ID] = map[string]string{}
		out := sessions.Question{ID: q.ID, Header: q.Header, Text: q.Question, Secret: q.IsSecret, FreeText: q.IsOther || len(q.Options) == 0}
		for _, o := range q.Options {
			id := o.Label
			for n := 2; labels[q.ID][id] != "" || id == ""; n++ { // equal labels are told apart by their number
				id = fmt.Sprintf("%s (%d)", o.Label, n)
			}
			labels[q.ID][id] = o.Label
			out.Options = append(out.Options, sessions.QuestionOption{ID: id, Label: o.Label, Description: o.Description})
		}
		r.shown.Questions = append(r.shown.Questions, out)
	}
	nothing := map[string]any{"answers": map[string]any{}}
	r.decline, r.cancel = nothing, nothing
	r.answer = func(ans sessions.Answer) (any, error) {
		answers := map[string]any{}
		for _, q := range r.shown.Questions {
			if len(ans.Answers[q.ID]) == 0 {
				return nil, sessions.Errorf(sessions.CodeInvalidParams, "question %q has no answer", q.ID).Do("answer every question, or decline the request")
			}
		}
		for id, given := range ans.Answers {
			known, ok := labels[id]
			if !ok {
				return nil, sessions.Errorf(sessions.CodeInvalidParams, "question %q was not asked", id).Do("answer the questions of the request")
			}
			texts := slices.Clone(given)
			for i, g := range texts {
				if label, ok := known[g]; ok {
					texts[i] = label
				}
			}
			answers[id] = map[string]any{"answers": texts}
		}
		return map[string]any{"answers": answers}, nil
	}
	return nil
}

// askElicitation surfaces mcpServer/elicitation/request. Two things come this way: Codex's own approval of a call to an
// MCP server (it says so in _meta), and what the server itself wants to know.
func askElicitation(a *Agent, r *request, head requestHead, raw json.RawMessage) error {
	var p struct {
		Server  string          `json:"serverName"`
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
		URL     string          `json:"url"`
		Meta    *struct {
			Kind        string          `json:"codex_approval_kind"`
			Persist     json.RawMessage `json:"persist"`
			Tool        string          `json:"tool_name"`
			Description string          `json:"tool_description"`
			Params      json.RawMessage `json:"tool_params"`
		} `json:"_meta"`
	}
	if err := decode(raw, &p); err != nil {
		return err
	}
	answer := func(action string, content, meta any) map[string]any {
		return map[string]any{"action": action, "content": content, "_meta": meta}
	}
	no := answer("decline", nil, nil)
	r.shown.Title = p.Message
	r.decline, r.cancel = no, answer("cancel", nil, nil)
	none := struct{}{}
	switch {
	case p.Meta != nil && p.Meta.Kind != "":
		r.shown.Kind = sessions.RequestApproval
		r.shown.Detail = lines(p.Meta.Description, prefixed("with ", clip(string(p.Meta.Params), a.o.Redact)))
		r.shown.Tool = &sessions.Tool{Name: toolMCP, Title: p.Server + "." + p.Meta.Tool, Detail: detailOf(raw)}
		if p.Meta.Tool == "" { // 0.154 does not name it here
			r.shown.Tool.Title = a.calledTool(r.thread, r.turn, p.Server)
		}
		r.offer("accept", sessions.OptionAllowOnce, answer("accept", none, nil), "allow this call")
		for _, scope := range persistence(p.Meta.Persist) {
			meta := map[string]string{"persist": scope}
			switch scope {
			case "session":
				r.offer("accept_session", sessions.OptionAllowSession, answer("accept", none, meta), "allow this tool until the session ends")
			case "always":
				r.offer("accept_always", sessions.OptionAllowAlways, answer("accept", none, meta), "allow this tool in every session of this Codex home")
			}
		}
		r.offer("decline", sessions.OptionRejectOnce, no, "do not call it; the turn goes on")
		return nil
	case p.Mode == "url":
		r.shown.Kind, r.shown.URL = sessions.RequestApproval, p.URL
		r.shown.Detail = p.Server + " asks you to open this address"
		r.offer("accept", sessions.OptionAllowOnce, answer("accept", nil, nil), "done, or on the way")
		r.offer("decline", sessions.OptionRejectOnce, no, "do not open it; the turn goes on")
		return nil
	case p.Mode == "form" || p.Mode == "" && len(p.Schema) > 0:
		r.shown.Kind, r.shown.Schema = sessions.RequestQuestion, p.Schema
		r.shown.Detail = "asked by " + p.Server
		r.offer("decline", sessions.OptionRejectOnce, no, "tell the server nothing; the turn goes on")
		r.answer = func(ans sessions.Answer) (any, error) {
			var form map[string]json.RawMessage
			if err := decode(ans.Form, &form); err != nil {
				return nil, sessions.Errorf(sessions.CodeInvalidParams, "the form is no JSON object: %s", unreadable(err)).Do("send an object that fits the request's schema")
			}
			return answer("accept", ans.Form, nil), nil
		}
		return nil
	}
	return fmt.Errorf("it is an elicitation in mode %q", p.Mode)
}

// calledTool is the title of the one call to a server's tools that a turn has begun; with none or several, the server.
func (a *Agent) calledTool(thread, turn, server string) string {
	title := server
	for k, it := range a.items {
		if k.thread != thread || it.turn != turn || it.kind != "mcpToolCall" || it.tool == nil || !strings.HasPrefix(it.tool.Title, server+".") {
			continue
		}
		if title != server {
			return server
		}
		title = it.tool.Title
	}
	return title
}

// persistence is how long an approval of a tool may last, as Codex offers it: a list, or one word.
func persistence(raw json.RawMessage) []string {
	var many []string
	if json.Unmarshal(raw, &many) == nil {
		return many
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	return nil
}
