package acp

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// Cursor's own methods, as documented and as seen (2026.06 to 2026.10). They name no session, only a tool call.

type cursorQuestion struct {
	ID       string `json:"id"`
	Prompt   string `json:"prompt"`
	Multiple bool   `json:"allowMultiple"`
	Options  []struct {
		ID    string `json:"id"`
		Label string `json:"label"`
	} `json:"options"`
}

type cursorAnswer struct {
	QuestionID string   `json:"questionId"`
	Selected   []string `json:"selectedOptionIds"`
}

// cursorAsked handles cursor/ask_question. Answers go by option id, so two options may have one label.
func (a *Agent) cursorAsked(m wire.Message) {
	var p struct {
		ToolID    string           `json:"toolCallId"`
		Title     string           `json:"title"`
		Questions []cursorQuestion `json:"questions"`
	}
	readable := decode(m.Params, &p) == nil && len(p.Questions) > 0
	if !a.mayAsk(m, "", p.ToolID, outcomeCancelled) {
		return
	}
	r := sessions.Request{Title: p.Title}
	for _, q := range p.Questions {
		readable = readable && q.ID != "" && len(q.Options) > 0
		out := sessions.Question{ID: q.ID, Text: q.Prompt, Multiple: q.Multiple}
		for _, o := range q.Options {
			readable = readable && o.ID != ""
			out.Options = append(out.Options, sessions.QuestionOption{ID: o.ID, Label: o.Label})
		}
		r.Questions = append(r.Questions, out)
	}
	if !readable {
		why := "its questions cannot be answered by option id"
		a.declineBroken(m, outcome{outcomeWord{"skipped", why}}, why)
		return
	}
	if r.Title == "" {
		r.Title = told(r.Questions[0].Text, 200, a.o.Redact)
	}
	a.ask(m, &pending{cancelled: outcomeCancelled, tool: a.feedOf("").tools[p.ToolID],
		answer: func(answer sessions.Answer) (any, decision, error) { return answerQuestions(r.Questions, answer) },
	}, sessions.EventQuestionRequested, r)
}

func answerQuestions(questions []sessions.Question, answer sessions.Answer) (any, decision, error) {
	if answer.Decline {
		return outcome{outcomeWord{"skipped", "the user declined to answer"}}, denied, nil
	}
	answers := make([]cursorAnswer, 0, len(questions))
	for _, q := range questions {
		given := answer.Answers[q.ID]
		if len(given) == 0 || len(given) > 1 && !q.Multiple {
			return nil, 0, invalid("question %q takes %s, %d were given", q.ID, map[bool]string{true: "at least one answer", false: "one answer"}[q.Multiple], len(given))
		}
		for _, id := range given {
			if !slices.ContainsFunc(q.Options, func(o sessions.QuestionOption) bool { return o.ID == id }) {
				return nil, 0, invalid("question %q has no option %q", q.ID, id)
			}
		}
		answers = append(answers, cursorAnswer{q.ID, given})
	}
	return outcome{struct {
		Outcome string         `json:"outcome"`
		Answers []cursorAnswer `json:"answers"`
	}{"answered", answers}}, decided, nil
}

type cursorPlanParams struct {
	ToolID   string      `json:"toolCallId"`
	Name     string      `json:"name"`
	Overview string      `json:"overview"`
	Plan     string      `json:"plan"`
	Todos    []planEntry `json:"todos"`
}

// cursorPlanned tells of a plan.
func (a *Agent) cursorPlanned(params json.RawMessage) (p cursorPlanParams) {
	if decode(params, &p) != nil {
		a.unknown("notification", cursorPlan+" that cannot be read", params)
		return p
	}
	data := map[string]any{}
	for name, v := range map[string]string{"name": p.Name, "overview": p.Overview} {
		if v != "" {
			data[name] = v
		}
	}
	if len(p.Todos) > 0 {
		data["todos"] = p.Todos
	}
	a.cursorFeed(p.ToolID).send(sessions.Event{Kind: sessions.EventPlan, Item: p.ToolID, Text: p.Plan, Final: true, Data: data})
	return p
}

