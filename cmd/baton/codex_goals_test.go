package main

import (
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// Turns that Codex begins by itself, for a goal that its model has set.
var codexGoals = []codexScenario{
	{"turns for a goal are told as nobody's, and so is what becomes of it", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never"})
		x.send(s.SessionID, "c", "[goal go on [shell touch for-the-goal] [reached] [text there]] [text begun]", sessions.CommandCompleted)
		x.until(s.SessionID, "the goal's end", goal("complete"))
		x.until(s.SessionID, "the end of its turn", foreign(sessions.EventTurnCompleted))
		x.there("for-the-goal")
		evs := x.f.events(s.SessionID)
		x.want(strings.Join(texts(evs, "c"), "|") == "begun" && strings.Join(texts(evs, ""), "|") == "there", "the command said %q, nobody %q", texts(evs, "c"), texts(evs, ""))
		x.want(count(evs, sessions.EventTurnStarted, "") == count(evs, sessions.EventTurnCompleted, ""), "turns without an end:\n%s", kinds(evs))
		x.idle(s.SessionID)
		x.send(s.SessionID, "d", "[text again]", sessions.CommandCompleted)
		x.want(x.goalRounds() == 3, "the provider was asked %d times for the goal", x.goalRounds())
	}},
	{"a cancel ends the turn of a goal, and the goal begins no other", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[goal wait [slow]] [text begun]", sessions.CommandCompleted)
		x.until(s.SessionID, "the goal's turn", foreign(sessions.EventTurnStarted))
		await(x.t, "its request", func() bool { return x.goalRounds() == 1 })
		refused(x.f, sessions.CodeBusy, "session_send", args{"session_id": s.SessionID, "text": "[text early]", "command_id": "d"})
		call[sessions.CancelResult](x.f, "session_cancel", args{"session_id": s.SessionID})
		end := x.until(s.SessionID, "the end of its turn", foreign(sessions.EventTurnCompleted))
		x.want(end.Settled != nil && end.Settled.State == sessions.CommandInterrupted && end.Settled.Outcome == "cancelled", "%+v", end.Settled)
		x.until(s.SessionID, "the goal's pause", goal("paused"))
		x.idle(s.SessionID)
		x.send(s.SessionID, "e", "[text again]", sessions.CommandCompleted)
		x.send(s.SessionID, "f", "[text and again]", sessions.CommandCompleted)
		x.want(x.goalRounds() == 1 && x.prompts("early") == 0, "the provider was asked %d times for the goal", x.goalRounds())
	}},
	{"a cancel of the turn that set a goal stops the goal", func(x *codexRun) {
		s := x.create(nil)
		x.begin(s.SessionID, "c", "[goal never [text never]] [slow]")
		x.until(s.SessionID, "the goal", goal("active"))
		c := x.cancel(s.SessionID, "c")
		x.want(c.State == sessions.CommandInterrupted, "cancelled: %+v", c)
		x.until(s.SessionID, "the goal's pause", goal("paused"))
		x.send(s.SessionID, "d", "[text again]", sessions.CommandCompleted)
		x.want(x.goalRounds() == 0, "the provider was asked %d times for the goal", x.goalRounds())
	}},
	{"the budget of a goal ends it, and says so", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[goal 1500 more [usage 1000 10] [text more]] [text begun]", sessions.CommandCompleted)
		e := x.until(s.SessionID, "the goal's end", goal("budgetLimited"))
		told, _ := e.Data["goal"].(map[string]any)
		used, _ := told["tokens_used"].(float64)
		x.want(told["token_budget"] == 1500.0 && used >= 1500, "told %+v", told)
		await(x.t, "the end of its last turn", func() bool { return x.one(s.SessionID).State == sessions.SessionIdle })
		rounds := x.goalRounds()
		x.send(s.SessionID, "d", "[text again]", sessions.CommandCompleted)
		x.want(x.goalRounds() == rounds, "the provider was asked %d times for the goal, and then %d", rounds, x.goalRounds())
	}},
	{"the budget of a session ends what a goal goes on with", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never", "runner_options": x.options(args{"token_budget": 3000})})
		// Its third turn uses the budget up, and each goes on for a while behind what it uses, or it could end by itself first.
		x.send(s.SessionID, "c", "[goal more [usage 1000 10] [shell touch round] [sleep 3000] [text more]] [text begun]", sessions.CommandCompleted)
		e := x.until(s.SessionID, "the end by the budget", func(e sessions.Event) bool {
			return foreign(sessions.EventTurnCompleted)(e) && e.Settled != nil && e.Settled.Outcome == "token_budget"
		})
		x.want(strings.Contains(e.Settled.Reason, "3000"), "%+v", e.Settled)
		x.there("round")
		x.want(x.goalRounds() > 4, "the provider was asked %d times for the goal", x.goalRounds())
		x.until(s.SessionID, "the goal's pause", goal("paused"))
		x.idle(s.SessionID)
		rounds := len(x.mock.Requests())
		x.unsent(s.SessionID, "d", sessions.CodeLimitExceeded, nil)
		x.want(len(x.mock.Requests()) == rounds, "the provider was asked again")
	}},
	{"a resume goes on with a goal only when that is asked for", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[goal wait [slow]] [text begun]", sessions.CommandCompleted)
		x.until(s.SessionID, "the goal's turn", foreign(sessions.EventTurnStarted))
		x.closed(s)
		rounds := x.goalRounds()
		x.resume(s.SessionID, nil)
		x.until(s.SessionID, "the goal's pause", goal("paused"))
		x.send(s.SessionID, "d", "[text alone]", sessions.CommandCompleted)
		x.want(x.goalRounds() == rounds, "the provider was asked for the goal")
		x.closed(s)
		back := call[sessions.ResumeResult](x.f, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 45,
			"runner_options": x.options(args{"resume_goal": true})}).Session
		x.until(s.SessionID, "its turn", func(e sessions.Event) bool {
			return e.Generation == back.Generation && foreign(sessions.EventTurnStarted)(e)
		})
		await(x.t, "its request", func() bool { return x.goalRounds() == rounds+1 })
		call[sessions.CancelResult](x.f, "session_cancel", args{"session_id": s.SessionID})
		x.idle(s.SessionID)
	}},
	{"a Codex that is killed in the turn of a goal begins no other", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[goal wait [slow]] [text begun]", sessions.CommandCompleted)
		await(x.t, "the goal's request", func() bool { return x.goalRounds() == 1 })
		x.killAgent()
		x.failed(s.SessionID)
		x.resume(s.SessionID, nil)
		x.until(s.SessionID, "the goal's pause", goal("paused"))
		x.send(s.SessionID, "d", "[text alone]", sessions.CommandCompleted)
		x.want(x.goalRounds() == 1, "the provider was asked %d times for the goal", x.goalRounds())
		x.told = nil // what it was saying when it was killed has no end
	}},
}

// goal is the event that tells of a goal's status.
func goal(status string) func(sessions.Event) bool {
	return func(e sessions.Event) bool {
		told, ok := e.Data["goal"].(map[string]any)
		return ok && told["status"] == status
	}
}

// foreign is an event of a turn that Codex began by itself.
func foreign(kind sessions.EventKind) func(sessions.Event) bool {
	return func(e sessions.Event) bool { return e.Kind == kind && e.Command == "" && e.Agent == "" }
}

// idle waits until a session takes a prompt.
func (x *codexRun) idle(session string) {
	x.t.Helper()
	await(x.t, "an idle session", func() bool { return x.one(session).State == sessions.SessionIdle })
}

// goalRounds is how often the provider was asked in turns that Codex began for a goal.
func (x *codexRun) goalRounds() (n int) {
	for _, r := range x.mock.Requests() {
		if r.Goal {
			n++
		}
	}
	return n
}
