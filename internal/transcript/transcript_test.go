package transcript

import (
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/sessions"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func piece(item, text string) sessions.Event {
	return sessions.Event{Kind: sessions.EventText, Command: "c", Item: item, Text: text}
}

func whole(item, text string) sessions.Event {
	return sessions.Event{Kind: sessions.EventText, Command: "c", Item: item, Text: text, Final: true}
}

func agent(name string, e sessions.Event) sessions.Event {
	e.Agent = name
	return e
}

func abandoned(e sessions.Event) sessions.Event {
	e.Abandoned = true
	return e
}

func tool(kind sessions.EventKind, item string, x sessions.Tool) sessions.Event {
	return sessions.Event{Kind: kind, Item: item, Tool: &x}
}

func asked(kind sessions.EventKind, q sessions.Request) sessions.Event {
	return sessions.Event{Kind: kind, Request: &q}
}

var approval = sessions.Request{RequestID: "r1", Kind: sessions.RequestApproval, Title: "rm -rf x", Detail: "in /w",
	Options: []sessions.Option{{OptionID: "ok", Kind: sessions.OptionAllowOnce, Label: "once"}}}

func answered(q sessions.Request, a sessions.Answer) sessions.Request {
	q.State, q.Answer, q.AnsweredBy = sessions.RequestAnswered, &a, "local"
	return q
}

func settled(state sessions.CommandState, outcome, reason string, after time.Duration) sessions.Event {
	return sessions.Event{Kind: sessions.EventCommandSettled, Command: "c", At: noon.Add(after),
		Settled: &sessions.Settlement{Command: "c", State: state, Outcome: outcome, Reason: reason}}
}

var submitted = sessions.Event{Kind: sessions.EventCommandSubmitted, Command: "c", At: noon, Text: "do it\nnow"}

// What is printed of a session, and what its document holds.
func TestPrinter(t *testing.T) {
	for name, tc := range map[string]struct {
		events []sessions.Event
		want   string
	}{
		"pieces and their whole": {[]sessions.Event{piece("1", "one "), piece("1", "two"), whole("1", "one two"), piece("2", "three")}, "one two\nthree\n"},
		"a whole alone":          {[]sessions.Event{whole("1", "one two")}, "one two\n"},
		"a whole with more":      {[]sessions.Event{piece("1", "one"), whole("1", "one two")}, "one two\n"},
		"a whole that differs":   {[]sessions.Event{piece("1", "one"), whole("1", "two")}, "one\n(as it was ended, other than its pieces):\ntwo\n"},
		"the end of an item":     {[]sessions.Event{piece("1", "two"), whole("1", "one two")}, "two\n"},
		"a text given up": {[]sessions.Event{piece("1", "ha"), abandoned(piece("1", "")), piece("2", "whole")},
			"ha\n  (the agent gave this text up)\nwhole\n"},
		"two agents": {[]sessions.Event{piece("1", "root"), agent("sub", piece("2", "other")), piece("1", " again")}, "root\nsub:\nother\n again\n"},
		"thoughts":   {[]sessions.Event{{Kind: sessions.EventReasoning, Text: "hm"}}, ""},
		"a turn": {[]sessions.Event{submitted, {Kind: sessions.EventUsage, Command: "c", Usage: &sessions.Usage{Total: 1234}}, settled(sessions.CommandCompleted, "end_turn", "", 83*time.Second)},
			"> do it\n> now\n-- completed, 1m23s, 1.2k tokens\n"},
		"a failed turn": {[]sessions.Event{submitted, settled(sessions.CommandFailed, "refusal", "it would not", time.Second)}, "> do it\n> now\n-- failed (refusal): it would not, 1s\n"},
		"a tool": {[]sessions.Event{tool(sessions.EventToolStarted, "t", sessions.Tool{Name: "command", Title: "ls"}),
			tool(sessions.EventToolCompleted, "t", sessions.Tool{Name: "command", Title: "ls", Status: "failed", Exit: new(2), Output: "no\n"})},
			"* command: ls\n    no\n  failed, exit status 2\n"},
		"two tools at once": {[]sessions.Event{tool(sessions.EventToolStarted, "a", sessions.Tool{Title: "a"}), tool(sessions.EventToolStarted, "b", sessions.Tool{Title: "b"}),
			tool(sessions.EventToolCompleted, "a", sessions.Tool{Title: "a", Status: "completed"}), tool(sessions.EventToolCompleted, "b", sessions.Tool{Title: "b", Status: "declined"})},
			"* a\n* b\n  a: completed\n  b: declined\n"},
		"a tool that was not seen to start": {[]sessions.Event{tool(sessions.EventToolCompleted, "a", sessions.Tool{Name: "edit", Paths: []string{"x", "y"}})}, "* edit: x, y\n  completed\n"},
		"an approval": {[]sessions.Event{asked(sessions.EventApprovalRequested, approval), asked(sessions.EventRequestResolved, answered(approval, sessions.Answer{OptionID: "ok"}))},
			"? approval r1\n  rm -rf x\n    in /w\n    1. ok (allow_once): once\n  answered with ok (once) by local\n"},
		"a refusal": {[]sessions.Event{asked(sessions.EventRequestResolved, answered(approval, sessions.Answer{Decline: true}))}, "  denied by local\n"},
		"a gap":     {[]sessions.Event{{Kind: sessions.EventGap, Gap: &sessions.Gap{From: 3, To: 9, Reason: "retention"}}}, "! events 3 to 9 can no longer be read: retention\n"},
		"trouble": {[]sessions.Event{{Kind: sessions.EventWarning, Text: "careful"}, {Kind: sessions.EventError, Code: sessions.CodeAgentProtocol, Text: "bad"},
			{Kind: sessions.EventSessionFailed, Code: sessions.CodeAgentExited, Text: "gone"}}, "! careful\n! agent_protocol: bad\n-- session failed: agent_exited: gone\n"},
		"what commands a terminal": {[]sessions.Event{piece("1", "\x1b[2J"), {Kind: sessions.EventWarning, Text: "\x07"}}, "␛[2J\n! ␇\n"},
	} {
		var b strings.Builder
		s := term.PlainScreen(&b)
		p := NewPrinter(s, s, Options{})
		for i := range tc.events {
			p.Event(&tc.events[i])
		}
		s.Fresh()
		if b.String() != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, b.String(), tc.want)
		}
	}
}

