package journal

import (
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

func TestSessionView(t *testing.T) {
	j := openFake(t, newFakeDisk(t, 1))
	s, g := live(t, j, toRunning()...)
	update(t, j, func(tx *Tx) error {
		_, err := tx.UpdateSession(s.ID, func(s *Session) {
			s.Title, s.Generation, s.NativeID, s.Lease, s.WorkspaceID = "t", g.ID, "n", "l", "w"
			s.Asked.Model, s.Evidence.Model = "asked", "reported"
			s.Settings.RunnerOptions = map[string]any{"k": "v"}
			s.Settings.EnvNames = []string{"NAME"}
		})
		if err != nil {
			return err
		}
		for _, c := range []Command{
			{Command: sessions.Command{CommandID: "old", State: sessions.CommandCompleted, SettledAt: tx.Now()}},
			{Command: sessions.Command{CommandID: "run", State: sessions.CommandSubmitted}},
			{Command: sessions.Command{CommandID: "steer", State: sessions.CommandSubmitted}, Steer: "run"},
			{Command: sessions.Command{CommandID: "q1"}}, {Command: sessions.Command{CommandID: "q2"}},
		} {
			c.Session = s.ID
			if err := tx.InsertCommand(&c); err != nil {
				return err
			}
		}
		_, err = tx.AppendEvents(s.ID, warnings(3))
		return err
	})
	see := func() (v sessions.Session) {
		view(t, j, func(tx *Tx) (err error) { v, err = tx.SessionView(s.ID); return err })
		return v
	}
	v := see()
	switch {
	case v.SessionID != s.ID || v.State != sessions.SessionRunning || v.Title != "t" || v.Generation != g.ID || v.NativeID != "n":
		t.Errorf("%+v", v)
	case v.Selections.Asked.Model != "asked" || v.Selections.Evidence.Model != "reported" || v.Options["k"] != "v":
		t.Errorf("selections %+v, options %v", v.Selections, v.Options)
	case v.Lease != "l" || v.WorkspaceID != "w" || v.NodeID != "local" || v.Origin != "baton":
		t.Errorf("%+v", v)
	case v.Running == nil || v.Running.CommandID != "run" || v.Last == nil || v.Last.CommandID != "old":
		t.Errorf("running %+v, last %+v", v.Running, v.Last)
	case len(v.Queued) != 2 || v.Queued[0].CommandID != "q1" || v.Queued[1].CommandID != "q2":
		t.Errorf("queued %+v", v.Queued)
	case v.NeedsInput || v.Requests == nil || len(v.Requests) != 0:
		t.Errorf("needs input %v, requests %+v", v.NeedsInput, v.Requests)
	}
	if seq, err := sessions.DecodeCursor(s.ID, v.Cursor); seq != 3 || err != nil {
		t.Errorf("cursor at %d, %v", seq, err)
	}
	// It needs input while a request is pending, and no longer once the answer is on its way.
	first, second := sessions.NewID(), sessions.NewID()
	for _, id := range []string{first, second} {
		update(t, j, func(tx *Tx) error {
			return tx.InsertRequest(&Request{Request: sessions.Request{RequestID: id, Session: s.ID, Generation: g.ID, Handle: id}})
		})
	}
	if v = see(); !v.NeedsInput || len(v.Requests) != 2 || v.Requests[0].RequestID != first || !strings.Contains(v.Recovery, first) {
		t.Errorf("with two requests: %v, %q", v.NeedsInput, v.Recovery)
	}
	answer := func(id string) {
		update(t, j, func(tx *Tx) error { _, err := tx.MoveRequest(id, sessions.RequestAnswer, nil); return err })
	}
	answer(first)
	if v = see(); !v.NeedsInput || len(v.Requests) != 2 || !strings.Contains(v.Recovery, second) {
		t.Errorf("with one answered: %v, %q", v.NeedsInput, v.Recovery)
	}
	answer(second)
	if v = see(); v.NeedsInput || len(v.Requests) != 2 {
		t.Errorf("with both answered: %v, %+v", v.NeedsInput, v.Requests)
	}
}

// Every state says what a user can do next, and names the argument that does it.
func TestRecovery(t *testing.T) {
	unknown := []Command{{Command: sessions.Command{CommandID: "c9"}}}
	failed := &sessions.Error{Code: sessions.CodeNotLoggedIn, Message: "m", Action: "run codex login"}
	for name, c := range map[string]struct {
		v        sessions.Session
		waiting  string
		unknown  []Command
		unproven bool
		hadTurn  bool
		words    []string
	}{
		"reserved":             {v: sessions.Session{State: sessions.SessionReserved}, words: []string{"session_id"}},
		"starting":             {v: sessions.Session{State: sessions.SessionStarting}, words: []string{"wait"}},
		"closing":              {v: sessions.Session{State: sessions.SessionClosing}, words: []string{"wait"}},
		"running":              {v: sessions.Session{State: sessions.SessionRunning}, words: []string{"wait", "cancel"}},
		"asking":               {v: sessions.Session{State: sessions.SessionRunning}, waiting: "r1", words: []string{"r1"}},
		"idle":                 {v: sessions.Session{State: sessions.SessionIdle}},
		"idle, unknown":        {v: sessions.Session{State: sessions.SessionIdle}, unknown: unknown, words: []string{"c9", "acknowledge_unknown"}},
		"idle, queue paused":   {v: sessions.Session{State: sessions.SessionIdle, Queued: make([]sessions.Command, 1)}, words: []string{"run_queue"}},
		"closed":               {v: sessions.Session{State: sessions.SessionClosed}, words: []string{"esume", "delete"}},
		"closed, queue":        {v: sessions.Session{State: sessions.SessionClosed, Queued: make([]sessions.Command, 1)}, words: []string{"run_queue"}},
		"closed, unknown":      {v: sessions.Session{State: sessions.SessionClosed}, unknown: unknown, words: []string{"c9", "resume"}},
		"closed, unproven":     {v: sessions.Session{State: sessions.SessionClosed}, unproven: true, unknown: unknown, words: []string{"accept_unconfirmed"}},
		"closed, cannot go on": {v: sessions.Session{State: sessions.SessionClosed}, hadTurn: true, words: []string{"create a new session"}},
		"failed":               {v: sessions.Session{State: sessions.SessionFailed}, words: []string{"esume", "delete"}},
		"failed with a reason": {v: sessions.Session{State: sessions.SessionFailed, Error: failed}, words: []string{"codex login", "resume"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := recovery(&c.v, c.waiting, c.unknown, c.unproven, c.hadTurn)
			if (got == "") != (len(c.words) == 0) || strings.Count(got, ". ") > 0 {
				t.Errorf("it says %q", got)
			}
			for _, w := range c.words {
				if !strings.Contains(got, w) {
					t.Errorf("%q does not name %q", got, w)
				}
			}
		})
	}
}
