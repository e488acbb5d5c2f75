package acp

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// maxOutput is how much of a tool's output goes into events; its end, which says how it went.
const maxOutput = 64 << 10

// tool is one tool call.
type tool struct {
	id        string
	now       sessions.Tool
	ended     bool
	abandoned bool // ended by us
	declined  bool // its approval was denied

	show     func(terminal string) (text string, exit *int) // nil: no terminals
	terminal string                                         // that it embeds
	hide     sessions.Redactor
}

// toolCall is a tool_call, a tool_call_update, or what a permission request says of its tool: all members but the id
// may be missing, and then mean "as before".
type toolCall struct {
	ID        string        `json:"toolCallId"`
	Title     string        `json:"title"`
	Kind      string        `json:"kind"`
	Status    string        `json:"status"`
	Content   []toolContent `json:"content"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
	RawInput  json.RawMessage `json:"rawInput"`
	RawOutput json.RawMessage `json:"rawOutput"`
}

type toolContent struct {
	Type     string `json:"type"`
	Content  block  `json:"content"`
	Path     string `json:"path"`       // of a diff
	Terminal string `json:"terminalId"` // of a terminal
}

// texts is what of a tool's content can be read.
func (c toolCall) texts() string {
	var parts []string
	for _, x := range c.Content {
		if text := x.Content.text(); x.Type == "content" && text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

// call handles a tool_call or a tool_call_update. Gemini sends no tool_call at all (0.61), so either begins a tool.
func (f *feed) call(c toolCall, raw json.RawMessage) {
	t := f.tools[c.ID]
	begun := t == nil
	if begun {
		t = f.begin(c, raw)
	}
	more := t.merge(c, false)
	switch {
	case t.ended:
		if !begun && !more {
			return // a terminal update that came twice
		}
		f.tool(sessions.EventToolUpdated, t, raw)
	case c.Status == "completed" || c.Status == "failed":
		t.ended = true
		if begun {
			raw = nil // the event of its beginning has it
		}
		f.tool(sessions.EventToolCompleted, t, raw)
	case !begun:
		f.tool(sessions.EventToolUpdated, t, raw)
	}
}

// begin starts a tool, which interrupts the running text.
func (f *feed) begin(c toolCall, raw json.RawMessage) *tool {
	f.cut(&f.thought)
	f.cut(&f.text)
	t := &tool{id: c.ID, now: sessions.Tool{Name: "other"}, show: f.show, hide: f.hide}
	t.merge(c, true)
	f.tools[c.ID] = t
	f.order = append(f.order, c.ID)
	f.tool(sessions.EventToolStarted, t, raw)
	return t
}

func (f *feed) tool(kind sessions.EventKind, t *tool, raw json.RawMessage) {
	now := t.now
	if kind == sessions.EventToolStarted {
		now.Status, now.Output, now.Exit = "in_progress", "", nil
	}
	f.send(sessions.Event{Kind: kind, Item: t.id, Tool: &now, Raw: kept(raw)})
}

// merge takes over what a call says, and tells whether that was anything but a status. A preview's content is what the
// tool is about to do, not what it put out.
func (t *tool) merge(c toolCall, preview bool) (more bool) {
	set := func(to *string, v string) {
		if v != "" && *to != v {
			*to, more = v, true
		}
	}
	set(&t.now.Title, c.Title)
	set(&t.now.Name, c.Kind)
	for _, l := range c.Locations {
		more = t.touch(l.Path) || more
	}
	for _, x := range c.Content {
		switch x.Type {
		case "diff":
			more = t.touch(x.Path) || more
		case "terminal":
			t.terminal = x.Terminal
		}
	}
	if len(c.RawInput) > 2 && string(c.RawInput) != string(t.now.Detail) { // Cursor begins with {}
		t.now.Detail, more = kept(c.RawInput), true
	}
	if !preview {
		output, exit := readOutput(c.RawOutput)
		if texts := c.texts(); texts != "" {
			output = texts
		}
		if shown, code := t.shown(); output == "" && shown != "" {
			output = shown
			exit = cmp.Or(exit, code)
		}
		set(&t.now.Output, tail(output, maxOutput, t.hide))
		if exit != nil {
			t.now.Exit, more = exit, true
		}
	}
	if s := toolStatus(c.Status, t.declined); s != "" && !t.ended {
		t.now.Status = s
	}
	return more
}

// shown is the output of the terminal that the tool embeds.
func (t *tool) shown() (string, *int) {
	if t.terminal == "" || t.show == nil {
		return "", nil
	}
	return t.show(t.terminal)
}

// terminalExited tells the end of a terminal as news of the tool that embeds it.
func (f *feed) terminalExited(id string) {
	for _, name := range f.order {
		if t := f.tools[name]; t.terminal == id && !t.ended && t.merge(toolCall{}, false) {
			f.tool(sessions.EventToolUpdated, t, nil)
		}
	}
}

func (t *tool) touch(path string) bool {
	if path == "" || slices.Contains(t.now.Paths, path) {
		return false
	}
	t.now.Paths = append(slices.Clip(t.now.Paths), path)
	return true
}

func toolStatus(status string, declined bool) string {
	switch status {
	case "pending", "in_progress":
		return "in_progress"
	case "failed":
		if declined {
			return "declined"
		}
	}
	return status
}

// abandon closes a tool that its turn left open. What it has started may run on: codex-acp left a command running for
// seconds after "cancelled" (2.6.0).
func (t *tool) abandon(f *feed, status string) {
	if t.ended {
		return
	}
	t.ended, t.abandoned = true, true
	if t.declined {
		status = "declined"
	}
	t.now.Status = status
	f.tool(sessions.EventToolCompleted, t, nil)
}

// readOutput reads a tool's raw output, which is anything; these are the shapes that agents agree on.
func readOutput(raw json.RawMessage) (text string, exit *int) {
	if decode(raw, &text) == nil && text != "" {
		return text, nil
	}
	var o struct {
		Exit   *int   `json:"exitCode"`
		Exit2  *int   `json:"exit_code"`
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
		Output string `json:"output"`
		Error  string `json:"error"`
	}
	_ = decode(raw, &o)
	if o.Exit == nil {
		o.Exit = o.Exit2
	}
	for _, part := range []string{o.Output, o.Stdout, o.Stderr, o.Error} {
		if text != "" && part != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += part
	}
	return text, o.Exit
}

// tail is the end of a text, without a cut character, which is redacted before it is cut.
func tail(s string, n int, hide sessions.Redactor) string {
	if len(s) > n {
		s = hide.Redact(s)
	}
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && s[0]&0xC0 == 0x80 {
		s = s[1:]
	}
	return s
}
