package acp

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// outcome is the nested answer of permissions and of Cursor's requests. A flat one is read as cancelled.
type outcome struct {
	Outcome any `json:"outcome"`
}

type outcomeWord struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
}

type outcomeSelected struct {
	Outcome  string `json:"outcome"`
	OptionID string `json:"optionId"`
}

var outcomeCancelled = outcome{outcomeWord{Outcome: "cancelled"}}

type permissionOption struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// reach says how far each kind of option goes, which the names that agents give ("Yes", "Always") leave open.
var reach = map[string]string{
	"allow_once":    "this time only",
	"allow_always":  "from now on; the agent remembers it, perhaps beyond this session",
	"reject_once":   "this time only",
	"reject_always": "from now on; the agent remembers it, perhaps beyond this session",
}

// permission handles session/request_permission.
func (a *Agent) permission(m wire.Message) {
	var p struct {
		SessionID string             `json:"sessionId"`
		Tool      json.RawMessage    `json:"toolCall"`
		Options   []permissionOption `json:"options"`
	}
	var call toolCall
	readable := decode(m.Params, &p) == nil && decode(p.Tool, &call) == nil
	if !a.mayAsk(m, p.SessionID, call.ID, outcomeCancelled) {
		return
	}
	options := make([]sessions.Option, 0, len(p.Options))
	for _, o := range p.Options {
		if o.ID == "" {
			continue
		}
		kind := o.Kind
		if reach[kind] == "" {
			kind = a.o.Redact.Redact(kind) // as a kind it would be left as it is
		}
		options = append(options, sessions.Option{OptionID: o.ID, Kind: sessions.OptionKind(kind), Label: label(o)})
	}
	if !readable || len(options) == 0 {
		a.declineBroken(m, outcomeCancelled, "it offers no option")
		return
	}
	t := a.permissionTool(call, p.Tool)
	q := &pending{tool: t, cancelled: outcomeCancelled}
	q.answer = func(answer sessions.Answer) (any, decision, error) {
		if answer.Decline {
			return outcomeCancelled, denied, nil
		}
		i := slices.IndexFunc(options, func(o sessions.Option) bool { return o.OptionID == answer.OptionID })
		if i < 0 {
			return nil, 0, invalid("option %q is not offered by this request", answer.OptionID).Do("choose one of the options of the request")
		}
		d := decided
		switch kind := p.Options[slices.IndexFunc(p.Options, func(o permissionOption) bool { return o.ID == answer.OptionID })].Kind; {
		case strings.HasPrefix(kind, "reject"):
			d = denied
		case call.Kind == "switch_mode":
			d = approvedMode
		}
		return outcome{outcomeSelected{"selected", answer.OptionID}}, d, nil
	}
	r := sessions.Request{Title: call.Title, Detail: permissionDetail(call, a.o.Redact), Options: options}
	if t != nil {
		now := t.now
		if r.Tool = &now; r.Title == "" {
			r.Title = now.Title
		}
	}
	a.ask(m, q, sessions.EventApprovalRequested, r)
}

// permissionTool is the tool that a permission is asked for, made of the request where no tool_call came before: Gemini
// sends none (0.61), zed's codex-acp only after the grant (0.16.0).
func (a *Agent) permissionTool(call toolCall, raw json.RawMessage) *tool {
	if call.ID == "" {
		return nil
	}
	f := a.feedOf("")
	t := f.tools[call.ID]
	if t == nil {
		return f.begin(call, raw)
	}
	call.Status = ""
	t.merge(call, true)
	return t
}

// permissionDetail is what a person needs to know to decide: the command, what the agent says about it, the files.
func permissionDetail(call toolCall, hide sessions.Redactor) string {
	var input struct {
		Command json.RawMessage `json:"command"`
	}
	_ = decode(call.RawInput, &input)
	var command string
	var argv []string
	if decode(input.Command, &command) == nil && command == "" && decode(input.Command, &argv) == nil {
		command = strings.Join(argv, " ")
	}
	parts := []string{command, call.texts()}
	for _, c := range call.Content {
		parts = append(parts, c.Path)
	}
	for _, l := range call.Locations {
		parts = append(parts, l.Path)
	}
	var lines []string
	for _, p := range parts {
		if p != "" && !slices.Contains(lines, p) {
			lines = append(lines, p)
		}
	}
	return told(strings.Join(lines, "\n"), maxOutput, hide)
}

func label(o permissionOption) string {
	name := o.Name
	if name == "" {
		name = o.ID
	}
	if r := reach[o.Kind]; r != "" {
		return name + " (" + r + ")"
	}
	return name
}
