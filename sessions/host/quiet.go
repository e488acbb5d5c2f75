package host

import (
	"bytes"
	"slices"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// lingerFor is how long frames that nobody waits for are held for what comes behind them, so that one commit takes all: the
// receipt of a prompt, its turn's beginning and a quick answer are one instead of three. It is a part of the time that
// streamed text may be late. The bridge keeps what is held, as everything that is not durable.
const lingerFor = 5 * time.Millisecond

// lingerMost bounds the frames that are held so.
const lingerMost = 64

// quietKinds are the events that end no wait and change nothing that somebody could act upon.
var quietKinds = []sessions.EventKind{sessions.EventText, sessions.EventReasoning, sessions.EventPlan, sessions.EventToolStarted,
	sessions.EventToolUpdated, sessions.EventToolCompleted, sessions.EventTurnStarted, sessions.EventTurnCompleted,
	sessions.EventCommandAccepted, sessions.EventUsage}

// quiet tells whether nobody waits for what a frame says. It looks at the head of the body only: a frame that it takes for
// the wrong one is late by lingerFor, or costs a commit of its own.
func quiet(f bridge.Frame) bool {
	head := f.Body[:min(len(f.Body), 160)]
	switch f.Kind {
	case bridge.OutEvent:
		return slices.Contains(quietKinds, sessions.EventKind(member(head, "kind")))
	case bridge.OutInput:
		return bridge.Kind(member(head, "kind")) == bridge.InPrompt && bytes.HasSuffix(f.Body, []byte(`"state":"written"}`))
	}
	return false
}

// member is the plain text of the first member of a name.
func member(head []byte, name string) string {
	_, rest, found := bytes.Cut(head, []byte(`"`+name+`":"`))
	if !found {
		return ""
	}
	value, _, found := bytes.Cut(rest, []byte(`"`))
	if !found {
		return ""
	}
	return string(value)
}
