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

// meanings gives every code its one sentence, and what a caller can do about it where the error itself does not say.
// Codes is the table's order.
var meanings = []struct {
	code            Code
	meaning, remedy string
}{
	{CodeInvalidParams, "an argument is missing, unknown, of the wrong type or out of range",
		"correct the argument that the message names, then call again"},
	{CodeNotFound, "no such session, command or request belongs to this principal",
		"check the id; session_list shows what is there"},
	{CodeKeyConflict, "the key was used before with another meaning; nothing was done",
		"take a new key, or repeat exactly what was asked under this one"},
	{CodeBusy, "the session has a running command",
		"wait for it, cancel it, or send with when_busy queue"},
	{CodeNotRunning, "the session or command is not in a state that allows this",
		"look at the session; resume it if it has ended"},
	{CodeSelectionUnconfirmed, "the agent did not confirm a setting that was asked for",
		"ask for a setting that the runner reports (runner_list), or leave it out"},
	{CodeModelUnavailable, "the runner does not offer the model or effort that was asked for",
		"choose one that runner_list shows"},
	{CodeRunnerMissing, "the runner's executable cannot be found or started",
		"install the agent, or name its executable in the configuration"},
	{CodeNotLoggedIn, "the agent needs a login that only its user can do",
		"log in with the agent itself, then try again"},
	{CodeSandboxUnavailable, "the asked sandbox cannot be enforced for this runner here",
		"run `baton doctor`, or ask for another sandbox"},
	{CodeStaleGeneration, "the generation named is no longer the session's live one",
		"look at the session again, then decide anew"},
	{CodeAlreadyAnswered, "the request was answered before; the first answer stands",
		"nothing is left to do; the first answer stands"},
	{CodeWithdrawn, "the agent no longer waits for this answer",
		"look at the session's events for what the agent did instead"},
	{CodeOutcomeUnknown, "whether the command ran cannot be told, so it is not repeated",
		"look at its work, then call session_resume with acknowledge_unknown"},
	{CodeLeaseLost, "the lease named no longer steers this session",
		"look at who steers the session now"},
	{CodeFenced, "a cancel forbade this operation for good",
		"take a new id if it is still wanted"},
	{CodeStorageFull, "the journal's disk is full; nothing was sent",
		"free space on that disk, then try again"},
	{CodeStorageFailed, "the journal cannot be written; nothing was sent",
		"look at that disk and its permissions, then try again"},
	{CodeStopUnconfirmed, "the process tree could not be proven to be gone",
		"see that the processes are gone, then resume with accept_unconfirmed"},
	{CodeLimitExceeded, "a documented limit was exceeded",
		"ask for less at once"},
	{CodeCursorInvalid, "the cursor is not one of this session's, or lies beyond its end",
		"use a cursor that a call on this session returned, or none"},
	{CodeUnsupported, "this runner, version or protocol cannot do that",
		"leave out what is not supported, or use a runner or version that has it"},
	{CodeAgentProtocol, "the agent answered in a way its protocol does not allow, or with an error",
		"look at the session's events and the agent's version, then resume it"},
	{CodeAgentExited, "the agent process ended",
		"resume the session; nothing is sent again by itself"},
	{CodeTimeout, "a deadline passed",
		"look at the session, then try again"},
	{CodeIncomplete, "only part of what was asked could be given",
		"look at what there is, then ask for the rest"},
	{CodeRevisionConflict, "the object changed since the revision named",
		"look at the object again, then decide anew"},
	{CodeInternal, "a fault of Baton itself",
		"look at the session for what was done, and report the fault with the host's log"},
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

// Remedy returns what a caller can do about an error of the code in general, or "" for a code outside the table.
func (c Code) Remedy() string {
	for _, m := range meanings {
		if m.code == c {
			return m.remedy
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

// Whole returns the error with an action: its own, or else its code's remedy.
func (e *Error) Whole() *Error {
	if e == nil || e.Action != "" {
		return e
	}
	c := *e
	c.Action = c.Code.Remedy()
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
