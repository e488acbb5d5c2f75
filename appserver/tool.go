package appserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// Names of tools in events.
const (
	toolCommand    = "command"
	toolFileChange = "file_change"
	toolMCP        = "mcp"
)

// toolNames gives the item types of 0.171.0 their names; another type is called as Codex calls it.
var toolNames = map[string]string{
	"commandExecution": toolCommand, "fileChange": toolFileChange, "mcpToolCall": toolMCP, "dynamicToolCall": "dynamic",
	"collabAgentToolCall": "agent", "subAgentActivity": "agent", "webSearch": "search", "imageView": "image_view",
	"imageGeneration": "image_generation", "sleep": "sleep", "enteredReviewMode": "review",
	"contextCompaction": "compaction", "functionCallOutput": "function",
}

// wireTool is the part of an item that tools share.
type wireTool struct {
	Status    string       `json:"status"` // inProgress, completed, failed, declined, interrupted
	Command   string       `json:"command"`
	Output    *string      `json:"aggregatedOutput"`
	ExitCode  *int         `json:"exitCode"`
	Changes   []fileChange `json:"changes"`
	Server    string       `json:"server"`
	Tool      string       `json:"tool"`
	Namespace string       `json:"namespace"`
	Query     string       `json:"query"`
	Path      string       `json:"path"`
	Name      string       `json:"name"`
	Prompt    string       `json:"prompt"`
	Success   *bool        `json:"success"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

var toolStatus = map[string]string{
	"inProgress": "in_progress", "completed": "completed", "failed": "failed", "declined": "declined",
	"interrupted": "cancelled",
}

// tool is the item as a tool call; status is for types that have none.
func (it *wireItem) tool(raw json.RawMessage, status string, hide sessions.Redactor) *sessions.Tool {
	t := &sessions.Tool{Name: toolNames[it.Type], Status: status, Title: it.title(), Exit: it.ExitCode, Detail: detailOf(raw)}
	if t.Name == "" {
		t.Name = it.Type
	}
	if s, ok := toolStatus[it.Status]; ok {
		t.Status = s
	}
	if it.Success != nil && !*it.Success {
		t.Status = "failed"
	}
	if it.Output != nil {
		t.Output = clip(*it.Output, hide)
	}
	switch {
	case it.Error != nil:
		t.Output = clip(it.Error.Message, hide)
	case it.Changes != nil:
		t.Paths = paths(it.Changes)
	case it.Path != "":
		t.Paths = []string{it.Path}
	}
	return t
}

func (it *wireItem) title() string {
	switch it.Type {
	case "commandExecution":
		return it.Command
	case "fileChange":
		return strings.Join(paths(it.Changes), ", ")
	case "mcpToolCall":
		return it.Server + "." + it.Tool
	case "dynamicToolCall":
		return strings.TrimPrefix(it.Namespace+"."+it.Tool, ".")
	case "collabAgentToolCall":
		return strings.TrimSpace(it.Tool + ": " + it.Prompt)
	case "subAgentActivity":
		return strings.TrimSpace(it.SubKind + " " + it.AgentPath)
	case "webSearch":
		return it.Query
	case "imageView":
		return it.Path
	case "enteredReviewMode":
		return it.Review
	}
	return it.Name
}

func paths(changes []fileChange) []string {
	var out []string
	for _, c := range changes {
		out = append(out, c.Path)
		if c.Kind.MovePath != "" {
			out = append(out, c.Kind.MovePath)
		}
	}
	return out
}

// maxText is the most of one output, diff or detail that an event carries; Codex itself keeps up to 1 MiB of a
// command's output.
const maxText = 64 << 10

// clip keeps the beginning and the end of a long text, which is redacted before.
func clip(s string, hide sessions.Redactor) string {
	if len(s) > maxText {
		s = hide.Redact(s)
	}
	if len(s) <= maxText {
		return s
	}
	const half = maxText/2 - 64
	head, tail := s[:half], s[len(s)-half:]
	for len(head) > 0 && !utf8.RuneStart(s[len(head)]) {
		head = head[:len(head)-1]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head + fmt.Sprintf("\n[... %d bytes left out ...]\n", len(s)-len(head)-len(tail)) + tail
}

// detailOf is an item as Codex has it, without the output, which has its own field.
func detailOf(raw json.RawMessage) json.RawMessage {
	rest := wire.Without(raw, "aggregatedOutput", "startedAtMs", "completedAtMs") // the event has its own time
	if len(rest) <= maxText {
		return rest
	}
	var members map[string]json.RawMessage
	if decode(rest, &members) != nil {
		return nil
	}
	total := 0
	for name, value := range members {
		total += len(name) + len(value)
	}
	for total > maxText { // the largest goes, by name
		largest := ""
		for name, value := range members {
			if largest == "" || len(value) > len(members[largest]) {
				largest = name
			}
		}
		left := fmt.Appendf(nil, `{"left_out_bytes":%d}`, len(members[largest]))
		if len(left) >= len(members[largest]) {
			return nil // many small members: nothing that an event is for
		}
		total -= len(members[largest]) - len(left)
		members[largest] = left
	}
	return detail(members)
}

func detail(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil || len(raw) > 2*maxText {
		return nil
	}
	return raw
}

// diffs is the changes as a person reads them.
func diffs(changes []fileChange, hide sessions.Redactor) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%s %s", c.Kind.Type, c.Path)
		if c.Kind.MovePath != "" {
			fmt.Fprintf(&b, " -> %s", c.Kind.MovePath)
		}
		b.WriteByte('\n')
		b.WriteString(strings.TrimRight(c.Diff, "\n"))
		b.WriteByte('\n')
	}
	return clip(b.String(), hide)
}
