package cli

import (
	"fmt"
	"strings"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/sessions"
)

// The sentences of results, for people.

func sessionLine(s *sessions.Session) string {
	text := fmt.Sprintf("session %s is %s (%s in %s)", s.SessionID, s.State, s.Runner, s.Cwd)
	if s.State == sessions.SessionDeleted {
		return "session " + s.SessionID + " is deleted"
	}
	if m := s.Selections.Evidence.Model; m != "" {
		text += ", model " + m
	}
	if asks(s) {
		text += ", it needs input"
	}
	if s.Running != nil {
		text += ", running command " + s.Running.CommandID
	}
	if n := len(s.Queued); n > 0 {
		text += fmt.Sprintf(", %d queued", n)
	}
	if s.Error != nil {
		text += ", " + string(s.Error.Code) + because(s.Error.Message)
	}
	if s.Recovery != "" && s.State == sessions.SessionFailed {
		text += "; " + strings.TrimRight(s.Recovery, ".")
	}
	return text
}

func commandLine(c *sessions.Command) string {
	return "command " + c.CommandID + " is " + string(c.State) + outcome(c) + because(c.Reason)
}

func outcome(c *sessions.Command) string {
	if c.Outcome == "" || c.Outcome == string(c.State) || c.Outcome == "end_turn" {
		return ""
	}
	return " (" + c.Outcome + ")"
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func oneLine(text string) string { return term.OneLine(text, 200) }

// spoken are the words of the command line for what errors name by the words of the tools.
var spoken = strings.NewReplacer("session_create", "baton create", "session_send", "baton send", "session_wait", "baton wait",
	"session_read", "baton read", "session_respond", "baton respond", "session_cancel", "baton cancel", "session_close", "baton close",
	"session_resume", "baton resume", "session_list", "baton list", "runner_list", "baton runners", "when_busy ", "--when-busy ",
	"acknowledge_unknown", "--acknowledge-unknown", "accept_unconfirmed", "--accept-unconfirmed", "run_queue", "--run-queue",
	"max_chars", "--max-chars")

// Spoken is the text of an error in the words of the command line.
func Spoken(text string) string { return spoken.Replace(term.Clean(text)) }
