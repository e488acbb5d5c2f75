package main

import (
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// What a session may use.
var codexBudgets = []codexScenario{
	{"a budget of tokens stops the turn that uses it up, and every later prompt until it is larger", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never", "runner_options": x.options(args{"token_budget": 2500})})
		x.begin(s.SessionID, "c", "[usage 1000 10] [shell touch one] [usage 1000 10] [shell touch two] [usage 1000 10] [shell touch three] [sleep 30000] [shell touch four]")
		end := x.settled(s.SessionID, "c", sessions.CommandInterrupted)
		x.want(end.Outcome == "token_budget" && strings.Contains(end.Reason, "2500"), "%+v", end)
		x.there("one", "two") // what a round used is told when its tools have ended; 0.125 tells it before them
		x.missing("four")
		rounds := len(x.mock.Requests())
		x.unsent(s.SessionID, "d", sessions.CodeLimitExceeded, nil)
		x.want(len(x.mock.Requests()) == rounds, "the provider was sent a prompt")
		x.closed(s)
		x.resume(s.SessionID, args{"runner_options": x.options(args{"token_budget": 1_000_000})})
		x.send(s.SessionID, "e", "[text on]", sessions.CommandCompleted)
	}},
	{"a budget of tokens counts what sub-agents use", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never", "runner_options": x.options(args{"token_budget": 5000})})
		x.begin(s.SessionID, "c", "[spawn [usage 9000 10] [shell touch by-sub] [sleep 30000] [shell touch after]] [sleep 30000] [text over]")
		end := x.settled(s.SessionID, "c", sessions.CommandInterrupted)
		x.want(end.Outcome == "token_budget", "%+v", end)
		x.want(x.prompts("by-sub") > 0, "no sub-agent asked the provider")
		x.missing("after")
	}},
	{"a budget of time stops the turn that uses it up, and every later prompt", func(x *codexRun) {
		s := x.create(args{"runner_options": x.options(args{"time_budget_seconds": 2})})
		sent := x.send(s.SessionID, "c", "[slow]", sessions.CommandInterrupted)
		x.want(sent.Command.Outcome == "time_budget" && strings.Contains(sent.Command.Reason, "2s"), "%+v", sent.Command)
		x.unsent(s.SessionID, "d", sessions.CodeLimitExceeded, nil)
		x.want(len(x.mock.Requests()) == 1, "the provider was sent %d requests", len(x.mock.Requests()))
	}},
	{"a budget of tokens counts what sub-agents used before Codex was killed", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never", "runner_options": x.options(args{"token_budget": 6000})})
		x.begin(s.SessionID, "c", "[spawn [usage 3000 10] [text sub done]] [slow]")
		x.until(s.SessionID, "the sub-agent's tokens", func(e sessions.Event) bool { return e.Spent != nil && e.Spent.AgentTokens >= 3010 })
		x.killAgent()
		x.failed(s.SessionID)
		used := *x.one(s.SessionID).Spent
		x.resume(s.SessionID, args{"acknowledge_unknown": true})
		x.begin(s.SessionID, "d", "[usage 3000 10] [shell touch one] [sleep 30000] [shell touch two]")
		end := x.settled(s.SessionID, "d", sessions.CommandInterrupted)
		x.want(end.Outcome == "token_budget", "%+v", end)
		x.want(x.prompts("touch two") > 0, "the provider was not asked")
		x.missing("two")
		now := *x.one(s.SessionID).Spent
		x.want(now.AgentTokens == used.AgentTokens && now.Tokens+now.AgentTokens >= 6000, "used %+v, then %+v", used, now)
		x.unsent(s.SessionID, "e", sessions.CodeLimitExceeded, nil)
		x.told = nil // an unknown outcome and what settled it are two ends
	}},
	{"a budget of time counts the turns of a bridge that was killed", func(x *codexRun) {
		s := x.create(args{"runner_options": x.options(args{"time_budget_seconds": 8})})
		x.begin(s.SessionID, "c", "[slow]")
		x.until(s.SessionID, "two seconds of the turn", func(e sessions.Event) bool { return e.Spent != nil && e.Spent.TurnMillis >= 2000 })
		x.killBridge()
		x.failed(s.SessionID)
		used := x.one(s.SessionID).Spent.TurnMillis
		back := x.resume(s.SessionID, args{"acknowledge_unknown": true}).Session
		x.begin(s.SessionID, "d", "[slow]")
		end := x.settled(s.SessionID, "d", sessions.CommandInterrupted)
		x.want(end.Outcome == "time_budget", "%+v", end)
		first := int64(0)
		for _, e := range x.f.events(s.SessionID) {
			if e.Generation == back.Generation && e.Spent != nil && first == 0 {
				first = e.Spent.TurnMillis
			}
		}
		x.want(first >= used, "%d ms were used, and the next generation begins with %d", used, first)
		x.unsent(s.SessionID, "e", sessions.CodeLimitExceeded, nil)
		x.told = nil
	}},
	{"a budget that is none is refused", func(x *codexRun) {
		for _, wrong := range []args{{"token_budget": 0}, {"token_budget": 1.5}, {"token_budget": "many"}, {"time_budget_seconds": -1}} {
			refused(x.f, sessions.CodeInvalidParams, "session_create", args{"runner": "codex", "cwd": x.work, "runner_options": wrong, "wait_seconds": 45})
		}
		x.want(len(x.mock.Requests()) == 0, "the provider was sent %d requests", len(x.mock.Requests()))
	}},
}

// options are runner options beside those that this version of Codex needs anyway.
func (x *codexRun) options(more args) args {
	if x.trust {
		more["trust_folder"] = true
	}
	return more
}
