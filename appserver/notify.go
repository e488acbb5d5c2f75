package appserver

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// note is what becomes of one notification: handled by a function, or ignored for a reason.
type note struct {
	handle  func(*Agent, json.RawMessage) error
	ignored string
}

// notes lists every notification of the 0.171.0 schema, so that none is dropped without somebody having said so.
func notes() map[string]note {
	on := func(f func(*Agent, json.RawMessage) error) note { return note{handle: f} }
	m := map[string]note{
		"turn/started":                              on((*Agent).turnStarted),
		"turn/completed":                            on((*Agent).turnCompleted),
		"turn/plan/updated":                         on((*Agent).planUpdated),
		"item/started":                              on((*Agent).itemStarted),
		"item/completed":                            on((*Agent).itemCompleted),
		"item/agentMessage/delta":                   on(streamed(sessions.EventText)),
		"item/plan/delta":                           on(streamed(sessions.EventPlan)),
		"item/reasoning/summaryTextDelta":           on(streamed(sessions.EventReasoning)),
		"item/reasoning/textDelta":                  on(streamed(sessions.EventReasoning)),
		"item/reasoning/summaryPartAdded":           on((*Agent).reasoningPart),
		"item/commandExecution/outputDelta":         on((*Agent).toolOutput),
		"item/commandExecution/terminalInteraction": on((*Agent).toolOutput),
		"item/fileChange/outputDelta":               on((*Agent).toolOutput),
		"item/fileChange/patchUpdated":              on((*Agent).toolOutput),
		"item/mcpToolCall/progress":                 on((*Agent).toolOutput),
		"serverRequest/resolved":                    on((*Agent).resolved),
		"error":                                     on((*Agent).failed),
		"thread/settings/updated":                   on((*Agent).settingsUpdated),
		"thread/tokenUsage/updated":                 on((*Agent).tokenUsage),
		"thread/goal/updated":                       on((*Agent).goalUpdated),
		"thread/goal/cleared":                       on((*Agent).goalCleared),
		"thread/closed":                             on(threadLost("Codex unloaded the thread")),
		"thread/deleted":                            on(threadLost("the thread was deleted")),
		"thread/archived":                           on(threadLost("the thread was archived")),
		"thread/reverted":                           on(warning("the thread was taken back to an earlier turn")),
		"model/rerouted":                            on((*Agent).rerouted),
		"model/verification":                        on(warning("the provider asks for a verification of this account")),
		"model/safetyBuffering/updated":             on(warning("the provider holds the answer back for a safety check")),
		"turn/moderationMetadata":                   on(warning("the provider's moderation looked at this turn")),
		"warning":                                   on((*Agent).warning),
		"guardianWarning":                           on(warning("")),
		"configWarning":                             on(warning("")),
		"item/autoApprovalReview/started":           on(warning("an automatic reviewer looks at an approval in your place")),
		"item/autoApprovalReview/completed":         on(warning("an automatic reviewer decided an approval in your place")),
		"autoApprovalReview/strictReviewRequired":   on(warning("approvals go to an automatic reviewer")),
		"hook/completed":                            on((*Agent).hookCompleted),
		"mcpServer/startupStatus/updated":           on((*Agent).serverStatus),
		"modelProvider/authRecoveryStarted":         on(warning("")),
		"thread/environment/disconnected":           on(warning("the link to the thread's execution environment broke")),
		"account/updated":                           on((*Agent).accountUpdated),
	}
	for why, methods := range map[string]string{
		"the items say the same":                                           "turn/diff/updated thread/compacted hook/started",
		"turns and items tell it":                                          "thread/status/changed thread/started",
		"a turn that the queue begins tells":                               "thread/queue/changed",
		"a limit that is reached fails the turn with usageLimitExceeded":   "account/rateLimits/updated",
		"what it is about is told otherwise, or not of a person's concern": "modelProvider/authRecoveryCompleted thread/environment/connected deprecationNotice",
		"titles and lists of a user interface that is not ours":            "thread/name/updated thread/unarchived thread/readState/changed thread/section/changed thread/attachment/updated thread/prediction/updated thread/project/updated project/changed skills/changed app/list/updated remoteControl/status/changed",
		"logins are never begun here":                                      "account/login/completed account/gatewayOAuth/changed mcpServer/oauthLogin/completed",
		"side tools that are never called here":                            "command/exec/outputDelta process/outputDelta process/exited fs/changed fuzzyFileSearch/sessionUpdated fuzzyFileSearch/sessionCompleted thread/search/partial externalAgentConfig/import/progress externalAgentConfig/import/completed mcpServer/event/stream/notification",
		"Windows":                                                          "windows/worldWritableWarning windowsSandbox/setupCompleted",
		"voice is never begun here":                                        "thread/realtime/started thread/realtime/itemAdded thread/realtime/item/started thread/realtime/item/transcript/delta thread/realtime/item/completed thread/realtime/transcript/delta thread/realtime/transcript/done thread/realtime/outputAudio/delta thread/realtime/sdp thread/realtime/error thread/realtime/closed",
		"raw events of the provider, off unless asked for":                 "rawResponseItem/completed rawResponse/completed",
	} {
		for _, method := range strings.Fields(methods) {
			m[method] = note{ignored: why}
		}
	}
	return m
}

