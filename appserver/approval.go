package appserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

func decision(d any) map[string]any { return map[string]any{"decision": d} }

// askCommand surfaces item/commandExecution/requestApproval. availableDecisions names what Codex would show; accept,
// acceptForSession, decline and cancel are honoured whether or not it names them.
func askCommand(a *Agent, r *request, head requestHead, raw json.RawMessage) error {
	var p struct {
		Kind       string                           `json:"kind"` // command, writeStdin, humanCommand; "" is command
		Command    string                           `json:"command"`
		Network    *struct{ Host, Protocol string } `json:"networkApprovalContext"`
		Additional json.RawMessage                  `json:"additionalPermissions"`
		Amendment  []string                         `json:"proposedExecpolicyAmendment"`
		Decisions  []json.RawMessage                `json:"availableDecisions"`
	}
	if err := decode(raw, &p); err != nil {
		return err
	}
	command := p.Command
	if it := a.items[itemKey{r.place.thread, head.ItemID}]; it != nil && it.tool != nil && command == "" {
		command = it.tool.Title // the schema lets it be left out
	}
	what := "run this command"
	switch {
	case p.Network != nil:
		what = fmt.Sprintf("let the command reach %s", p.Network.Host)
	case p.Kind == "writeStdin":
		what = "type into the running command"
	}
	r.shown.Kind, r.shown.Title = sessions.RequestApproval, command
	if r.shown.Title == "" {
		r.shown.Title = what
	}
	r.shown.Tool = &sessions.Tool{Name: toolCommand, Title: command, Detail: detailOf(raw)}
	r.shown.Detail = lines(head.Reason, prefixed("in ", head.Cwd))
	if p.Network != nil {
		r.shown.Detail = lines(r.shown.Detail, fmt.Sprintf("network access: %s to %s", p.Network.Protocol, p.Network.Host))
	}
	if len(p.Additional) > 0 && string(p.Additional) != "null" {
		r.shown.Detail = lines(r.shown.Detail, "with additional permissions: "+string(p.Additional))
	}

	r.offer("accept", sessions.OptionAllowOnce, decision("accept"), what+", once")
	if p.Kind != "writeStdin" || slices.ContainsFunc(p.Decisions, func(d json.RawMessage) bool { return string(d) == `"acceptForSession"` }) {
		r.offer("acceptForSession", sessions.OptionAllowSession, decision("acceptForSession"),
			what+", and the same again without asking until this session ends")
	}
	for i, d := range amendments(p.Decisions, p.Amendment) {
		r.offerAmendment(d, i, what)
	}
	r.offer("decline", sessions.OptionRejectOnce, decision("decline"), "do not "+what+"; the turn goes on")
	r.offer("cancel", sessions.OptionCancelTurn, decision("cancel"), "do not "+what+", and end the turn")
	r.decline, r.cancel = decision("decline"), decision("cancel")
	return nil
}

// amendments are the decisions that carry a rule. Versions without availableDecisions only propose one.
func amendments(decisions []json.RawMessage, proposed []string) []json.RawMessage {
	var out []json.RawMessage
	for _, d := range decisions {
		if key(d) != "" {
			out = append(out, d)
		}
	}
	if decisions == nil && len(proposed) > 0 {
		d, err := json.Marshal(map[string]any{execpolicy: map[string]any{"execpolicy_amendment": proposed}})
		if err == nil {
			out = append(out, d)
		}
	}
	return out
}

const (
	execpolicy    = "acceptWithExecpolicyAmendment"
	networkPolicy = "applyNetworkPolicyAmendment"
)

