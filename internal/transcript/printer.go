package transcript

import (
	"fmt"
	"strings"
	"time"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/sessions"
)

// Options say what of a session is told. The zero value tells what was asked and said, the tools, what was asked for, and
// how it ended.
type Options struct {
	Reasoning bool // also what the agent thought
	Times     bool // when each thing happened
	NoPrompts bool // without the prompts: who reads has just typed them
}

// Printer tells events on a screen, in the order in which it gets them.
type Printer struct {
	o     Options
	talk  *term.Screen // what the agents say
	aside *term.Screen // everything else; may be the same

	open     texts
	speaking string // whose text the cursor is behind
	tools    map[string]bool
	above    string // the tool whose line is the last one
	began    map[string]time.Time
	used     map[string]int64
	live     bool // something of the session itself was told
	replay   bool // what was told last is of a record from before
}

// NewPrinter makes a printer that writes the agents' words to talk and everything else to aside.
func NewPrinter(talk, aside *term.Screen, o Options) *Printer {
	return &Printer{o: o, talk: talk, aside: aside, open: texts{}, tools: map[string]bool{}, began: map[string]time.Time{}, used: map[string]int64{}}
}

// Event tells one event.
func (p *Printer) Event(e *sessions.Event) {
	if p.replay != e.Replay && p.live {
		mark := "-- from here on: what the agent's own record has from before the session"
		if !e.Replay {
			mark = "-- end of what was before the session"
		}
		p.line(&sessions.Event{}, term.Dim, mark)
	}
	p.replay, p.live = e.Replay, p.live || !e.Replay
	switch e.Kind {
	case sessions.EventText:
		p.text(e, p.talk, term.Plain, "")
	case sessions.EventReasoning:
		if p.o.Reasoning {
			p.text(e, p.aside, term.Dim, "thinking")
		}
	case sessions.EventPlan:
		if e.Text != "" {
			p.text(e, p.aside, term.Quote, "plan")
		}
	case sessions.EventToolStarted, sessions.EventToolCompleted:
		p.tool(e)
	case sessions.EventApprovalRequested, sessions.EventQuestionRequested:
		if e.Request != nil {
			p.line(e, term.Warn, fmt.Sprintf("? %s %s", e.Request.Kind, e.Request.RequestID))
			for _, l := range RequestLines(e.Request) {
				p.aside.Line(term.Warn, "  "+l)
			}
		}
	case sessions.EventRequestResolved:
		if e.Request != nil {
			p.line(e, term.Dim, "  "+Resolution(e.Request))
		}
	case sessions.EventCommandSubmitted:
		p.Known(e)
		if !p.o.NoPrompts {
			p.line(e, term.Bold, "> "+strings.ReplaceAll(strings.TrimRight(e.Text, "\n"), "\n", "\n> "))
		}
	case sessions.EventCommandSettled:
		p.settled(e)
	case sessions.EventUsage:
		if e.Usage != nil {
			p.used[e.Command] = Count(e.Usage)
		}
	default:
		p.rest(e)
	}
}

// Known takes the event of a command whose prompt its reader has just typed, without telling it.
func (p *Printer) Known(e *sessions.Event) { p.began[e.Command] = e.At }

func (p *Printer) rest(e *sessions.Event) {
	switch e.Kind {
	case sessions.EventSessionStarted:
		text := "-- session started"
		if e.Data["resumed"] == true {
			text = "-- session resumed"
		}
		p.line(e, term.Dim, text)
	case sessions.EventSessionClosed:
		p.line(e, term.Dim, fmt.Sprintf("-- session closed, end of its processes %v", e.Data["stopped"]))
	case sessions.EventSessionFailed:
		p.line(e, term.Bad, fmt.Sprintf("-- session failed: %s: %s", e.Code, e.Text))
		for _, l := range LastWords(e.Data) {
			p.aside.Line(term.Dim, "    "+l)
		}
	case sessions.EventSelectionConfirm, sessions.EventSelectionChanged:
		if e.Selection != nil {
			p.line(e, term.Dim, "-- "+selected(e.Selection.Evidence))
		}
	case sessions.EventWarning:
		p.line(e, term.Warn, "! "+e.Text)
	case sessions.EventError:
		p.line(e, term.Bad, "! "+strings.TrimPrefix(string(e.Code)+": ", ": ")+e.Text)
	case sessions.EventGap:
		if e.Gap != nil {
			p.line(e, term.Warn, GapLine(e.Gap))
		}
	}
}