// notified takes a notification of Codex.
func (a *Agent) notified(m wire.Message) {
	n, known := a.notes[m.Method]
	switch {
	case !known:
		a.o.Logger.Info().Str("method", m.Method).Msg("unknown notification of Codex")
	case n.handle != nil:
		if err := n.handle(a, m.Params); err != nil {
			a.warn(sessions.Event{Code: sessions.CodeAgentProtocol, Raw: m.Params}, "Codex's notification %s cannot be read: %s", m.Method, unreadable(err))
		}
	}
}

// warning surfaces a notification as one. Without a text of ours it has one of its own.
func warning(text string) func(*Agent, json.RawMessage) error {
	return func(a *Agent, raw json.RawMessage) error {
		var n struct {
			ThreadID string `json:"threadId"`
			TurnID   string `json:"turnId"`
			Message  string `json:"message"`
			Summary  string `json:"summary"`
			Details  string `json:"details"`
		}
		if err := decode(raw, &n); err != nil {
			return err
		}
		e := a.place(n.ThreadID, n.TurnID).event(sessions.EventWarning, "")
		e.Raw = raw
		said := lines(n.Message, n.Summary, n.Details)
		if text != "" {
			said = text + prefixed(": ", said)
		}
		a.warn(e, "%s", said)
		return nil
	}
}

// warning takes warning. One of them is about the model: Codex does not know the one it has confirmed.
func (a *Agent) warning(raw json.RawMessage) error {
	var n struct {
		ThreadID string `json:"threadId"`
		Message  string `json:"message"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	if err := warning("")(a, raw); err != nil {
		return err
	}
	if m := unknownModel(n.Message); m != "" && m == a.sel.settings.Model && a.sel.asked.Model != "" && a.isRoot(n.ThreadID) {
		a.modelMissing(a.turn)
	}
	return nil
}

// threadLost: our thread cannot take another prompt.
func threadLost(what string) func(*Agent, json.RawMessage) error {
	return func(a *Agent, raw json.RawMessage) error {
		var n threadID
		if err := decode(raw, &n); err != nil {
			return err
		}
		if n.ThreadID != a.root || a.gone != nil {
			return nil
		}
		a.gone = sessions.Errorf(sessions.CodeNotRunning, "%s", what).Do("resume the session")
		a.warn(sessions.Event{Code: a.gone.Code, Raw: raw}, "%s; no more prompts can be sent", what)
		return nil
	}
}

// planUpdated takes turn/plan/updated: the checklist of the agent's update_plan tool, whole each time.
func (a *Agent) planUpdated(raw json.RawMessage) error {
	var n struct {
		ThreadID    string          `json:"threadId"`
		TurnID      string          `json:"turnId"`
		Explanation string          `json:"explanation"`
		Plan        json.RawMessage `json:"plan"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	e := a.place(n.ThreadID, n.TurnID).event(sessions.EventPlan, "")
	e.Text = n.Explanation
	addData(&e, "steps", n.Plan)
	a.emit(e)
	return nil
}

func (a *Agent) hookCompleted(raw json.RawMessage) error {
	var n struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
		Run      struct {
			Event   string `json:"eventName"`
			Path    string `json:"sourcePath"`
			Status  string `json:"status"`
			Message string `json:"statusMessage"`
		} `json:"run"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	if n.Run.Status == "completed" {
		return nil
	}
	e := a.place(n.ThreadID, n.TurnID).event(sessions.EventWarning, "")
	e.Raw = raw
	a.warn(e, "hook %s of %s: %s%s", n.Run.Event, n.Run.Path, n.Run.Status, prefixed(", ", n.Run.Message))
	return nil
}

// serverStatus tells about MCP servers that do not start, once each: every change of settings starts them again.
func (a *Agent) serverStatus(raw json.RawMessage) error {
	var n struct {
		Name   string `json:"name"`
		Status string `json:"status"`
		Error  string `json:"error"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	once := fmt.Sprintf("mcp %s: %s", n.Name, n.Error)
	if n.Status != "failed" || a.warned[once] {
		return nil
	}
	a.warned[once] = true
	a.warn(sessions.Event{Raw: raw, Data: map[string]any{"server": n.Name}}, "MCP server %s did not start: %s", n.Name, n.Error)
	return nil
}

func (a *Agent) accountUpdated(raw json.RawMessage) error {
	var n struct {
		AuthMode *string `json:"authMode"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	if n.AuthMode == nil {
		a.warn(sessions.Event{Code: sessions.CodeNotLoggedIn, Raw: raw}, "Codex is logged out")
	}
	return nil
}
