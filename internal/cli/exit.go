package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/batonmcp/baton/internal/transcript"
	"github.com/batonmcp/baton/sessions"
)

// Exit statuses, as scripts rely on them.
const (
	ExitDone    = 0
	ExitFailed  = 1 // failed turn or error
	ExitUsage   = 2
	ExitInput   = 3 // needs input
	ExitMissing = 4 // not found: a session, a request, or a runner
	ExitUnknown = 5 // outcome unknown
	ExitTime    = 6 // time limit
)

// Ended ends a command whose result is printed already with a status other than 0.
type Ended struct {
	Status int
	Text   string // for a person, on standard error
}

func (e *Ended) Error() string { return e.Text }

// Usage is a command line that makes no sense.
func Usage(format string, args ...any) error {
	return &Ended{ExitUsage, fmt.Sprintf(format, args...)}
}

// Status is the exit status of an error.
func Status(err error) int {
	if err == nil {
		return ExitDone
	}
	if e, ok := err.(*Ended); ok {
		return e.Status
	}
	switch sessions.CodeOf(err) {
	case sessions.CodeInvalidParams:
		return ExitUsage
	case sessions.CodeNotFound, sessions.CodeRunnerMissing:
		return ExitMissing
	case sessions.CodeOutcomeUnknown:
		return ExitUnknown
	case sessions.CodeTimeout:
		return ExitTime
	}
	return ExitFailed
}

// ofCommand is how a command that is waited for no longer ended: nil where its agent completed it.
func ofCommand(c *sessions.Command, s *sessions.Session) error {
	switch {
	case c.State == sessions.CommandCompleted:
		return nil
	case c.State == sessions.CommandUnknown:
		text := "whether command " + c.CommandID + " ran to its end is not known" + because(c.Reason)
		return &Ended{ExitUnknown, text + "; look at its work, then: baton resume --acknowledge-unknown " + s.SessionID}
	case c.State.Settled():
		return &Ended{ExitFailed, "command " + c.CommandID + " is " + string(c.State) + outcome(c) + because(c.Reason)}
	case asks(s):
		return needsInput(s)
	case !s.State.Live():
		return ofSession(s)
	}
	return outOfTime("command " + c.CommandID + " is " + string(c.State))
}

// ofSession is how a session stands that is waited for no longer.
func ofSession(s *sessions.Session) error {
	switch {
	case asks(s):
		return needsInput(s)
	case s.Last != nil && s.Last.State == sessions.CommandUnknown && !s.Last.Acked:
		return ofCommand(s.Last, s)
	case s.State == sessions.SessionFailed && s.Error != nil:
		return &Ended{ExitFailed, "session " + s.SessionID + " failed: " + string(s.Error.Code) + because(s.Error.Message) + Said(s.Error)}
	case s.State == sessions.SessionFailed:
		return &Ended{ExitFailed, "session " + s.SessionID + " failed"}
	case s.Last != nil && s.Running == nil:
		return ofCommand(s.Last, s)
	}
	return nil
}

func outOfTime(what string) error {
	return &Ended{ExitTime, what + " when the time was over; the work goes on"}
}

// needsInput tells who has no terminal how to answer.
func needsInput(s *sessions.Session) error {
	text := "session " + s.SessionID + " needs input"
	for i := range s.Requests {
		if q := &s.Requests[i]; q.State == sessions.RequestPending {
			text += "\n  " + howToAnswer(s.SessionID, q)
		}
	}
	return &Ended{ExitInput, text + "\nthen: baton wait " + s.SessionID}
}

func howToAnswer(session string, q *sessions.Request) string {
	text := fmt.Sprintf("%s %s: %s\n    baton respond %s %s ", q.Kind, q.RequestID, oneLine(q.Title), session, q.RequestID)
	switch {
	case len(q.Schema) > 0:
		return text + "--form JSON  or  --deny"
	case q.Kind == sessions.RequestQuestion && len(q.Questions) > 0:
		choices := ""
		for _, qu := range q.Questions {
			text += "--answer " + qu.ID + "=ANSWER "
			choices += "\n    " + qu.ID + " is " + choicesOf(qu)
		}
		return text + " or  --deny" + choices
	}
	return text + "--approve  or  --deny  or  --option ID"
}

// choicesOf says what a question can be answered with.
func choicesOf(q sessions.Question) string {
	var all []string
	for _, o := range q.Options {
		text := o.ID
		if o.Label != "" && o.Label != o.ID {
			text += " (" + o.Label + ")"
		}
		all = append(all, oneLine(text))
	}
	switch {
	case len(all) == 0:
		return "any text"
	case q.FreeText:
		return strings.Join(all, ", ") + ", or any text"
	}
	return strings.Join(all, ", ")
}

func asks(s *sessions.Session) bool {
	for i := range s.Requests {
		if s.Requests[i].State == sessions.RequestPending {
			return true
		}
	}
	return false
}

// Said is what an agent wrote beside its protocol before it failed, as lines behind an error; "" where nothing is known.
func Said(err error) string {
	var e *sessions.Error
	if !errors.As(err, &e) {
		return ""
	}
	said := transcript.LastWords(e.Details)
	if len(said) == 0 {
		return ""
	}
	return "\n  " + strings.Join(said, "\n  ")
}
