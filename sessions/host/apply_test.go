package host

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

func TestOneTurn(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	s.wants(sessions.SessionIdle)
	if s.view().NativeID != "native" {
		t.Errorf("%+v", s.view())
	}
	s.send("c")
	s.wants(sessions.SessionRunning, "c", "submitted")
	s.reports(bridge.InPrompt, "c", bridge.InputWritten, nil)
	s.wants(sessions.SessionRunning, "c", "submitted") // written is no evidence
	s.says(sessions.Event{Kind: sessions.EventTurnStarted, Command: "c"})
	s.accepts("c")
	s.wants(sessions.SessionRunning, "c", "accepted")
	s.text("c", "done")
	s.says(sessions.Event{Kind: sessions.EventTurnCompleted, Command: "c", Settled: &sessions.Settlement{Command: "c", State: sessions.CommandCompleted}})
	s.wants(sessions.SessionRunning, "c", "accepted")
	s.settles("c", sessions.CommandCompleted)
	s.wants(sessions.SessionIdle, "c", "completed")
	s.settles("c", sessions.CommandFailed) // exactly one end
	s.wants(sessions.SessionIdle, "c", "completed")
	want := []sessions.EventKind{sessions.EventSessionStarted, sessions.EventSelectionConfirm, sessions.EventCommandSubmitted, sessions.EventTurnStarted,
		sessions.EventCommandAccepted, sessions.EventText, sessions.EventTurnCompleted, sessions.EventCommandSettled}
	if got := kindsOf(s.events()); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	if c := s.command("c"); c.Turn != "turn of c" || c.Outcome != "end_turn" {
		t.Errorf("%+v", c)
	}
}

// I02: what a bridge reports about a prompt decides whether it was delivered; a broken write is not unsent.
func TestI02_PromptReports(t *testing.T) {
	for name, c := range map[string]struct {
		state bridge.InputState
		err   error
		want  sessions.CommandState
		out   string
	}{
		"refused":        {bridge.InputRefused, sessions.Errorf(sessions.CodeModelUnavailable, "no such model"), sessions.CommandFailed, "model_unavailable"},
		"refused by us":  {bridge.InputRefused, sessions.Errorf(sessions.CodeInternal, "cannot be read"), sessions.CommandFailed, "not_delivered"},
		"refused, mute":  {bridge.InputRefused, nil, sessions.CommandFailed, "not_delivered"},
		"broken":         {bridge.InputBroken, sessions.Errorf(sessions.CodeInternal, "pipe"), sessions.CommandUnknown, "write_broken"},
		"broken with no": {bridge.InputBroken, nil, sessions.CommandUnknown, "write_broken"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t).idle()
			s.send("c")
			s.reports(bridge.InPrompt, "c", c.state, c.err)
			s.wants(sessions.SessionIdle, "c", string(c.want))
			if got := s.command("c"); got.Outcome != c.out {
				t.Errorf("outcome %q, want %q", got.Outcome, c.out)
			}
			s.reports(bridge.InPrompt, "c", c.state, c.err) // a frame that comes twice
			if n := len(s.events(sessions.EventCommandSettled)); n != 1 {
				t.Errorf("%d ends", n)
			}
		})
	}
}

// I03: a command of unknown outcome blocks what would follow it, and is settled by evidence alone.
func TestI03_UnknownIsSettledByEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		evidence sessions.Settlement
		want     string
	}{
		"it ran":          {sessions.Settlement{Command: "c", State: sessions.CommandCompleted, By: "the agent's record"}, "completed"},
		"it was not sent": {sessions.Settlement{Command: "c", State: sessions.CommandFailed, Outcome: "not_delivered"}, "failed"},
		"nobody knows":    {sessions.Settlement{Command: "c", State: sessions.CommandUnknown}, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := r.runs()
			s.send("q", busy("queue"))
			s.frame(bridge.OutExited, bridge.Exit{Reason: "the agent ended", Running: []string{"c"}})
			s.ends(sandbox.Confirmed)
			s.wants(sessions.SessionFailed, "c", "unknown", "q", "queued")
			res, err := r.Resume(t.Context(), r.who, sessions.ResumeArgs{SessionID: s.id, WaitSeconds: ptr(0)})
			if err != nil {
				t.Fatal(err)
			}
			next := r.bridgeOf(res.Session)
			r.mu.Lock()
			asked := r.launches[next.generation].spec.Open
			r.mu.Unlock()
			if !slices.Equal(asked.Unknown, []string{"c"}) || asked.Turns["c"] != "turn of c" || asked.NativeID != "native" || !asked.HadTurn {
				t.Errorf("the agent is asked with %+v", asked)
			}
			next.opens(c.evidence)
			next.wants(sessions.SessionIdle, "c", c.want, "q", "queued")
			_, err = next.trySend("d")
			if c.want != "unknown" {
				if err != nil {
					t.Errorf("after the evidence: %v", err)
				}
				return
			}
			refused(t, err, sessions.CodeOutcomeUnknown, "command c")
			if _, err = next.trySend("d", busy("queue")); sessions.CodeOf(err) != sessions.CodeOutcomeUnknown {
				t.Errorf("queued behind an unknown outcome: %v", err)
			}
			again, err := r.Resume(t.Context(), r.who, sessions.ResumeArgs{SessionID: s.id, AcknowledgeUnknown: true, WaitSeconds: ptr(0)})
			if err != nil || len(again.Settled) != 1 || !again.Settled[0].Acked || again.Settled[0].State != sessions.CommandUnknown {
				t.Errorf("acknowledged: %+v, %v", again.Settled, err)
			}
			next.send("d")
			next.wants(sessions.SessionRunning, "c", "unknown", "d", "submitted")
		})
	}
}

