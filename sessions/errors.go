package sessions

import (
	"errors"
	"fmt"
	"slices"
)

// Code names a kind of refusal or failure. The table is closed and append-only: programs switch on it.
type Code string

const (
	CodeInvalidParams        Code = "invalid_params"
	CodeNotFound             Code = "not_found"
	CodeKeyConflict          Code = "key_conflict"
	CodeBusy                 Code = "busy"
	CodeNotRunning           Code = "not_running"
	CodeSelectionUnconfirmed Code = "selection_unconfirmed"
	CodeModelUnavailable     Code = "model_unavailable"
	CodeRunnerMissing        Code = "runner_missing"
	CodeNotLoggedIn          Code = "not_logged_in"
	CodeSandboxUnavailable   Code = "sandbox_unavailable"
	CodeStaleGeneration      Code = "stale_generation"
	CodeAlreadyAnswered      Code = "already_answered"
	CodeWithdrawn            Code = "withdrawn"
	CodeOutcomeUnknown       Code = "outcome_unknown"
	CodeLeaseLost            Code = "lease_lost"
	CodeFenced               Code = "fenced"
	CodeStorageFull          Code = "storage_full"
	CodeStorageFailed        Code = "storage_failed"
	CodeStopUnconfirmed      Code = "stop_unconfirmed"
	CodeLimitExceeded        Code = "limit_exceeded"
	CodeCursorInvalid        Code = "cursor_invalid"
	CodeUnsupported          Code = "unsupported"
	CodeAgentProtocol        Code = "agent_protocol"
	CodeAgentExited          Code = "agent_exited"
	CodeTimeout              Code = "timeout"
	CodeIncomplete           Code = "incomplete"
	CodeRevisionConflict     Code = "revision_conflict"
	CodeInternal             Code = "internal"
)

// meanings gives every code its one sentence. Codes is the table's order.
var meanings = []struct {
	code    Code
	meaning string
}{
	{CodeInvalidParams, "an argument is missing, unknown, of the wrong type or out of range"},
	{CodeNotFound, "no such session, command or request belongs to this principal"},
	{CodeKeyConflict, "the key was used before with another meaning; nothing was done"},
	{CodeBusy, "the session has a running command"},
	{CodeNotRunning, "the session or command is not in a state that allows this"},
	{CodeSelectionUnconfirmed, "the agent did not confirm a setting that was asked for"},
	{CodeModelUnavailable, "the runner does not offer the model or effort that was asked for"},
	{CodeRunnerMissing, "the runner's executable cannot be found or started"},
	{CodeNotLoggedIn, "the agent needs a login that only its user can do"},
	{CodeSandboxUnavailable, "the asked sandbox cannot be enforced for this runner here"},
	{CodeStaleGeneration, "the generation named is no longer the session's live one"},
	{CodeAlreadyAnswered, "the request was answered before; the first answer stands"},
	{CodeWithdrawn, "the agent no longer waits for this answer"},
	{CodeOutcomeUnknown, "whether the command ran cannot be told, so it is not repeated"},
	{CodeLeaseLost, "the lease named no longer steers this session"},
	{CodeFenced, "a cancel forbade this operation for good"},
	{CodeStorageFull, "the journal's disk is full; nothing was sent"},
	{CodeStorageFailed, "the journal cannot be written; nothing was sent"},
	{CodeStopUnconfirmed, "the process tree could not be proven to be gone"},
	{CodeLimitExceeded, "a documented limit was exceeded"},
	{CodeCursorInvalid, "the cursor is not one of this session's, or lies beyond its end"},
	{CodeUnsupported, "this runner, version or protocol cannot do that"},
	{CodeAgentProtocol, "the agent answered in a way its protocol does not allow, or with an error"},
	{CodeAgentExited, "the agent process ended"},
	{CodeTimeout, "a deadline passed"},
	{CodeIncomplete, "only part of what was asked could be given"},
	{CodeRevisionConflict, "the object changed since the revision named"},
	{CodeInternal, "a fault of Baton itself"},
}

// Codes returns the table's codes in its order.
func Codes() []Code {
	codes := make([]Code, len(meanings))
	for i, m := range meanings {
		codes[i] = m.code
	}
	return codes
}

// Meaning returns the sentence of a code, or "" for a code outside the table.
func (c Code) Meaning() string {
	for _, m := range meanings {
		if m.code == c {
			return m.meaning
		}
	}
	return ""
}

// Error is what every caller sees: a code, what was asked and what is so (Message), and what to do (Action).
type Error struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Action  string         `json:"action,omitempty"`
	Details map[string]any `json:"details,omitempty"`
	cause   error
}

// Errorf makes an Error whose message is formatted; a %w verb keeps its cause for errors.Is.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Do returns the error with the action set: what the caller can do about it.
func (e *Error) Do(format string, args ...any) *Error {
	c := *e
	c.Action = fmt.Sprintf(format, args...)
	return &c
}

// With returns the error with one detail added.
func (e *Error) With(name string, value any) *Error {
	c := *e
	c.Details = make(map[string]any, len(e.Details)+1)
	for k, v := range e.Details {
		c.Details[k] = v
	}
	c.Details[name] = value
	return &c
}

func (e *Error) Error() string {
	if e.Action == "" {
		return string(e.Code) + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Message + " (" + e.Action + ")"
}

func (e *Error) Unwrap() error { return e.cause }

// Is matches another *Error of the same code, so that errors.Is(err, &Error{Code: CodeBusy}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// AsError returns err as an *Error; an error outside the table becomes CodeInternal with its text kept.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error(), cause: err}
}

// CodeOf returns the code of err, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}

// Known tells whether a code is in the table.
func (c Code) Known() bool { return slices.Contains(Codes(), c) }
