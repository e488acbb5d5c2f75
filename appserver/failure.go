package appserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// Outcomes that the rest of the package asks for.
const (
	outcomeEndTurn       = "end_turn"
	outcomeCancelled     = "cancelled"
	outcomeInterrupted   = "interrupted"
	outcomeModelNotFound = "model_not_found"
	byRecord             = "agent record"
)

// failure is what is known about one name of codexErrorInfo.
type failure struct {
	outcome string
	code    sessions.Code
	action  string // what a person can do
}

// failures names every codexErrorInfo of 0.171.0.
var failures = map[string]failure{
	"contextWindowExceeded":          {"context_window_exceeded", sessions.CodeLimitExceeded, "start a new session, or send less"},
	"sessionBudgetExceeded":          {"session_budget_exceeded", sessions.CodeLimitExceeded, "raise the budget in Codex's configuration, or start a new session"},
	"usageLimitExceeded":             {"usage_limit_exceeded", sessions.CodeLimitExceeded, "wait until the account's limit resets, or use another account"},
	"rateLimitExceeded":              {"rate_limit_exceeded", sessions.CodeLimitExceeded, "wait a moment, then send again"},
	"responseTooManyFailedAttempts":  {"too_many_failed_attempts", sessions.CodeLimitExceeded, "wait a moment, then send again"},
	"serverOverloaded":               {"server_overloaded", sessions.CodeAgentProtocol, "wait a moment, then send again"},
	"flexUnavailable":                {"flex_unavailable", sessions.CodeAgentProtocol, "wait, or use another service tier"},
	"policyCapacityUnavailable":      {"policy_capacity_unavailable", sessions.CodeAgentProtocol, "wait a moment, then send again"},
	"modelNotFound":                  {outcomeModelNotFound, sessions.CodeModelUnavailable, "send with a model that runner_list shows"},
	"unauthorized":                   {"not_logged_in", sessions.CodeNotLoggedIn, "run `codex login`, then send again"},
	"badRequest":                     {"bad_request", sessions.CodeAgentProtocol, "read what the provider says; it did not take the request"},
	"inferenceHookDenied":            {"hook_denied", sessions.CodeAgentProtocol, "see the hooks of Codex's configuration"},
	"cyberPolicy":                    {"refusal", sessions.CodeAgentProtocol, "the provider declined the request; put it another way"},
	"bioPolicy":                      {"refusal", sessions.CodeAgentProtocol, "the provider declined the request; put it another way"},
	"misalignmentPolicyViolation":    {"refusal", sessions.CodeAgentProtocol, "the provider declined the request; put it another way"},
	"tooManyDenials":                 {"too_many_denials", sessions.CodeAgentProtocol, "send what the agent may do instead"},
	"httpConnectionFailed":           {"http_connection_failed", sessions.CodeAgentProtocol, "check the network and the provider, then send again"},
	"responseStreamConnectionFailed": {"stream_connection_failed", sessions.CodeAgentProtocol, "check the network and the provider, then send again"},
	"responseStreamDisconnected":     {"stream_disconnected", sessions.CodeAgentProtocol, "check the network and the provider, then send again"},
	"internalServerError":            {"provider_error", sessions.CodeAgentProtocol, "wait a moment, then send again"},
	"sandboxError":                   {"sandbox_error", sessions.CodeSandboxUnavailable, "see what Codex says about its sandbox here"},
	"threadRollbackFailed":           {"rollback_failed", sessions.CodeAgentProtocol, "resume the session"},
	"activeTurnNotSteerable":         {"not_steerable", sessions.CodeNotRunning, "wait for the turn to end, then send"},
	"other":                          {"failed", sessions.CodeAgentProtocol, "read what Codex says, then send again"},
}

// providerCodes are names that the provider itself gives a failure, where Codex has none and passes on its answer: that of
// an HTTP status 400, in every version from 0.125 to 0.171.
var providerCodes = map[string]string{
	"model_not_found": "modelNotFound", "context_length_exceeded": "contextWindowExceeded",
	"insufficient_quota": "usageLimitExceeded", "usage_limit_reached": "usageLimitExceeded", "rate_limit_exceeded": "rateLimitExceeded",
}

// modelWords are the whole sentences in which providers say that they do not have a model, or not for this account. They
// count where Codex passes on no code: of a status 404 and of a stream that fails 0.125 to 0.154 never do, and with
// ChatGPT and Ollama there is none.
var modelWords = regexp.MustCompile("^(?:" + strings.Join([]string{
	"The model `[^`]+` does not exist or you do not have access to it", // OpenAI
	"The requested model '[^']+' does not exist",                       // OpenAI
	`Model not found \S+`, // ChatGPT
	"The '[^']+' model is not supported when using Codex with a ChatGPT account",
	"The model `[^`]+` does not exist",                          // vLLM
	`model ['"][^'"]+['"] not found(?:, try pulling it first)?`, // Ollama
}, "|") + `)\.?$`)

