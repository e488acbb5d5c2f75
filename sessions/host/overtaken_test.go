package host

import (
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// An older copy of the journal was put back while the session lived: the bridge has inputs that the journal does not know of.
// What is asked now is given under numbers that are new to it, or is told as not sent; nothing waits for ever.
func TestI02_BridgeAheadOfItsJournal(t *testing.T) {
	t.Run("a prompt", func(t *testing.T) {
		s := newRig(t).idle()
		s.t.sentIn = 1 // the open, by this journal
		s.send("mine")
		l := s.serves(bridge.Hello{LastIn: 4, FirstOut: 9, LastOut: 8})
		res, err := s.r.wait(func(a *sessions.WaitArgs) { a.SessionIDs = []string{s.id} })
		if err != nil || res.TimedOut {
			t.Fatal(res, err)
		}
		cmd := s.command("mine")
		if cmd.State != sessions.CommandFailed || !strings.Contains(cmd.Reason, "nothing was sent") {
			t.Errorf("%+v", cmd)
		}
		if gaps := s.events(sessions.EventGap); len(gaps) != 1 || !strings.Contains(gaps[0].Gap.Reason, "older than the session's bridge") {
			t.Errorf("gaps %+v", gaps)
		}
		l.over()
		s.send("next")
		l = s.serves(bridge.Hello{LastIn: 4, FirstOut: 9, LastOut: 8})
		l.given("5 prompt")
		l.over()
		if gaps := s.events(sessions.EventGap); len(gaps) != 1 {
			t.Errorf("the same is told again: %+v", gaps)
		}
	})
	t.Run("an answer", func(t *testing.T) {
		s := newRig(t).runs()
		s.t.sentIn = 2
		id := s.asks("h", once...)
		var l *line
		_, err := s.answer(id, approve, func() {
			s.r.answering(s, id)
			l = s.serves(bridge.Hello{LastIn: 7})
		})
		refused(t, err, sessions.CodeWithdrawn)
		l.over()
	})
	t.Run("a close", func(t *testing.T) {
		s := newRig(t).idle()
		s.t.sentIn = 1
		if _, err := s.r.Close(t.Context(), s.r.who, sessions.CloseArgs{SessionID: s.id, WaitSeconds: ptr(0)}); err != nil {
			t.Fatal(err)
		}
		l := s.serves(bridge.Hello{LastIn: 3})
		l.given("4 close")
		l.over()
	})
}
