package main

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// asking has a session ask whether it may run a command, and returns the request and the file that the command makes.
func (w *world) asking(f *front, session, command string) (sessions.Request, string) {
	w.t.Helper()
	file := filepath.Join(w.work, command)
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": session, "command_id": command, "wait_seconds": 50,
		"text": "[approve printf x >> " + file + "]"})
	if len(sent.Session.Requests) != 1 || !sent.Session.NeedsInput {
		w.t.Fatalf("no request: %+v", sent)
	}
	return sent.Session.Requests[0], file
}

// ended waits for the end of a command and returns it.
func (f *front) ended(session, command string) sessions.Command {
	f.t.Helper()
	for range 3 {
		s := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{session}, "wait_seconds": 50})
		if !s.TimedOut && s.Sessions[0].Session.Last != nil && s.Sessions[0].Session.Last.CommandID == command {
			return *s.Sessions[0].Session.Last
		}
	}
	f.t.Fatalf("command %s does not end", command)
	return sessions.Command{}
}

// TestI07_ARequestOutlivesClientAndHost: a front end and a host may die while an agent waits; the request is there
// afterwards, under its id, and its answer reaches the agent once.
func TestI07_ARequestOutlivesClientAndHost(t *testing.T) {
	for _, runner := range scripted {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			s := w.create(f, runner, nil)
			q, file := w.asking(f, s.SessionID, "asks")
			w.kill(" mcp")
			f.close()
			w.killHost()
			f = w.open()
			defer f.close()
			got := f.look(s.SessionID)
			if len(got.Requests) != 1 || got.Requests[0].RequestID != q.RequestID || !got.NeedsInput || got.Generation != s.Generation {
				t.Fatalf("afterwards: %+v", got)
			}
			if exists(file) {
				t.Error("it ran unasked")
			}
			answer := args{"session_id": s.SessionID, "request_id": q.RequestID, "decision": "approve"}
			if r := call[sessions.RespondResult](f, "session_respond", answer); r.Request.State != sessions.RequestAnswered {
				t.Errorf("answered: %+v", r.Request)
			}
			w.killHost()
			call[sessions.RespondResult](f, "session_respond", answer) // the same answer again is no second one
			if c := f.ended(s.SessionID, "asks"); c.State != sessions.CommandCompleted || size(file) != 1 {
				t.Errorf("%+v, and it ran %d times", c, size(file))
			}
			if n := len(w.noted("answer")); n != 1 {
				t.Errorf("%d answers were given", n)
			}
		})
	}
}

// TestI07_ARequestDiesWithItsGeneration: where the agent is lost, its request expires with a reason, its turn ends, and
// its answer is refused for good, also when the session lives again.
func TestI07_ARequestDiesWithItsGeneration(t *testing.T) {
	for _, runner := range scripted {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			s := w.create(f, runner, nil)
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 1]", "wait_seconds": 50})
			q, file := w.asking(f, s.SessionID, "asks")
			answer := args{"session_id": s.SessionID, "request_id": q.RequestID, "decision": "approve"}
			w.kill("baton bridge")
			w.killHost()
			if c := f.ended(s.SessionID, "asks"); c.State != sessions.CommandUnknown {
				t.Errorf("its command is %+v", c)
			}
			if got := f.look(s.SessionID); len(got.Requests) != 0 || got.NeedsInput {
				t.Errorf("it still asks: %+v", got)
			}
			resolved := 0
			for _, e := range f.events(s.SessionID) {
				if e.Kind == sessions.EventRequestResolved && e.Request.RequestID == q.RequestID {
					if resolved++; e.Request.State != sessions.RequestExpired || e.Request.Reason == "" {
						t.Errorf("resolved as %+v", e.Request)
					}
				}
			}
			if resolved != 1 {
				t.Errorf("%d events say what became of the request", resolved)
			}
			refused(f, sessions.CodeStaleGeneration, "session_respond", answer)
			call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "acknowledge_unknown": true, "wait_seconds": 50})
			refused(f, sessions.CodeStaleGeneration, "session_respond", answer)
			next, _ := w.asking(f, s.SessionID, "asks-again")
			if next.RequestID == q.RequestID {
				t.Error("a request id was used twice")
			}
			refused(f, sessions.CodeStaleGeneration, "session_respond", answer)
			if n := len(w.noted("answer")); n != 0 || exists(file) {
				t.Errorf("%d answers were given", n)
			}
		})
	}
}

// TestI07_TheFirstAnswerWins: of two answers at the same instant one reaches the agent; the other caller is told which.
func TestI07_TheFirstAnswerWins(t *testing.T) {
	w := recordedWorld(t)
	f, g := w.open(), w.open()
	defer f.close()
	defer g.close()
	s := w.create(f, "codexlike", nil)
	for _, command := range []string{"a", "b", "c", "d"} {
		q, file := w.asking(f, s.SessionID, command)
		var mu sync.Mutex
		won := map[string]bool{}
		atOnce(t, 2, func(n int) error {
			decision := []string{"approve", "deny"}[n]
			_, e := try[sessions.RespondResult]([]*front{f, g}[n], "session_respond",
				args{"session_id": s.SessionID, "request_id": q.RequestID, "decision": decision})
			mu.Lock()
			defer mu.Unlock()
			if won[decision] = e == nil; e != nil && e.Code != sessions.CodeAlreadyAnswered {
				return e
			}
			return nil
		})
		if won["approve"] == won["deny"] {
			t.Fatalf("both, or none, won: %v", won)
		}
		c := f.ended(s.SessionID, command)
		if exists(file) != won["approve"] {
			t.Errorf("%v won, and the effect is there: %v (%+v)", won, exists(file), c)
		}
		winner, loser := "approve", "deny"
		if won["deny"] {
			winner, loser = loser, winner
		}
		call[sessions.RespondResult](g, "session_respond", args{"session_id": s.SessionID, "request_id": q.RequestID, "decision": winner})
		refused(g, sessions.CodeAlreadyAnswered, "session_respond", args{"session_id": s.SessionID, "request_id": q.RequestID, "decision": loser})
	}
	if n := len(w.noted("answer")); n != 4 {
		t.Errorf("%d answers of 4 requests were given", n)
	}
}

// TestI07_AWithdrawnRequestTakesNoAnswer: what the agent no longer waits for is refused as such.
func TestI07_AWithdrawnRequestTakesNoAnswer(t *testing.T) {
	for _, runner := range scripted {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			w := recordedWorld(t)
			f := w.open()
			defer f.close()
			s := w.create(f, runner, nil)
			q, file := w.asking(f, s.SessionID, "asks")
			call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID})
			if c := f.ended(s.SessionID, "asks"); c.State != sessions.CommandInterrupted {
				t.Errorf("cancelled: %+v", c)
			}
			refused(f, sessions.CodeWithdrawn, "session_respond", args{"session_id": s.SessionID, "request_id": q.RequestID, "decision": "approve"})
			if exists(file) {
				t.Error("it ran")
			}
		})
	}
}
