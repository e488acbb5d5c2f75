package main

import (
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// What goes wrong at the provider, said in words that tell what to do. After each the session takes the next prompt.
var codexFailures = []codexScenario{
	{"an account that is not let in is told so", fails("[fail 401]", "not_logged_in,http_connection_failed,failed", "401")},
	{"a provider that is asked too often is told so", fails("[fail 429]", "too_many_failed_attempts,rate_limit_exceeded", "429")},
	{"an account whose limit is reached is told so", fails("[fail 429 usage_limit_reached limit reached]", "usage_limit_exceeded", "limit")},
	{"a quota that is used up is told so", fails("[failstream insufficient_quota]", "usage_limit_exceeded", "")},
	{"a context that is full is told so", fails("[failstream context_length_exceeded]", "context_window_exceeded", "")},
	{"a provider that is overloaded is told so", fails("[failstream server_is_overloaded]", "server_overloaded", "")},
	{"a request that the provider does not take is told so", fails("[fail 400 invalid_request no good]", "failed,bad_request", "no good")},
	{"a provider that fails every time fails the turn", fails("[fail 500]", "provider_error,too_many_failed_attempts,http_connection_failed", "")},
	{"a provider that fails once is asked again, and the turn completes", func(x *codexRun) {
		s := x.create(nil)
		sent := x.send(s.SessionID, "c", "[refuse 1 500] [text in the end]", sessions.CommandCompleted)
		x.want(sent.Text == "in the end" && x.prompts("in the end") == 2, "text %q after %d requests", sent.Text, x.prompts("in the end"))
		for _, e := range x.f.events(s.SessionID) {
			x.want(e.Kind != sessions.EventError, "a retry is told as an error: %s", e.Text)
		}
	}},
	{"a text cut off in the middle is marked, and told whole in its second try", func(x *codexRun) {
		s := x.create(nil)
		sent := x.send(s.SessionID, "c", "[cut 1] [text whole]", sessions.CommandCompleted)
		x.want(sent.Text == "whole", "text %q", sent.Text)
		items, abandoned := map[string]bool{}, 0
		for _, e := range x.f.events(s.SessionID) {
			if e.Kind == sessions.EventText && e.Command == "c" {
				items[e.Item] = true
				if e.Abandoned {
					abandoned++
				}
			}
		}
		x.want(len(items) == 2 && abandoned == 1, "%d items, %d of them abandoned", len(items), abandoned)
	}},
	{"a provider that is not there is waited for until the deadline", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[text there]", sessions.CommandCompleted)
		x.mock.Close()
		sent := x.send(s.SessionID, "d", "[text lost]", sessions.CommandInterrupted, args{"deadline_seconds": 6})
		x.want(sent.Command.Outcome == "deadline", "%+v", sent.Command)
		progress := 0
		for _, e := range x.f.events(s.SessionID) {
			x.want(e.Kind != sessions.EventError, "waiting is told as an error: %s", e.Text)
			if e.Kind == sessions.EventWarning && e.Command == "d" {
				progress++
			}
		}
		x.want(progress > 0, "the waiting is not told")
	}},
}

// fails is a turn that a provider's failure ends, with one of some outcomes and a word in its reason.
func fails(prompt, outcomes, word string) func(*codexRun) {
	return func(x *codexRun) {
		s := x.create(nil)
		sent := x.send(s.SessionID, "c", prompt, sessions.CommandFailed)
		known := false
		for outcome := range strings.SplitSeq(outcomes, ",") {
			known = known || sent.Command.Outcome == outcome
		}
		x.want(known, "outcome %q (%s), want one of %s", sent.Command.Outcome, sent.Command.Reason, outcomes)
		x.want(strings.Contains(sent.Command.Reason, word) && strings.Contains(sent.Command.Reason, "("), "the reason is %q", sent.Command.Reason)
		errors := 0
		for _, e := range x.f.events(s.SessionID) {
			if e.Kind == sessions.EventError && e.Command == "c" {
				errors++
			}
		}
		x.want(errors == 1, "%d errors are told:\n%s", errors, kinds(x.f.events(s.SessionID)))
		x.want(x.prompts(prompt) >= 1, "the provider was not asked")
		x.send(s.SessionID, "d", "[text again]", sessions.CommandCompleted)
	}
}
