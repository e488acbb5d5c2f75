package bridge

import (
	"slices"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// lingerFor is how long frames that nobody waits for are held for what comes behind them, so that one write, one wake-up of
// the host and one commit take all: the receipt of a prompt, its turn's beginning and a quick answer are one instead of
// three. It is a part of the time that streamed text may be late.
const lingerFor = 5 * time.Millisecond

// lingerMost and lingerBytes bound what is held so.
const (
	lingerMost  = 64
	lingerBytes = 256 << 10
)

// quietKinds are the events that end no wait and change nothing that somebody could act upon.
var quietKinds = []sessions.EventKind{sessions.EventText, sessions.EventReasoning, sessions.EventPlan, sessions.EventToolStarted,
	sessions.EventToolUpdated, sessions.EventToolCompleted, sessions.EventTurnStarted, sessions.EventTurnCompleted,
	sessions.EventCommandAccepted, sessions.EventUsage}

// Quiet tells whether nobody waits for events of a kind.
func Quiet(kind sessions.EventKind) bool { return slices.Contains(quietKinds, kind) }

// quiet tells whether nobody waits for what a frame says.
func quiet(kind Kind, body any) bool {
	switch b := body.(type) {
	case sessions.Event:
		return kind == OutEvent && Quiet(b.Kind)
	case InputResult:
		return kind == OutInput && b.Kind == InPrompt && b.State == InputWritten && b.Error == nil
	}
	return false
}