// GapLine says what can no longer be read.
func GapLine(g *sessions.Gap) string {
	return fmt.Sprintf("! events %d to %d can no longer be read: %s", g.From, g.To, g.Reason)
}

func selected(e sessions.Evidence) string {
	var parts []string
	for _, f := range [][2]string{{"model", e.Model}, {"effort", e.Effort}, {"mode", e.Mode}, {"sandbox", e.Sandbox}, {"approvals", e.ApprovalPolicy}} {
		if f[1] != "" {
			parts = append(parts, f[0]+" "+f[1])
		}
	}
	return "confirmed: " + strings.Join(parts, ", ")
}

// text tells a piece of text, or a whole one of which no piece was told.
func (p *Printer) text(e *sessions.Event, to *term.Screen, style term.Style, label string) {
	n := p.open.take(e)
	if n.text != "" {
		speaker := e.Agent + "\x00" + label + "\x00" + e.Item
		if p.speaking != speaker || n.differs {
			p.fresh()
			head := label
			if e.Agent != "" {
				head = strings.TrimSpace(e.Agent + " " + label)
			}
			if n.differs {
				head = strings.TrimSpace(head + " (as it was ended, other than its pieces)")
			}
			if head != "" || p.o.Times {
				p.aside.Line(term.Dim, p.time(e)+strings.TrimRight(head+":", ":")+":")
			}
			p.speaking = speaker
		}
		to.Print(style, n.text)
	}
	if e.Abandoned {
		p.line(e, term.Dim, "  (the agent gave this text up)")
	}
	if n.ends && p.speaking != "" {
		p.fresh()
	}
}

func (p *Printer) tool(e *sessions.Event) {
	if e.Tool == nil {
		return
	}
	key := e.Agent + "\x00" + e.Item
	if !p.tools[key] {
		p.line(e, term.Quote, "* "+ToolTitle(e.Tool))
		p.tools[key] = true
		p.above = key
	}
	if e.Kind != sessions.EventToolCompleted {
		return
	}
	delete(p.tools, key)
	end := ToolEnd(e.Tool)
	if p.above != key {
		end = ToolTitle(e.Tool) + ": " + end
	}
	output, left := lastLines(e.Tool.Output)
	if left > 0 {
		p.aside.Line(term.Dim, fmt.Sprintf("    … %d lines before", left))
	}
	if output != "" {
		p.aside.Line(term.Dim, "    "+strings.ReplaceAll(output, "\n", "\n    "))
	}
	style := term.Dim
	if e.Tool.Status == "failed" || e.Tool.Exit != nil && *e.Tool.Exit != 0 {
		style = term.Bad
	}
	p.line(e, style, "  "+end)
}

func (p *Printer) settled(e *sessions.Event) {
	if e.Settled == nil {
		return
	}
	text := "-- " + Outcome(e.Settled)
	if began, ok := p.began[e.Command]; ok && !e.At.IsZero() {
		text += ", " + Lasted(e.At.Sub(began))
		delete(p.began, e.Command)
	}
	if used := Tokens(p.used[e.Command]); used != "" {
		text += ", " + used
		delete(p.used, e.Command)
	}
	style := term.Dim
	switch e.Settled.State {
	case sessions.CommandCompleted:
	case sessions.CommandInterrupted, sessions.CommandCancelled, sessions.CommandCancelUnconfirmed:
		style = term.Warn
	default:
		style = term.Bad
	}
	p.line(e, style, text)
}

// line tells something on lines of its own.
func (p *Printer) line(e *sessions.Event, style term.Style, text string) {
	p.fresh()
	p.aside.Line(style, p.time(e)+text)
}

// fresh ends what was being said, on both screens: they may be one terminal.
func (p *Printer) fresh() {
	p.speaking, p.above = "", ""
	p.talk.Fresh()
	p.aside.Fresh()
}

func (p *Printer) time(e *sessions.Event) string {
	at := e.At
	if past, ok := e.Data["happened_at"].(string); ok && e.Replay {
		if t, err := time.Parse(time.RFC3339Nano, past); err == nil {
			at = t
		}
	}
	if !p.o.Times || at.IsZero() {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05 ")
}