// offerAmendment offers a decision that outlasts the session. Codex writes an execpolicy amendment into
// $CODEX_HOME/rules/default.rules.
func (r *request) offerAmendment(d json.RawMessage, i int, what string) {
	id, kind, label := key(d), sessions.OptionAllowAlways, ""
	var rule map[string]struct {
		Execpolicy []string                      `json:"execpolicy_amendment"`
		Network    struct{ Host, Action string } `json:"network_policy_amendment"`
	}
	if decode(d, &rule) != nil {
		return
	}
	switch {
	case id == execpolicy && len(rule[id].Execpolicy) > 0:
		label = fmt.Sprintf("%s, and never ask again for commands that begin with %q, in every session of this Codex home",
			what, strings.Join(rule[id].Execpolicy, " "))
	case id == networkPolicy && rule[id].Network.Host != "":
		n := rule[id].Network
		label = fmt.Sprintf("always %s %s, in every session of this Codex home", n.Action, n.Host)
		if n.Action != "allow" {
			kind = sessions.OptionRejectAlways
		}
	default:
		return // a rule that says nothing, or one we cannot explain
	}
	if _, taken := r.choices[id]; taken {
		id = fmt.Sprintf("%s.%d", id, i)
	}
	r.offer(id, kind, decision(d), label)
}

// askFileChange surfaces item/fileChange/requestApproval, which names neither paths nor diff: they are in the item of
// the same id, sent before.
func askFileChange(a *Agent, r *request, head requestHead, raw json.RawMessage) error {
	var p struct {
		GrantRoot string `json:"grantRoot"`
	}
	if err := decode(raw, &p); err != nil {
		return err
	}
	r.shown.Kind, r.shown.Title = sessions.RequestApproval, "change files"
	r.shown.Tool = &sessions.Tool{Name: toolFileChange}
	r.shown.Detail = lines(head.Reason, prefixed("asks to write below ", p.GrantRoot))
	if it := a.items[itemKey{r.place.thread, head.ItemID}]; it != nil && it.tool != nil {
		tool := *it.tool
		r.shown.Tool = &tool
		r.shown.Title = "change " + strings.Join(paths(it.changes), ", ")
		r.shown.Detail = lines(r.shown.Detail, diffs(it.changes, a.o.Redact))
	}
	r.offer("accept", sessions.OptionAllowOnce, decision("accept"), "make this change")
	r.offer("acceptForSession", sessions.OptionAllowSession, decision("acceptForSession"),
		"make this change, and further ones to the same files without asking until this session ends")
	r.offer("decline", sessions.OptionRejectOnce, decision("decline"), "do not change anything; the turn goes on")
	r.offer("cancel", sessions.OptionCancelTurn, decision("cancel"), "do not change anything, and end the turn")
	r.decline, r.cancel = decision("decline"), decision("cancel")
	return nil
}

// askPermissions surfaces item/permissions/requestApproval. The protocol has a grant instead of options, so that the
// ids are ours.
func askPermissions(a *Agent, r *request, head requestHead, raw json.RawMessage) error {
	var p struct {
		Permissions map[string]json.RawMessage `json:"permissions"`
	}
	if err := decode(raw, &p); err != nil {
		return err
	}
	asked := map[string]json.RawMessage{}
	for name, value := range p.Permissions {
		if len(value) > 0 && string(value) != "null" {
			asked[name] = value
		}
	}
	what, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	grant := func(scope string) any { return map[string]any{"permissions": asked, "scope": scope} }
	deny := map[string]any{"permissions": map[string]any{}, "scope": "turn"}
	r.shown.Kind, r.shown.Title = sessions.RequestApproval, "more permissions"
	r.shown.Tool = &sessions.Tool{Name: "permissions", Detail: detailOf(raw)}
	r.shown.Detail = lines(head.Reason, prefixed("in ", head.Cwd), clip(string(what), a.o.Redact))
	r.offer("grant_turn", sessions.OptionAllowOnce, grant("turn"), "grant this until the turn ends")
	r.offer("grant_session", sessions.OptionAllowSession, grant("session"), "grant this until the session ends")
	r.offer("deny", sessions.OptionRejectOnce, deny, "grant nothing; the turn goes on")
	r.decline, r.cancel = deny, deny
	return nil
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// lines joins what is not empty.
func lines(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n")
}
