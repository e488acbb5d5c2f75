package acp

import (
	"encoding/json"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// Kinds of session/update.
const (
	updateText     = "agent_message_chunk"
	updateThought  = "agent_thought_chunk"
	updateUser     = "user_message_chunk"
	updateTool     = "tool_call"
	updateToolMore = "tool_call_update"
	updatePlan     = "plan"
	updateUsage    = "usage_update"
	updateMode     = "current_mode_update"
	updateOptions  = "config_option_update"
	updateCommands = "available_commands_update"
	updateInfo     = "session_info_update"
)

// update handles one session/update. Updates are many and small: what all have in common is taken out of the message,
// which the link has checked, without a decoding of the whole.
func (a *Agent) update(params json.RawMessage) {
	raw := wire.Member(params, "update")
	kind, message, tool := wire.String(raw, "sessionUpdate"), wire.String(raw, "messageId"), wire.String(raw, "toolCallId")
	if kind == "" {
		a.unknown("update", "without a kind", params)
		return
	}
	agent := wire.String(params, "sessionId")
	if agent == a.session || agent == "" || a.session == "" {
		agent = ""
	}
	switch kind {
	case updateMode, updateOptions:
		if agent == "" {
			a.reportedSetting(kind, raw)
		}
		return
	case updateCommands, updateInfo:
		return // at any time, also after a turn; nothing of ours depends on them
	case updateText, updateThought, updateUser, updateTool, updateToolMore, updatePlan, updateUsage:
	default:
		a.unknown("update", kind, raw)
		return
	}
	if a.history(agent, message, tool, kind) {
		if a.replay && a.retelling != nil && agent == "" {
			a.retelling.take(kind, message, raw)
		}
		return
	}
	f := a.place(agent, kind, message, tool)
	switch kind {
	case updateUser: // the prompt's echo
		if message != "" {
			f.ids[message] = true
		}
	case updateText:
		f.chunk(sessions.EventText, message, readBlock(raw), raw)
	case updateThought:
		f.chunk(sessions.EventReasoning, message, readBlock(raw), raw)
	case updatePlan:
		f.plan(raw)
	case updateUsage:
		f.usage(raw)
	case updateTool, updateToolMore:
		var c toolCall
		if decode(raw, &c) != nil || c.ID == "" {
			a.unknown("update", kind+" without toolCallId", raw)
			return
		}
		f.call(c, raw)
	}
}

// readBlock is the content of a chunk.
func readBlock(chunk json.RawMessage) (b block) {
	content := wire.Member(chunk, "content")
	if b.Type = wire.String(content, "type"); b.Type == "text" {
		b.Text = wire.String(content, "text")
		return b
	}
	_ = decode(content, &b) // a shape of its own is no text
	return b
}

// history swallows what belongs to the past of a resumed conversation: everything before the answer to session/load,
// and what straggles in before the first prompt. Its ids are kept, so that it is known again later. It is never
// evidence: zed's codex-acp replays rejected and cancelled tools as completed (0.16.0).
func (a *Agent) history(agent, message, tool, kind string) bool {
	if !a.replay && (!a.resumed || a.turns > 0 || kind == updateUsage) {
		return false
	}
	if agent == "" {
		a.past.note(message, tool, "")
	}
	return true
}

// place finds the feed that an update belongs to, and takes it for acceptance of the running prompt where it can be of
// no other.
func (a *Agent) place(agent, kind, message, tool string) *feed {
	if a.turn == nil {
		if command, ok := a.past.owner(message, tool); ok && agent == "" {
			return a.revive(command, tool)
		}
		return a.lateFeed(agent)
	}
	if agent != "" {
		return a.feedOf(agent)
	}
	f := a.feedOf("")
	switch kind {
	case updateUsage:
		return f
	case updateToolMore: // a tool_call announces anew, and is this turn's, also where its id was used before
		if command, old := a.past.tools.get(tool); old && f.tools[tool] == nil {
			return a.revive(command.command, tool)
		}
	case updateText, updateThought, updateUser:
		if command, old := a.past.messages.get(message); old && message != "" && !f.ids[message] {
			return a.revive(command, "")
		}
	}
	a.accept(kind)
	return f
}

// reportedSetting takes a change of mode or options that the agent reports.
func (a *Agent) reportedSetting(kind string, raw json.RawMessage) {
	var u struct {
		Mode    string          `json:"currentModeId"`
		Options json.RawMessage `json:"configOptions"`
	}
	if decode(raw, &u) != nil {
		return
	}
	if kind == updateMode {
		a.settings.switched(u.Mode)
	} else if !a.settings.take(u.Options) {
		a.unknown("update", kind+" without options", raw)
		return
	}
	a.settingsReported()
}