func TestPrinterOptions(t *testing.T) {
	var talk, aside strings.Builder
	p := NewPrinter(term.PlainScreen(&talk), term.PlainScreen(&aside), Options{Reasoning: true, Times: true, NoPrompts: true})
	for _, e := range []sessions.Event{submitted, {Kind: sessions.EventReasoning, Text: "hm", At: noon}, piece("1", "said")} {
		p.Event(&e)
	}
	if talk.String() != "said" || !strings.Contains(aside.String(), "thinking:\nhm") || strings.Contains(aside.String(), "do it") {
		t.Errorf("%q and %q", talk.String(), aside.String())
	}
}

// Long output is cut, and it is said how much.
func TestLongOutput(t *testing.T) {
	end, left := lastLines(strings.Repeat("line\n", 500))
	if left != 480 || strings.Count(end, "line") != 20 {
		t.Errorf("%d lines left out before %q", left, end)
	}
	end, left = lastLines(strings.Repeat("é", 10_000))
	if left != 0 || len(end) > maxOutput+40 || !strings.Contains(end, "more bytes)") || !strings.HasPrefix(end, "é") || strings.Contains(end, "\ufffd") {
		t.Errorf("%d, %d bytes: %q", left, len(end), end[len(end)-40:])
	}
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	s := sessions.Session{SessionID: "id", Runner: "codex", Cwd: "/w/a`b", Title: "a *title* <b>", State: sessions.SessionClosed, CreatedAt: noon}
	m := NewMarkdown(&b, &s, Options{})
	hostile := submitted
	hostile.Text = "look:\n```\n# no heading\n```"
	for _, e := range []sessions.Event{hostile, piece("1", "**bold** "), piece("1", "words"), whole("1", "**bold** words"),
		tool(sessions.EventToolCompleted, "t", sessions.Tool{Name: "command", Title: "ls", Status: "completed", Output: "````\nfence"}),
		asked(sessions.EventApprovalRequested, approval), asked(sessions.EventRequestResolved, answered(approval, sessions.Answer{OptionID: "ok"})),
		{Kind: sessions.EventGap, Gap: &sessions.Gap{From: 3, To: 9, Reason: "retention"}},
		piece("2", "never ended"), settled(sessions.CommandFailed, "", "a_b", 0)} {
		m.Event(&e)
	}
	if err := m.End(); err != nil {
		t.Fatal(err)
	}
	want := "# a \\*title\\* &lt;b>\n\n" +
		"* session: `id`\n* runner: `codex`\n* directory: `` /w/a`b ``\n* state: `closed`\n* created: `2026-11-30T12:00:00Z`\n\n" +
		"## Prompt `c`\n\n" +
		"> ````text\n> look:\n> ```\n> # no heading\n> ```\n> ````\n\n" +
		"**bold** words\n\n" +
		"**tool** `command: ls`: completed\n\n`````\n````\nfence\n`````\n\n" +
		"**approval** `r1`\n\n```\nrm -rf x\n  in /w\n  1. ok (allow_once): once\n```\n\n" +
		"**approval** `r1`: answered with ok (once) by local\n\n" +
		"*events 3 to 9 can no longer be read: retention*\n\n" +
		"never ended\n\n*failed: a\\_b*\n\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{-1: "", 0: "", 7: "7 tokens", 1234: "1.2k tokens", 2_500_000: "2.5M tokens"} {
		if got := Tokens(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
	for d, want := range map[time.Duration]string{-time.Second: "0s", 9 * time.Second: "9s", 200 * time.Second: "3m20s", 5*time.Hour + 12*time.Minute: "5h12m", 76 * time.Hour: "3d4h"} {
		if got := Lasted(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
	if Count(nil) != 0 || Count(&sessions.Usage{Input: 3, Output: 4}) != 7 || Count(&sessions.Usage{Input: 3, Total: 9}) != 9 {
		t.Error("a usage is counted wrong")
	}
}
