package main

import (
	"image"
	"image/png"
	"os"
	"slices"
	"strings"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sessions"
)

// What a turn says and does, told whole and once.
var codexTurns = []codexScenario{
	{"a text streams in pieces and is told whole once", func(x *codexRun) {
		s := x.create(nil)
		e := s.Selections.Evidence
		x.want(e.Model == responses.Model && e.Sandbox == sessions.SandboxWorkspaceWrite, "evidence %+v", e)
		sent := x.send(s.SessionID, "c", "[say 40 8 5]", sessions.CommandCompleted)
		evs := x.f.events(s.SessionID)
		x.want(words(evs, "c") == sent.Text && len(sent.Text) == 40*8, "streamed %q, told %q", words(evs, "c"), sent.Text)
		x.want(len(texts(evs, "c")) == 1, "final texts %q", texts(evs, "c"))
		x.want(len(x.mock.Requests()) == 1 && x.last().Model == responses.Model, "the provider was sent %d requests", len(x.mock.Requests()))
		x.closed(s)
		x.want(len(x.find("app-server")) == 0, "left: %v", x.find("app-server"))
	}},
	{"letters of every script arrive as they were sent", func(x *codexRun) {
		const odd = "Grüße, 世界 — שלום 👩‍👩‍👧 <a&b> \"q\" \\n \u2028 end"
		s := x.create(nil)
		sent := x.send(s.SessionID, "c", "[text "+odd+"]", sessions.CommandCompleted)
		x.want(sent.Text == odd, "told %q", sent.Text)
		x.want(strings.Contains(x.last().Text, odd), "the provider was sent %q", x.last().Text)
	}},
	{"reasoning and a checklist are told apart from the text", func(x *codexRun) {
		s := x.create(nil)
		sent := x.send(s.SessionID, "c", "[think weigh it up] [steps because] [text so]", sessions.CommandCompleted)
		evs := x.f.events(s.SessionID)
		thought, steps := "", 0
		for _, e := range evs {
			switch e.Kind {
			case sessions.EventReasoning:
				thought += e.Text
			case sessions.EventPlan:
				if list, ok := e.Data["steps"].([]any); ok && e.Text == "because" {
					steps = len(list)
				}
			}
		}
		x.want(strings.TrimSpace(thought) == "weigh it up", "reasoning %q", thought)
		if slices.Contains(x.last().Tools, "update_plan") { // 0.171.0 does not offer it any more
			x.want(steps == 2, "%d steps in the plan:\n%s", steps, kinds(evs))
		}
		x.want(sent.Text == "so", "text %q", sent.Text)
		x.want(x.prompts("weigh") == 2, "%d rounds", x.prompts("weigh"))
	}},
	{"a command's exit status and output are told, and the file is there", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never"})
		x.send(s.SessionID, "c", "[shell echo one; touch made; echo two >&2; exit 7] [text over]", sessions.CommandCompleted)
		tools := x.tools(s.SessionID, "c")
		x.want(len(tools) == 1 && tools[0].Exit != nil && *tools[0].Exit == 7 && tools[0].Status == "failed", "tools %+v", tools)
		x.want(len(tools) == 1 && strings.Contains(tools[0].Output, "one") && strings.Contains(tools[0].Output, "two"), "tools %+v", tools)
		x.there("made")
		x.want(strings.Contains(x.output(), "code 7"), "the model was told %q", x.output())
	}},
	{"a command that says a megabyte is told clipped and breaks nothing", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never"})
		x.send(s.SessionID, "c", "[shell seq 1 170000] [text over]", sessions.CommandCompleted)
		tools := x.tools(s.SessionID, "c")
		x.want(len(tools) == 1 && len(tools[0].Output) > 10_000 && len(tools[0].Output) < 100_000, "%d tools", len(tools))
		x.send(s.SessionID, "d", "[text again]", sessions.CommandCompleted)
	}},
	{"two commands at once both end", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never"})
		x.send(s.SessionID, "c", "[par [shell touch a] [shell touch b]] [text both]", sessions.CommandCompleted)
		x.want(len(x.tools(s.SessionID, "c")) == 2, "tools %+v", x.tools(s.SessionID, "c"))
		x.there("a", "b")
	}},
	{"a file change names its path, and the file has the text", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[patch new.txt some words] [replace new.txt some few] [text over]", sessions.CommandCompleted)
		tools := x.tools(s.SessionID, "c")
		x.want(len(tools) > 0 && tools[0].Name == "file_change" && len(tools[0].Paths) == 1 && strings.HasSuffix(tools[0].Paths[0], "new.txt"), "tools %+v", tools)
		x.want(x.file(x.here("new.txt")) == "some words\n", "the file has %q", x.file(x.here("new.txt")))
		x.want(len(tools) == 1 && strings.Contains(x.output(), "some"), "a patch that does not fit: %+v, %q", tools, x.output())
	}},
	{"a file is changed and deleted", func(x *codexRun) {
		s := x.create(nil)
		x.send(s.SessionID, "c", "[patch a.txt one] [replace a.txt one two] [patch b.txt x] [remove b.txt] [text over]", sessions.CommandCompleted)
		x.want(x.file(x.here("a.txt")) == "two\n", "the file has %q", x.file(x.here("a.txt")))
		x.missing("b.txt")
		x.want(len(x.tools(s.SessionID, "c")) == 4, "tools %+v", x.tools(s.SessionID, "c"))
	}},
	{"tokens are counted by turn and by session", func(x *codexRun) {
		s := x.create(nil)
		one := x.send(s.SessionID, "c", "[usage 1000 10] [text one]", sessions.CommandCompleted)
		two := x.send(s.SessionID, "d", "[usage 2000 20] [text two]", sessions.CommandCompleted)
		x.want(one.Usage != nil && one.Usage.Input == 1000 && one.Usage.Output == 10 && one.Usage.Total == 1010, "first turn: %+v", one.Usage)
		x.want(two.Usage != nil && two.Usage.Input == 2000 && two.Usage.Output == 20, "second turn: %+v", two.Usage)
		var thread any
		for _, e := range x.f.events(s.SessionID) {
			if e.Kind == sessions.EventUsage {
				thread = e.Data["thread"]
			}
		}
		total, _ := thread.(map[string]any)
		x.want(total["input_tokens"] == 3000.0 && total["output_tokens"] == 30.0, "conversation: %+v", thread)
	}},
	{"an image goes to the model", func(x *codexRun) {
		f, err := os.Create(x.here("dot.png"))
		if err == nil {
			err = png.Encode(f, image.NewGray(image.Rect(0, 0, 4, 4)))
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			x.t.Fatal(err)
		}
		s := x.create(nil)
		x.send(s.SessionID, "c", "[text seen]", sessions.CommandCompleted, args{"images": []string{x.here("dot.png")}})
		x.want(x.last().Images == 1, "the provider was sent %d images", x.last().Images)
		x.send(s.SessionID, "d", "[text again]", sessions.CommandCompleted)
		x.want(x.last().Images == 0, "with the next prompt the provider was sent %d images", x.last().Images)
	}},
	{"a plan is told whole, as a plan", func(x *codexRun) {
		s := x.create(args{"mode": "plan"})
		x.want(s.Selections.Evidence.Mode == "plan", "the mode is %q", s.Selections.Evidence.Mode)
		x.send(s.SessionID, "c", "[propose # Title and step one]", sessions.CommandCompleted)
		plan := ""
		for _, e := range x.f.events(s.SessionID) {
			if e.Kind == sessions.EventPlan && e.Final {
				plan = e.Text
			}
		}
		x.want(strings.TrimSpace(plan) == "# Title and step one", "the plan is %q", plan)
		x.missing("plan")
	}},
	{"an answer cut at the provider's longest says so", func(x *codexRun) {
		s := x.create(nil)
		sent := x.send(s.SessionID, "c", "[incomplete]", sessions.CommandFailed)
		x.want(sent.Command.Outcome == "max_tokens", "outcome %q: %s", sent.Command.Outcome, sent.Command.Reason)
		x.send(s.SessionID, "d", "[text again]", sessions.CommandCompleted)
	}},
	{"a sub-agent's work is told as its own", func(x *codexRun) {
		s := x.create(args{"approval_policy": "never"})
		x.send(s.SessionID, "c", "[spawn [shell touch by-sub] [text sub done]] [text root done]", sessions.CommandCompleted)
		x.until(s.SessionID, "the end of the sub-agent", func(e sessions.Event) bool {
			return e.Kind == sessions.EventTurnCompleted && e.Agent != ""
		})
		x.there("by-sub")
		own := false
		for _, e := range x.f.events(s.SessionID) {
			own = own || e.Agent != "" && e.Kind == sessions.EventToolCompleted && e.Command == "c"
			x.want(e.Agent == "" || e.Kind != sessions.EventCommandSettled, "a sub-agent's turn ended a command: %+v", e)
		}
		x.want(own, "no tool of the sub-agent:\n%s", kinds(x.f.events(s.SessionID)))
	}},
	{"a sub-agent's approval is asked and answered", func(x *codexRun) {
		s := x.create(args{"approval_policy": "untrusted"})
		r := x.ask(s.SessionID, "c", "[spawn [shell touch by-sub] [text sub done]] [sleep 6000] [text root done]")
		x.want(r.Agent != "" && strings.Contains(r.Title, "by-sub"), "request %+v", r)
		x.missing("by-sub")
		x.answer(s.SessionID, r, args{"decision": "approve"})
		x.settled(s.SessionID, "c", sessions.CommandCompleted)
		x.until(s.SessionID, "the end of the sub-agent", func(e sessions.Event) bool {
			return e.Kind == sessions.EventTurnCompleted && e.Agent != ""
		})
		x.there("by-sub")
	}},
}

// texts are the final texts of a command's root agent.
func texts(evs []sessions.Event, command string) (all []string) {
	for _, e := range evs {
		if e.Kind == sessions.EventText && e.Command == command && e.Final && e.Agent == "" {
			all = append(all, e.Text)
		}
	}
	return all
}

// one is a session as it stands.
func (x *codexRun) one(session string) sessions.Session {
	x.t.Helper()
	for _, s := range call[sessions.ListResult](x.f, "session_list", args{"all": true}).Sessions {
		if s.SessionID == session {
			return s
		}
	}
	x.t.Fatalf("session %s is not listed", session)
	panic("unreachable")
}
