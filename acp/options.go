package acp

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/sessions"
)

// Options of an Agent or a Probe. The zero value is usable.
type Options struct {
	// AuthMethod is the id of the authentication method to use, one that the agent lists. "": cursor_login where the
	// agent lists it, and none otherwise.
	AuthMethod string
	// APIKey says that the agent has an API key in its environment and needs no authenticate.
	APIKey bool
	// ClientVersion is sent as our version.
	ClientVersion string
	// Files serves fs/*: the agent may have text files of the workspace read and, unless the session's sandbox is
	// read-only, written. false: not offered, and refused.
	Files bool
	// Start starts the programs of terminal/*. nil: not offered, and refused.
	Start func(Program) (Process, error)
	// Env is the environment of those programs, the agent's own.
	Env []string
	// AccountCommand is how a Probe begins a command line of Cursor's that tells of its version and login; Start runs it.
	// nil: it does not ask.
	AccountCommand []string
	// Redact takes secrets out of what is cut before it is told; what is told whole passes as it is. nil: there are none.
	Redact sessions.Redactor

	HandshakeTimeout time.Duration // of each request that is not named below; 0: 30 s
	AuthTimeout      time.Duration // of authenticate, which a signed-out Cursor may never answer; 0: 15 s
	LoadTimeout      time.Duration // of session/load and session/resume, replay included; 0: 60 s
	ConfirmTimeout   time.Duration // from session/set_mode to the update that confirms it; 0: 5 s
	CancelGrace      time.Duration // from a cancel to the end of the turn; 0: 10 s
	CloseTimeout     time.Duration // of session/close; 0: 5 s

	// Log gets what is no event. nil: nothing.
	Log *zerolog.Logger
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		set *time.Duration
		to  time.Duration
	}{
		{&o.HandshakeTimeout, 30 * time.Second}, {&o.AuthTimeout, 15 * time.Second}, {&o.LoadTimeout, time.Minute},
		{&o.ConfirmTimeout, 5 * time.Second}, {&o.CancelGrace, 10 * time.Second}, {&o.CloseTimeout, 5 * time.Second},
	} {
		if *d.set <= 0 {
			*d.set = d.to
		}
	}
	if o.ClientVersion == "" {
		o.ClientVersion = "0"
	}
	if o.Log == nil {
		nop := zerolog.Nop()
		o.Log = &nop
	}
	return o
}