// cursorPlanAsked handles cursor/create_plan. Accepting it does not switch the mode by itself.
func (a *Agent) cursorPlanAsked(m wire.Message) {
	var head struct {
		ToolID string `json:"toolCallId"`
	}
	_ = decode(m.Params, &head)
	if !a.mayAsk(m, "", head.ToolID, outcomeCancelled) {
		return
	}
	p := a.cursorPlanned(m.Params)
	title := p.Name
	if title == "" {
		title = "Plan"
	}
	r := sessions.Request{Title: title, Detail: strings.TrimSpace(p.Overview + "\n\n" + p.Plan), Options: []sessions.Option{
		{OptionID: "accepted", Kind: sessions.OptionAllowOnce, Label: "Accept this plan (this time only)"},
		{OptionID: "rejected", Kind: sessions.OptionRejectOnce, Label: "Reject this plan (this time only)"},
	}}
	answer := func(answer sessions.Answer) (any, decision, error) {
		switch {
		case answer.Decline:
			return outcomeCancelled, denied, nil
		case answer.OptionID == "accepted":
			return outcome{outcomeWord{Outcome: "accepted"}}, approvedMode, nil
		case answer.OptionID == "rejected":
			return outcome{outcomeWord{Outcome: "rejected", Reason: "the user rejected the plan"}}, denied, nil
		}
		return nil, 0, invalid("a plan is answered with option accepted or rejected, not %q", answer.OptionID)
	}
	a.ask(m, &pending{cancelled: outcomeCancelled, answer: answer}, sessions.EventApprovalRequested, r)
}

// todos is Cursor's list, kept because a merge carries the changed entries alone.
type todos []planEntry

func (t *todos) take(entries []planEntry, merge bool) {
	if !merge {
		*t = slices.Clone(entries)
		return
	}
	for _, e := range entries {
		i := slices.IndexFunc(*t, func(old planEntry) bool { return old.ID == e.ID })
		if i < 0 {
			*t = append(*t, e)
			continue
		}
		if e.Content == "" {
			e.Content = (*t)[i].Content
		}
		(*t)[i] = e
	}
}

// cursorNote handles what Cursor tells without waiting for an answer.
func (a *Agent) cursorNote(m wire.Message) {
	var p struct {
		ToolID      string      `json:"toolCallId"`
		Merge       bool        `json:"merge"`
		Todos       []planEntry `json:"todos"`
		Description string      `json:"description"`
		Agent       string      `json:"agentId"`
		File        string      `json:"filePath"`
	}
	if decode(m.Params, &p) != nil {
		a.unknown("notification", m.Method+" that cannot be read", m.Params)
		return
	}
	f := a.cursorFeed(p.ToolID)
	switch m.Method {
	case cursorTodos:
		a.todos.take(p.Todos, p.Merge)
		f.send(sessions.Event{Kind: sessions.EventPlan, Item: "todos", Text: planText(a.todos), Final: true,
			Data: map[string]any{"todos": slices.Clone(a.todos)}})
	case cursorTask, cursorImage:
		// Sent once, when it is done. Where the tool call is announced as well, that one tells of the end.
		call := toolCall{ID: p.ToolID, Title: p.Description, Kind: strings.TrimPrefix(m.Method, "cursor/"), RawInput: m.Params}
		if p.File != "" {
			call.Locations = append(call.Locations, struct {
				Path string `json:"path"`
			}{p.File})
		}
		if call.ID == "" {
			call.ID = m.Method
		}
		if f.tools[call.ID] == nil {
			call.Status = "completed"
		} else {
			call.Title, call.Kind = "", ""
		}
		f.call(call, m.Params)
	}
}

// cursorFeed is where an event of Cursor's own methods belongs.
func (a *Agent) cursorFeed(tool string) *feed {
	switch {
	case a.turn == nil:
		return a.lateFeed("")
	case a.turn.ofPast(a, tool):
		old, _ := a.past.tools.get(tool)
		return a.revive(old.command, tool)
	}
	a.accept("cursor")
	return a.feedOf("")
}