// I03: what is left when a generation ends is not delivered where that is proven, unknown else, and kept if it was queued.
func TestI03_EndOfAGeneration(t *testing.T) {
	nothing := func(*session) {}
	written := func(s *session) { s.reports(bridge.InPrompt, "c", bridge.InputWritten, nil) }
	accepted := func(s *session) { written(s); s.accepts("c") }
	lost := func(e *ending) { e.farewell = false }
	never := func(e *ending) { e.neverSent = func(uint64) bool { return true } }
	for name, c := range map[string]struct {
		before func(*session)
		words  []func(*ending)
		want   string
		gap    bool
	}{
		"never written to the bridge": {nothing, []func(*ending){never}, "failed", false},
		"written to the bridge":       {nothing, nil, "unknown", false},
		"bridge gone without a word":  {nothing, []func(*ending){lost}, "unknown", true},
		"written to the agent":        {written, []func(*ending){never}, "unknown", false},
		"accepted":                    {accepted, []func(*ending){never, lost}, "unknown", true},
		"not taken by the bridge":     {func(s *session) { s.frame(bridge.OutStopped, bridge.Stopped{Taken: 1}) }, nil, "failed", false},
		"taken by the bridge":         {func(s *session) { s.frame(bridge.OutStopped, bridge.Stopped{Taken: 2}) }, nil, "unknown", false},
		"a bridge that does not tell": {func(s *session) { s.frame(bridge.OutStopped, bridge.Stopped{}) }, nil, "unknown", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t).idle()
			s.send("c")
			s.send("q", busy("queue"))
			c.before(s)
			s.ends(sandbox.Confirmed, c.words...)
			s.ends(sandbox.Confirmed, c.words...) // a second time changes nothing
			s.wants(sessions.SessionFailed, "c", c.want, "q", "queued")
			if got := len(s.events(sessions.EventGap)) == 1; got != c.gap {
				t.Errorf("gap: %v", got)
			}
			if n := len(s.events(sessions.EventSessionFailed)); n != 1 {
				t.Errorf("%d failures", n)
			}
		})
	}
}

// The end of a session that was being closed is a close, whatever its agent did last.
func TestEndOfAClose(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	s.send("q", busy("queue"))
	if _, err := r.Close(t.Context(), r.who, sessions.CloseArgs{SessionID: s.id, WaitSeconds: ptr(0)}); err != nil {
		t.Fatal(err)
	}
	s.wants(sessions.SessionClosing, "c", "accepted", "q", "cancelled")
	s.settles("c", sessions.CommandInterrupted)
	s.frame(bridge.OutExited, bridge.Exit{Reason: "the session is being closed", Asked: true})
	s.wants(sessions.SessionClosing, "c", "interrupted")
	s.ends(sandbox.Confirmed)
	s.wants(sessions.SessionClosed)
	if got := s.events(sessions.EventSessionClosed); len(got) != 1 || got[0].Data["stopped"] != "confirmed" {
		t.Errorf("%+v", got)
	}
	if s.given() != "open, prompt c, close" {
		t.Errorf("given: %s", s.given())
	}
}

