package mcpserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// Limits of a transcript in bytes: of the whole, and of one tool's output in it.
const (
	maxTranscript = 512 << 10
	maxToolOutput = 2000
)

// transcript writes a session as Markdown: prompts, what the agent said, what it did, what it asked and what it was
// answered, and how each turn ended. It is read page by page, so that its cost depends on what it gives.
func (s *Server) transcript(ctx context.Context, id string) (string, error) {
	found, err := s.session(ctx, id)
	if err != nil {
		return "", err
	}
	t := transcript{open: map[string]int{}}
	t.head(found)
	a := sessions.ReadArgs{SessionID: id, Limit: sessions.MaxReadLimit, MaxChars: sessions.MaxChars}
	for {
		r, err := s.api.Read(ctx, s.caller(ctx), a)
		if err != nil {
			return "", err
		}
		if r.Gap != nil {
			t.line("*Events %d to %d can no longer be read: %s*", r.Gap.From, r.Gap.To, r.Gap.Reason)
		}
		for _, e := range r.Events {
			t.take(e)
		}
		if !r.HasMore || r.Cursor == a.After {
			return t.text(), nil
		}
		if a.After = r.Cursor; t.size > maxTranscript {
			t.line("*This is not all: go on with %s%s%s?after=%s*", sessionPrefix, id, partEvents, a.After)
			return t.text(), nil
		}
	}
}

// transcript collects blocks. The text of an item grows with its deltas, until its whole text takes their place.
type transcript struct {
	blocks []string
	open   map[string]int // the block of an item's text
	size   int
}

func (t *transcript) line(format string, args ...any) int {
	text := fmt.Sprintf(format, args...)
	t.blocks = append(t.blocks, text)
	t.size += len(text)
	return len(t.blocks) - 1
}

func (t *transcript) text() string { return strings.Join(t.blocks, "\n\n") + "\n" }

func (t *transcript) head(s sessions.Session) {
	title := s.Title
	if title == "" {
		title = "Session of " + s.Runner
	}
	t.line("# %s", oneLine(title))
	model := s.Selections.Evidence.Model
	if model == "" {
		model = "unknown"
	}
	t.line("* session %s\n* agent %s, model %s\n* folder %s\n* state %s", s.SessionID, s.Runner, model, s.Cwd, s.State)
}

func (t *transcript) take(e sessions.Event) {
	who := ""
	if e.Agent != "" {
		who = " (" + oneLine(e.Agent) + ")"
	}
	switch e.Kind {
	case sessions.EventCommandSubmitted:
		t.line("## Prompt\n\n%s", strings.TrimSpace(e.Text))
	case sessions.EventText:
		t.words(e, who)
	case sessions.EventPlan:
		if e.Final {
			t.line("### Plan%s\n\n%s", who, strings.TrimSpace(e.Text))
		}
	case sessions.EventToolCompleted:
		if e.Tool != nil {
			t.tool(e.Tool, who)
		}
	case sessions.EventApprovalRequested, sessions.EventQuestionRequested:
		if e.Request != nil {
			t.line("> **Asks%s:** %s", who, oneLine(e.Request.Title))
		}
	case sessions.EventRequestResolved:
		if e.Request != nil {
			t.line("> **%s** %s", e.Request.State, oneLine(resolution(e.Request)))
		}
	case sessions.EventCommandSettled:
		if e.Settled != nil {
			t.line("*Turn %s%s%s*", e.Settled.State, bracketed(e.Settled.Outcome), because(oneLine(e.Settled.Reason)))
		}
	case sessions.EventWarning, sessions.EventError, sessions.EventSessionFailed:
		t.line("*%s: %s*", e.Kind, oneLine(e.Text))
	}
}

func (t *transcript) words(e sessions.Event, who string) {
	key := e.Generation + "/" + e.Command + "/" + e.Item
	i, ok := t.open[key]
	if !ok {
		if e.Text == "" || e.Abandoned {
			return
		}
		i = t.line("### Agent%s\n\n", who)
		t.open[key] = i
	}
	switch {
	case e.Abandoned:
		t.blocks[i] += "\n\n*(given up)*"
		delete(t.open, key)
	case e.Final:
		t.blocks[i] = "### Agent" + who + "\n\n" + strings.TrimSpace(e.Text)
		delete(t.open, key)
	default:
		t.blocks[i] += e.Text
	}
	t.size += len(e.Text)
}

func (t *transcript) tool(x *sessions.Tool, who string) {
	title := x.Title
	if title == "" {
		title = x.Name
	}
	text := fmt.Sprintf("* **%s**%s %s: %s", oneLine(x.Name), who, code(clip(oneLine(title), 300)), x.Status)
	if x.Exit != nil {
		text += fmt.Sprintf(", exit %d", *x.Exit)
	}
	for _, p := range x.Paths {
		text += "\n  * " + code(oneLine(p))
	}
	if out := strings.TrimSpace(x.Output); out != "" {
		fence := "```"
		for strings.Contains(out, fence) {
			fence += "`"
		}
		text += "\n\n" + fence + "\n" + clip(out, maxToolOutput) + "\n" + fence
	}
	t.line("%s", text)
}

// code is an inline code span that its text cannot end.
func code(text string) string {
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) == 1 {
		return fence + text + fence
	}
	return fence + " " + text + " " + fence
}

func resolution(q *sessions.Request) string {
	text := q.Reason
	if q.Answer != nil {
		for _, o := range q.Options {
			if o.OptionID == q.Answer.OptionID {
				text = o.Label
			}
		}
	}
	if q.AnsweredBy != "" {
		text += " by " + q.AnsweredBy
	}
	return text
}

func bracketed(text string) string {
	if text == "" {
		return ""
	}
	return " (" + oneLine(text) + ")"
}
