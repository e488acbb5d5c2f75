package transcript

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Markdown writes a session as a document: its head, then each prompt with what followed. Texts of the agents stay the
// Markdown that they are; everything else is quoted so that it cannot become any.
type Markdown struct {
	w     io.Writer
	o     Options
	open  texts
	whole map[string]*strings.Builder // texts that are still said
	err   error
}

// NewMarkdown begins the document.
func NewMarkdown(w io.Writer, s *sessions.Session, o Options) *Markdown {
	m := &Markdown{w: w, o: o, open: texts{}, whole: map[string]*strings.Builder{}}
	title := s.Title
	if title == "" {
		title = "Session " + s.SessionID
	}
	m.block("# %s", line(title))
	rows := [][2]string{{"session", s.SessionID}, {"runner", s.Runner}, {"directory", s.Cwd}, {"model", s.Selections.Evidence.Model},
		{"sandbox", s.Selections.Evidence.Sandbox}, {"state", string(s.State)}, {"created", stamp(s.CreatedAt)}}
	var b strings.Builder
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(&b, "* %s: %s\n", r[0], code(r[1]))
		}
	}
	m.block("%s", strings.TrimRight(b.String(), "\n"))
	return m
}

// Event writes one event, in order.
func (m *Markdown) Event(e *sessions.Event) {
	switch e.Kind {
	case sessions.EventCommandSubmitted:
		if e.Command == "" { // before the session was Baton's
			m.block("## Prompt, before")
		} else {
			m.block("## Prompt %s", code(e.Command))
		}
		if m.o.Times {
			m.block("%s", stamp(e.At))
		}
		m.block("%s", quote(e.Text))
	case sessions.EventText:
		m.text(e, "")
	case sessions.EventPlan:
		m.text(e, "plan")
	case sessions.EventReasoning:
		if m.o.Reasoning {
			m.text(e, "reasoning")
		}
	case sessions.EventToolCompleted:
		if e.Tool != nil {
			m.block("**tool** %s: %s", code(ToolTitle(e.Tool)), ToolEnd(e.Tool))
			m.fenced(e.Tool.Output)
		}
	case sessions.EventApprovalRequested, sessions.EventQuestionRequested:
		if e.Request != nil {
			m.block("**%s** %s", e.Request.Kind, code(e.Request.RequestID))
			m.fenced(strings.Join(RequestLines(e.Request), "\n"))
		}
	case sessions.EventRequestResolved:
		if e.Request != nil {
			m.block("**%s** %s: %s", e.Request.Kind, code(e.Request.RequestID), line(Resolution(e.Request)))
		}
	case sessions.EventCommandSettled:
		if e.Settled != nil {
			m.flush()
			m.block("*%s*", line(Outcome(e.Settled)))
		}
	default:
		m.rest(e)
	}
}

func (m *Markdown) rest(e *sessions.Event) {
	switch e.Kind {
	case sessions.EventSessionFailed:
		m.block("*session failed: %s*", line(string(e.Code)+": "+e.Text))
	case sessions.EventSessionClosed:
		m.block("*session closed*")
	case sessions.EventWarning, sessions.EventError:
		m.block("*%s: %s*", e.Kind, line(e.Text))
	case sessions.EventGap:
		if e.Gap != nil {
			m.block("*events %d to %d can no longer be read: %s*", e.Gap.From, e.Gap.To, line(e.Gap.Reason))
		}
	}
}

// Err is the first error of the writer.
func (m *Markdown) Err() error { return m.err }

// End writes what is still being said, and returns the first error of the writer.
func (m *Markdown) End() error {
	m.flush()
	return m.err
}

// text gathers an item, and writes it when it ends.
func (m *Markdown) text(e *sessions.Event, label string) {
	key := string(e.Kind) + "\x00" + e.Agent + "\x00" + e.Item
	n := m.open.take(e)
	b := m.whole[key]
	if b == nil || n.differs {
		b = &strings.Builder{}
		m.whole[key] = b
		head := strings.TrimSpace(e.Agent + " " + label)
		if head != "" {
			fmt.Fprintf(b, "**%s**\n\n", line(head))
		}
	}
	b.WriteString(n.text)
	if n.ends {
		delete(m.whole, key)
		if e.Abandoned {
			b.WriteString("\n\n*(given up and begun again)*")
		}
		m.block("%s", strings.TrimSpace(b.String()))
	}
}

func (m *Markdown) flush() {
	for _, key := range slices.Sorted(maps.Keys(m.whole)) {
		m.block("%s", strings.TrimSpace(m.whole[key].String()))
	}
	clear(m.whole)
	clear(m.open)
}

func (m *Markdown) fenced(text string) {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	fence := strings.Repeat("`", max(3, longest(text, '`')+1))
	m.block("%s\n%s\n%s", fence, text, fence)
}

func (m *Markdown) block(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if m.err != nil || text == "" {
		return
	}
	_, m.err = io.WriteString(m.w, text+"\n\n")
}

// code quotes one line as code, whatever backticks it holds.
func code(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	ticks := strings.Repeat("`", longest(text, '`')+1)
	if len(ticks) > 1 {
		return ticks + " " + text + " " + ticks
	}
	return ticks + text + ticks
}

var escapes = strings.NewReplacer("\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "<", "&lt;", "#", "\\#")

// line is one line of plain text.
func line(text string) string { return escapes.Replace(strings.Join(strings.Fields(text), " ")) }

// quote is a text in a block of code that is a quotation: prompts are no Markdown of the document's.
func quote(text string) string {
	fence := strings.Repeat("`", max(3, longest(text, '`')+1))
	return "> " + strings.ReplaceAll(fence+"text\n"+strings.TrimRight(text, "\n")+"\n"+fence, "\n", "\n> ")
}

func longest(text string, c byte) (n int) {
	run := 0
	for i := range len(text) {
		if text[i] == c {
			run++
			n = max(n, run)
		} else {
			run = 0
		}
	}
	return n
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