func TestOpenFailed(t *testing.T) {
	r := newRig(t)
	s := r.starting(func(a *sessions.CreateArgs) { a.Prompt, a.CommandID, a.Key = "first", "first", "k" })
	s.frame(bridge.OutFailed, bridge.Failure{Error: sessions.Errorf(sessions.CodeNotLoggedIn, "log in").Do("run codex login")})
	s.frame(bridge.OutStopped, bridge.Stopped{Taken: 1})
	s.ends(sandbox.Confirmed, func(e *ending) { e.cause = s.t.cause })
	s.wants(sessions.SessionFailed, "first", "queued")
	_, err := r.Create(t.Context(), r.who, r.args(func(a *sessions.CreateArgs) { a.Prompt, a.CommandID, a.Key = "first", "first", "k" }))
	refused(t, err, sessions.CodeNotLoggedIn, "log in", "run codex login") // the same id answers the same failure
	if n := len(s.events(sessions.EventSessionFailed)); n != 1 {
		t.Errorf("%d failures", n)
	}
}

// A create's prompt is sent once everything is confirmed, by the first generation alone.
func TestFirstPrompt(t *testing.T) {
	r := newRig(t)
	s := r.starting(func(a *sessions.CreateArgs) { a.Prompt, a.CommandID = "first", "first" })
	s.wants(sessions.SessionStarting, "first", "queued")
	s.opens()
	s.wants(sessions.SessionRunning, "first", "submitted")
}

// A close that comes while the agent is opening is not undone by its success.
func TestOpenedWhileClosing(t *testing.T) {
	r := newRig(t)
	s := r.starting(func(a *sessions.CreateArgs) { a.Prompt, a.CommandID = "first", "first" })
	if _, err := r.Close(t.Context(), r.who, sessions.CloseArgs{SessionID: s.id, WaitSeconds: ptr(0)}); err != nil {
		t.Fatal(err)
	}
	s.opens()
	s.wants(sessions.SessionClosing, "first", "cancelled")
	if s.view().NativeID != "native" || s.given() != "open, close" {
		t.Errorf("%+v, given %s", s.view().NativeID, s.given())
	}
	s.ends(sandbox.Confirmed)
	s.wants(sessions.SessionClosed)
}

// A frame that cannot be understood is told of and does not hold up those behind it.
func TestFramesThatCannotBeUnderstood(t *testing.T) {
	s := newRig(t).idle()
	s.frame(bridge.OutEvent, "no object")
	s.frame("tomorrow", nil)
	s.frame(bridge.OutInput, bridge.InputResult{N: 99, Kind: bridge.InPrompt, State: bridge.InputWritten})
	s.says(sessions.Event{Kind: sessions.EventCommandSettled, Command: "nobody's", Settled: &sessions.Settlement{State: sessions.CommandCompleted}})
	s.says(sessions.Event{Kind: sessions.EventCommandSettled})
	s.says(sessions.Event{Kind: sessions.EventCommandAccepted, Command: "nobody's"})
	s.says(sessions.Event{Kind: sessions.EventApprovalRequested})
	s.says(sessions.Event{Kind: sessions.EventRequestResolved})
	s.send("c")
	s.wants(sessions.SessionRunning, "c", "submitted")
	if n := len(s.events(sessions.EventError)); n != 2 {
		t.Errorf("%d errors are told", n)
	}
}

// A batch that was durable already is not applied again.
func TestI11_FramesAreJournalledOnce(t *testing.T) {
	s := newRig(t).idle()
	raw, err := json.Marshal(sessions.Event{Kind: sessions.EventText, Text: "x"})
	if err != nil {
		t.Fatal(err)
	}
	frames := []bridge.Frame{{Type: "out", N: 2, Kind: bridge.OutEvent, Body: raw}, {Type: "out", N: 3, Kind: bridge.OutEvent, Body: raw}}
	for _, batch := range [][]bridge.Frame{frames[:1], frames, frames} {
		if err := s.t.take(batch); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.events(sessions.EventText)); n != 2 {
		t.Errorf("%d texts", n)
	}
	var g journal.Generation
	s.r.tx(func(tx *journal.Tx) (err error) { g, err = tx.GetGeneration(s.generation); return err })
	if g.LastFrame != 3 {
		t.Errorf("last frame %d", g.LastFrame)
	}
}

// I06: what was confirmed is kept beside what was asked; a change is asked for by a confirmation, drift is evidence alone.
func TestI06_SelectionsAndEvidence(t *testing.T) {
	s := newRig(t).idle(func(a *sessions.CreateArgs) { a.Model = "m1" })
	s.says(sessions.Event{Kind: sessions.EventSelectionConfirm, Selection: &sessions.Selections{Asked: sessions.Selection{Model: "m2"}, Evidence: sessions.Evidence{Model: "m2"}}})
	if v := s.view().Selections; v.Asked.Model != "m2" || v.Evidence.Model != "m2" {
		t.Errorf("%+v", v)
	}
	s.says(sessions.Event{Kind: sessions.EventSelectionChanged, Selection: &sessions.Selections{Asked: sessions.Selection{Model: "m2"}, Evidence: sessions.Evidence{Model: "m3"}}})
	if v := s.view().Selections; v.Asked.Model != "m2" || v.Evidence.Model != "m3" {
		t.Errorf("%+v", v)
	}
}

