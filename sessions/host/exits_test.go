package host

import (
	"errors"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// I14: every state that a session can be in has an exit that its user can take, and says which.
func TestI14_EveryStateHasAnExit(t *testing.T) {
	closeIt := func(s *session) error {
		_, err := s.closes(sessions.CloseArgs{Delete: true}, func() { s.ends(sandbox.Confirmed) })
		return err
	}
	resume := func(change func(*sessions.ResumeArgs)) func(*session) error {
		return func(s *session) error { _, err := s.resume(change); return err }
	}
	same := func(*sessions.ResumeArgs) {}
	for name, c := range map[string]struct {
		from func(*rig) *session
		exit func(*session) error
		to   sessions.SessionState // "": it is gone
		mute bool                  // nothing needs to be said
	}{
		"starting":     {from: func(r *rig) *session { return r.starting() }, exit: closeIt},
		"idle":         {from: func(r *rig) *session { return r.idle() }, exit: closeIt, mute: true},
		"running":      {from: func(r *rig) *session { return r.runs() }, exit: closeIt},
		"waiting":      {from: func(r *rig) *session { s := r.runs(); s.asks("h", once...); return s }, exit: closeIt},
		"an own turn":  {from: ownTurn, exit: closeIt},
		"closing":      {from: closingSession, exit: closeIt},
		"closed":       {from: func(r *rig) *session { s := closingSession(r); s.ends(sandbox.Confirmed); return s }, exit: resume(same), to: sessions.SessionStarting},
		"failed":       {from: failedSession, exit: resume(same), to: sessions.SessionStarting},
		"failed, gone": {from: failedSession, exit: closeIt},
		"not proven": {from: func(r *rig) *session { s := r.idle(); s.ends(sandbox.Unconfirmed); return s },
			exit: resume(func(a *sessions.ResumeArgs) { a.AcceptUnconfirmed = true }), to: sessions.SessionStarting},
		"not proven, gone": {from: func(r *rig) *session { s := r.idle(); s.ends(sandbox.Unconfirmed); return s }, exit: closeIt},
		"a paused queue": {from: func(r *rig) *session {
			s := r.runs()
			s.send("q", busy("queue"))
			s.settles("c", sessions.CommandInterrupted)
			return s
		}, exit: resume(func(a *sessions.ResumeArgs) { a.RunQueue = true }), to: sessions.SessionRunning},
		"an unknown outcome": {from: unknownOutcome, exit: func(s *session) error {
			if _, err := s.resume(func(a *sessions.ResumeArgs) { a.AcknowledgeUnknown = true }); err != nil {
				return err
			}
			_, err := s.trySend("d")
			return err
		}, to: sessions.SessionRunning},
		"an unknown outcome of the past": {from: func(r *rig) *session { s := unknownOutcome(r); s.ends(sandbox.Confirmed); return s },
			exit: resume(func(a *sessions.ResumeArgs) { a.AcknowledgeUnknown = true }), to: sessions.SessionStarting},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := c.from(r)
			if said := s.view().Recovery; (said == "") != c.mute {
				t.Errorf("it says %q", said)
			}
			if err := c.exit(s); err != nil {
				t.Fatal(err)
			}
			if c.to != "" {
				s.wants(c.to)
				return
			}
			_, err := r.Read(t.Context(), r.who, sessions.ReadArgs{SessionID: s.id})
			refused(t, err, sessions.CodeNotFound)
		})
	}
}

func ownTurn(r *rig) *session {
	s := r.idle()
	s.says(sessions.Event{Kind: sessions.EventTurnStarted, Turn: "own"})
	return s
}

func unknownOutcome(r *rig) *session {
	s := r.idle()
	s.send("c")
	s.reports(bridge.InPrompt, "c", bridge.InputBroken, errors.New("pipe"))
	return s
}
