package appserver

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// refusal is an error answer of Codex. Nearly all of them, unknown methods included, carry the code -32600, so that only
// the text tells one from another; every text that matters is matched in this file alone.
type refusal struct {
	method string
	code   int64
	text   string
	hide   sessions.Redactor
}

func (r *refusal) Error() string { return fmt.Sprintf("Codex refused %s: %s", r.method, r.brief()) }

// brief cuts what Codex says to a readable length: for an unknown method it lists all it has, 5 kB.
func (r *refusal) brief() string {
	const limit = 300
	text := r.text
	if len(text) > limit {
		text = r.hide.Redact(text)
	}
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

func refused(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return nil
}

func says(err error, text string) bool {
	r := refused(err)
	return r != nil && strings.Contains(r.text, text)
}

// unknownMethod: this version has no such method, or this field is experimental there.
func unknownMethod(err error) bool {
	r := refused(err)
	return r != nil && (r.code == -32601 || strings.Contains(r.text, "unknown variant"))
}

// noRollout: the thread is not on disk. That is so for an unknown id and for a thread that never ran a turn.
func noRollout(err error) bool { return says(err, "no rollout found") }

// noThread: thread/read has no such thread, or the id is none.
func noThread(err error) bool {
	return says(err, "thread not loaded") || says(err, "invalid thread id") || noRollout(err)
}

// notListed: the record of the thread has no list of items.
func notListed(err error) bool { return says(err, "is not supported yet") }

// otherWriter: another process has the thread open.
func otherWriter(err error) bool { return says(err, "already has an active writer") }

// noActiveTurn: nothing to interrupt, or to steer. Right after the answer to turn/start it is said of a turn that is
// about to run (0.144.6 to 0.171.0).
func noActiveTurn(err error) bool { return says(err, "no active turn to") }

var activeTurn = regexp.MustCompile("expected active turn id `?([^` ]*)`? but found `?([^` ]+?)`?$")

// otherTurn: another turn than the one named is active; it returns that one.
func otherTurn(err error) string {
	r := refused(err)
	if r == nil {
		return ""
	}
	if m := activeTurn.FindStringSubmatch(strings.TrimSpace(r.text)); m != nil {
		return m[2]
	}
	return ""
}

var modelMetadata = regexp.MustCompile("^Model metadata for `([^`]+)` not found")

// unknownModel is the model that a warning says Codex knows nothing of.
func unknownModel(warning string) string {
	if m := modelMetadata.FindStringSubmatch(warning); m != nil {
		return m[1]
	}
	return ""
}

// asError gives a refusal the place in the error table that fits where nothing better is known.
func asError(err error) *sessions.Error {
	var known *sessions.Error
	if r := refused(err); r != nil && !errors.As(err, &known) {
		return sessions.Errorf(sessions.CodeAgentProtocol, "%w", r).Do("see what Codex says; close and resume the session if it stays like this")
	}
	return sessions.AsError(err)
}