// The usage of a command is what its own turn used; a sub-agent's count and a part of a report take nothing away.
func TestUsage(t *testing.T) {
	s := newRig(t).runs()
	use := func(command, agent string, u sessions.Usage) {
		s.says(sessions.Event{Kind: sessions.EventUsage, Command: command, Agent: agent, Usage: &u})
	}
	use("c", "", sessions.Usage{Total: 100, Window: 1000, Cost: 0.5})
	use("c", "sub", sessions.Usage{Total: 999999, Input: 7})
	use("c", "", sessions.Usage{Input: 30, Output: 5, Total: 120})
	want := sessions.Usage{Input: 30, Output: 5, Total: 120, Window: 1000, Cost: 0.5}
	if got := s.command("c").Usage; got == nil || *got != want {
		t.Errorf("the command's usage %+v, want %+v", got, want)
	}
	if got := s.view().Usage; got == nil || *got != want {
		t.Errorf("the session's usage %+v, want %+v", got, want)
	}
	s.settles("c", sessions.CommandCompleted)
	s.send("d")
	use("d", "", sessions.Usage{Input: 1})
	if got := s.command("d").Usage; got == nil || *got != (sessions.Usage{Input: 1}) {
		t.Errorf("the next command's usage %+v", got)
	}
	use("", "", sessions.Usage{Total: 9})
	if got := s.view().Usage; got == nil || *got != (sessions.Usage{Total: 9}) {
		t.Errorf("usage outside of a command: %+v", got)
	}
}

// A turn that the agent begins by itself takes the session, and its end gives it back.
func TestTurnOfTheAgentsOwn(t *testing.T) {
	foreign := func(s *session, k sessions.EventKind, agent string) {
		e := sessions.Event{Kind: k, Turn: "own", Agent: agent}
		if k == sessions.EventTurnCompleted {
			e.Settled = &sessions.Settlement{State: sessions.CommandCompleted}
		}
		s.says(e)
	}
	r := newRig(t)
	s := r.idle()
	cursor := s.view().Cursor
	foreign(s, sessions.EventTurnStarted, "sub") // a sub-agent's is another's
	s.wants(sessions.SessionIdle)
	foreign(s, sessions.EventTurnStarted, "")
	s.wants(sessions.SessionRunning)
	_, err := s.trySend("c")
	refused(t, err, sessions.CodeBusy)
	s.send("q", busy("queue"))
	w, err := r.Wait(t.Context(), r.who, sessions.WaitArgs{SessionIDs: []string{s.id}, After: map[string]string{s.id: cursor}, WaitSeconds: ptr(0)})
	if err != nil || !w.TimedOut {
		t.Errorf("a wait during the turn: %+v, %v", w, err)
	}
	foreign(s, sessions.EventTurnCompleted, "sub")
	s.wants(sessions.SessionRunning, "q", "queued")
	foreign(s, sessions.EventTurnCompleted, "")
	s.wants(sessions.SessionRunning, "q", "submitted")
	s.settles("q", sessions.CommandInterrupted)

	foreign(s, sessions.EventTurnStarted, "")
	cursor = s.view().Cursor
	foreign(s, sessions.EventTurnCompleted, "")
	s.wants(sessions.SessionIdle)
	w, err = r.Wait(t.Context(), r.who, sessions.WaitArgs{SessionIDs: []string{s.id}, After: map[string]string{s.id: cursor}, WaitSeconds: ptr(0)})
	if err != nil || w.TimedOut {
		t.Errorf("a wait after the turn: %+v, %v", w, err)
	}
	foreign(s, sessions.EventTurnCompleted, "") // its end once more
	s.wants(sessions.SessionIdle)
}

// A command whose agent ignored its cancel ends the session with it: the process is being stopped, and a session that
// looked idle meanwhile would take what that process never gets.
func TestIgnoredCancelFailsTheSession(t *testing.T) {
	s := newRig(t).idle()
	s.send("c")
	s.accepts("c")
	s.says(sessions.Event{Kind: sessions.EventCommandSettled, Command: "c",
		Settled: &sessions.Settlement{Command: "c", State: sessions.CommandCancelUnconfirmed, Outcome: outcomeIgnored}})
	s.wants(sessions.SessionFailed, "c", "cancel_unconfirmed")
	if v := s.view(); v.Error == nil || v.Error.Code != sessions.CodeAgentProtocol || v.Recovery == "" {
		t.Errorf("it does not say why, or what to do: %+v", v)
	}
}
