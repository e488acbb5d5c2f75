package transcript

import (
	"fmt"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// RequestLines says what an agent asks and how it can be answered, on lines: title, detail, options, questions.
func RequestLines(q *sessions.Request) []string {
	lines := []string{q.Title}
	if q.Title == "" {
		lines[0] = "the agent asks"
	}
	for _, more := range []string{q.Detail, q.URL} {
		if more = strings.TrimRight(more, "\n"); more != "" && more != q.Title {
			lines = append(lines, "  "+strings.ReplaceAll(clip(more, maxDetail), "\n", "\n  "))
		}
	}
	if q.Tool != nil && q.Tool.Title != "" && q.Tool.Title != q.Title && !strings.Contains(q.Detail, q.Tool.Title) {
		lines = append(lines, "  "+q.Tool.Title)
	}
	if q.Tool != nil {
		for _, p := range q.Tool.Paths {
			lines = append(lines, "  "+p)
		}
	}
	for i, o := range q.Options {
		lines = append(lines, fmt.Sprintf("  %d. %s (%s): %s", i+1, o.OptionID, o.Kind, o.Label))
	}
	for _, qu := range q.Questions {
		text := "  " + qu.ID + ":"
		if qu.Text != q.Title {
			text += " " + qu.Text
		}
		lines = append(lines, text)
		for _, o := range qu.Options {
			text := "    " + o.ID
			if o.Label != "" && o.Label != o.ID {
				text += ": " + o.Label
			}
			if o.Description != "" {
				text += " (" + o.Description + ")"
			}
			lines = append(lines, text)
		}
	}
	return lines
}

// Resolution says what became of a request.
func Resolution(q *sessions.Request) string {
	if q.State != sessions.RequestAnswered && q.State != sessions.RequestAnswering {
		text := string(q.State)
		if q.Reason != "" {
			text += ": " + q.Reason
		}
		return text
	}
	text := "answered"
	if a := q.Answer; a != nil {
		switch {
		case a.Decline:
			text = "denied"
		case a.OptionID != "":
			text = "answered with " + a.OptionID
			for _, o := range q.Options {
				if o.OptionID == a.OptionID && o.Label != "" && o.Label != o.OptionID {
					text += " (" + o.Label + ")"
				}
			}
		}
	}
	if q.AnsweredBy != "" {
		text += " by " + q.AnsweredBy
	}
	return text
}

// Outcome says how a command ended, on one line.
func Outcome(s *sessions.Settlement) string {
	text := string(s.State)
	if s.Outcome != "" && s.Outcome != text && s.Outcome != "end_turn" {
		text += " (" + s.Outcome + ")"
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// ToolTitle names a tool call on one line.
func ToolTitle(t *sessions.Tool) string {
	title, _, more := strings.Cut(strings.TrimSpace(t.Title), "\n")
	if more {
		title += " …"
	}
	switch {
	case title == "" && len(t.Paths) > 0:
		title = strings.Join(t.Paths, ", ")
	case title == "":
		return t.Name
	}
	if t.Name == "" || strings.HasPrefix(title, t.Name) {
		return title
	}
	return t.Name + ": " + title
}

// ToolEnd says how a tool call ended.
func ToolEnd(t *sessions.Tool) string {
	text := t.Status
	if text == "" {
		text = "completed"
	}
	if t.Exit != nil && (*t.Exit != 0 || t.Status == "") {
		text = fmt.Sprintf("%s, exit status %d", text, *t.Exit)
	}
	return text
}

// Tokens is a count of tokens as people read it.
func Tokens(n int64) string {
	switch {
	case n <= 0:
		return ""
	case n < 1000:
		return fmt.Sprintf("%d tokens", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1fk tokens", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM tokens", float64(n)/1_000_000)
}

// Count is the number of tokens that a usage stands for.
func Count(u *sessions.Usage) int64 {
	switch {
	case u == nil:
		return 0
	case u.Total > 0:
		return u.Total
	}
	return u.Input + u.Output
}

// Lasted is a duration as people read it: 4s, 3m20s, 5h12m, 3d4h.
func Lasted(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// maxDetail bounds the detail of a request, and maxOutput and maxLines the output of a tool, as people are shown them.
const (
	maxDetail = 4000
	maxOutput = 4000
	maxLines  = 20
)

func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	cut := n
	for cut > 0 && text[cut]&0xc0 == 0x80 { // not inside of a character
		cut--
	}
	return text[:cut] + fmt.Sprintf("\n… (%d more bytes)", len(text)-cut)
}

// lastLines is the end of a tool's output, and how many lines were left out before it.
func lastLines(text string) (end string, left int) {
	text = strings.TrimRight(text, "\n")
	lines := strings.Split(text, "\n")
	if len(lines) > maxLines {
		left = len(lines) - maxLines
		lines = lines[left:]
	}
	for size := len(strings.Join(lines, "\n")); size > maxOutput && len(lines) > 1; left++ {
		size -= len(lines[0]) + 1
		lines = lines[1:]
	}
	return clip(strings.Join(lines, "\n"), maxOutput), left
}

// tailLines and tailBytes bound what is shown of an agent's standard error.
const (
	tailLines = 10
	tailBytes = 2 << 10
)

// LastWords is the end of what an agent wrote to its standard error, or where it wrote nothing there, to its standard
// output beside its protocol: as lines, the first of which says what it is; none where nothing is known. The details are
// those of an error or of the event of a failed session.
func LastWords(details map[string]any) []string {
	for _, from := range []struct{ key, name string }{{"stderr", "standard error"}, {"stdout", "standard output"}} {
		if said, _ := details[from.key].(string); strings.TrimSpace(said) != "" {
			return wordTail(strings.TrimSpace(said), from.name)
		}
	}
	return nil
}

func wordTail(said, from string) []string {
	cut := len(said) > tailBytes
	if cut {
		said = strings.ToValidUTF8(said[len(said)-tailBytes:], "")
	}
	lines := strings.Split(said, "\n")
	if over := len(lines) - tailLines; over > 0 {
		lines, cut = lines[over:], true
	}
	head := "the agent wrote to its " + from + ":"
	if cut {
		head = "the agent wrote to its " + from + ", at the end:"
	}
	for i, l := range lines {
		lines[i] = "| " + strings.TrimRight(l, "\r")
	}
	return append([]string{head}, lines...)
}