// around is what Codex puts around a provider's words.
var around = []*regexp.Regexp{
	regexp.MustCompile(`^unexpected status 404 Not Found: (.*), url: `),
	regexp.MustCompile(`^stream disconnected before completion: (.*)$`),
}

// answer is what Codex passes on of a provider's answer.
func (e *turnError) answer() (code, words string) {
	var answer struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		Detail string `json:"detail"` // ChatGPT
	}
	if json.Unmarshal([]byte(e.Message), &answer) == nil {
		return answer.Error.Code, cmp.Or(answer.Error.Message, answer.Detail)
	}
	for _, text := range around {
		if m := text.FindStringSubmatch(e.Message); m != nil {
			return "", m[1]
		}
	}
	return "", ""
}

// describe sorts a provider's failure. Some have no name of their own and are told by their text only.
func (e *turnError) describe() failure {
	if e == nil {
		return failure{"failed", sessions.CodeAgentProtocol, "send again"}
	}
	name := key(e.Info)
	if name == "" {
		_ = json.Unmarshal(e.Info, &name) // null, or something new: other
	}
	f, ok := failures[name]
	if !ok {
		f = failures["other"]
	}
	if !ok || name == "other" || name == "httpConnectionFailed" {
		code, words := e.answer()
		if known, ok := failures[providerCodes[code]]; ok {
			f = known
		} else if modelWords.MatchString(words) {
			f = failures["modelNotFound"]
		}
	}
	if f.outcome == "failed" && strings.Contains(e.Message, "max_output_tokens") {
		return failure{"max_tokens", sessions.CodeLimitExceeded, "send again to go on"}
	}
	return f
}

func (e *turnError) text() string {
	if e == nil {
		return "Codex gave no reason"
	}
	if e.Details == "" || strings.Contains(e.Message, e.Details) {
		return e.Message
	}
	return e.Message + ": " + e.Details
}

// settlement is how a turn of Codex ended, in our words.
func settlement(r wireTurn, cancelled bool) sessions.Settlement {
	switch r.Status {
	case "completed":
		return sessions.Settlement{State: sessions.CommandCompleted, Outcome: outcomeEndTurn}
	case "interrupted":
		if cancelled {
			return sessions.Settlement{State: sessions.CommandInterrupted, Outcome: outcomeCancelled}
		}
		return sessions.Settlement{State: sessions.CommandInterrupted, Outcome: outcomeInterrupted, Reason: "the turn was interrupted, by an answer that ends it or by Codex"}
	case "failed":
		f := r.Error.describe()
		return sessions.Settlement{State: sessions.CommandFailed, Outcome: f.outcome, Reason: fmt.Sprintf("%s (%s)", r.Error.text(), f.action)}
	}
	return sessions.Settlement{State: sessions.CommandFailed, Outcome: string(sessions.CodeAgentProtocol),
		Reason: fmt.Sprintf("Codex ended the turn with a status that is not known here: %q", r.Status)}
}

// failed takes the notification error. With willRetry it is progress: Codex goes on, and may do so for ever.
func (a *Agent) failed(raw json.RawMessage) error {
	var n struct {
		ThreadID  string    `json:"threadId"`
		TurnID    string    `json:"turnId"`
		Error     turnError `json:"error"`
		WillRetry bool      `json:"willRetry"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	f := n.Error.describe()
	e := a.place(n.ThreadID, n.TurnID).event(sessions.EventError, "")
	e.Code, e.Raw = f.code, raw
	if n.WillRetry {
		a.abandonText(n.ThreadID) // the stream begins again, under new ids
		a.warn(e, "%s", n.Error.text())
		return nil
	}
	e.Text = fmt.Sprintf("%s (%s)", n.Error.text(), f.action)
	a.emit(e)
	return nil
}

// modelMissing: the provider does not know the model that Codex confirmed. The confirmation was an echo.
func (a *Agent) modelMissing(t *turn) {
	before := a.sel.evidence
	a.sel.missing = a.sel.settings.Model
	a.sel.report(a.sel.settings, a.models, a.version)
	a.changed(t, before, nil)
}

// rerouted takes model/rerouted: the provider answers with another model.
func (a *Agent) rerouted(raw json.RawMessage) error {
	var n struct {
		ThreadID  string `json:"threadId"`
		TurnID    string `json:"turnId"`
		FromModel string `json:"fromModel"`
		ToModel   string `json:"toModel"`
		Reason    string `json:"reason"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	e := a.place(n.ThreadID, n.TurnID).event(sessions.EventWarning, "")
	e.Code, e.Raw = sessions.CodeSelectionUnconfirmed, raw
	e.Data = map[string]any{"from": n.FromModel, "to": n.ToModel, "reason": n.Reason}
	a.warn(e, "Codex moved from model %q to %q (%s)", n.FromModel, n.ToModel, n.Reason)
	if a.isRoot(n.ThreadID) {
		before := a.sel.evidence
		a.sel.rerouted = n.ToModel
		a.sel.report(a.sel.settings, a.models, a.version)
		a.changed(a.turn, before, raw)
	}
	return nil
}
