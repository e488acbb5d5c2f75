package acp

import (
	"context"
	"encoding/json"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// dispatch handles one message of the agent.
func (a *Agent) dispatch(m wire.Message) {
	switch m.Kind {
	case wire.Response:
		a.response(m)
	case wire.Request:
		a.request(m)
	case wire.Notification:
		a.notification(m)
	}
}

func (a *Agent) response(m wire.Message) {
	if a.turn != nil && m.Call == a.turn.call {
		a.promptAnswered(m)
		return
	}
	if _, ok := a.waiting[m.Call]; ok {
		a.waiting[m.Call] = &m
		return
	}
	a.log.Debug().Str("method", m.Method).Msg("answer to a call that nobody waits for")
}

func (a *Agent) notification(m wire.Message) {
	switch m.Method {
	case methodUpdate:
		a.update(m.Params)
	case methodCancelReq:
		a.withdrawnByAgent(m.Params)
	case methodElicited: // the user finished at the URL; the answer to the request itself was given before
	case cursorPlan:
		if !a.replay {
			a.cursorPlanned(m.Params)
		}
	case cursorTodos, cursorTask, cursorImage:
		if !a.replay {
			a.cursorNote(m)
		}
	default:
		a.unknown("notification", m.Method, m.Params)
	}
}

// unknown reports a kind of message that is not understood, once, and lets everything go on: agents send notifications
// of their own (qwen 0.24.4, codex-acp 2.6.0), and kinds of update are added without a new version.
func (a *Agent) unknown(what, name string, raw json.RawMessage) {
	name = told(name, 200, a.o.Redact)
	if a.replay || a.reported[what+" "+name] {
		return
	}
	if len(a.reported) < 100 { // an agent that makes up names must not fill the memory
		a.reported[what+" "+name] = true
	}
	a.warn(what+" of the agent that is not understood: "+name, map[string]any{what: name}, raw)
}

// request handles a request of the agent, which always gets an answer, at once or by Answer.
func (a *Agent) request(m wire.Message) {
	switch m.Method {
	case methodPermission:
		a.permission(m)
	case methodElicit:
		a.elicit(m)
	case cursorAsk:
		a.cursorAsked(m)
	case cursorPlan:
		a.cursorPlanAsked(m)
	case cursorTodos, cursorTask, cursorImage:
		// Documented as notifications, seen with an id (2026.06.03). {} lets the turn go on.
		a.reply(m.ID, struct{}{})
		if !a.replay {
			a.cursorNote(m)
		}
	case methodReadFile, methodWriteFile, methodTermCreate, methodTermOutput, methodTermWait, methodTermKill, methodTermRelease:
		a.serve(m)
	case "":
		a.replyError(m.ID, wire.CodeInvalidRequest, "the method is no string")
		a.warn("the agent sent a request whose method is no string", map[string]any{"id": m.ID.String()}, m.Params)
	default:
		a.notOffered(m)
	}
}

// serve handles the requests that only an agent makes that was told of them.
func (a *Agent) serve(m wire.Message) {
	offered := a.offersTerminals()
	if m.Method == methodReadFile || m.Method == methodWriteFile {
		offered = a.files.space != nil
	}
	switch {
	case !offered:
		a.notOffered(m)
	case m.Method == methodReadFile:
		a.readFile(m)
	case m.Method == methodWriteFile:
		a.writeFile(m)
	case m.Method == methodTermCreate:
		a.createTerminal(m)
	default:
		a.terminalRequest(m)
	}
}

func (a *Agent) notOffered(m wire.Message) {
	a.replyError(m.ID, wire.CodeMethodNotFound, "Method not found: "+m.Method)
	a.warn("the agent asked for something that is not offered: "+m.Method, map[string]any{"request": m.Method}, m.Params)
}

// reply answers a request that is settled at once. A failed write is the link's trouble: the agent no longer listens,
// and the end of the link tells everybody.
func (a *Agent) reply(id wire.ID, result any) {
	if err := a.conn.Reply(context.Background(), id, result); err != nil {
		a.log.Debug().Err(err).Str("id", id.String()).Msg("answer")
	}
}

func (a *Agent) replyError(id wire.ID, code int64, message string) {
	if err := a.conn.ReplyError(context.Background(), id, code, message); err != nil {
		a.log.Debug().Err(err).Str("id", id.String()).Msg("answer")
	}
}

// mayAsk tells whether a request of the agent may be put to a user, and answers it where it may not: with cancelled,
// the kind's own way to say that nobody answers. tool is the tool call that it is about, "" when it names none.
func (a *Agent) mayAsk(m wire.Message, session, tool string, cancelled any) bool {
	refuse := func(why string) bool {
		a.reply(m.ID, cancelled)
		a.emit(sessions.Event{Kind: sessions.EventWarning, Command: a.last, Late: true, Raw: kept(m.Params),
			Text: "a request of the agent was declined: " + why, Data: map[string]any{"request": m.Method}})
		return false
	}
	switch {
	case a.phase == phaseOpening: // replayed, or of a conversation that nobody has yet
		a.reply(m.ID, cancelled)
		return false
	case session != "" && session != a.session:
		// Sub-agents of Cursor speak under ids of their own (2026.10.22).
		a.replyError(m.ID, wire.CodeInvalidParams, "unknown session "+session)
		a.warn("a request of the agent names a session that is not this one: "+session,
			map[string]any{"request": m.Method, "session": session}, m.Params)
		return false
	case a.turn == nil:
		return refuse("no turn is running")
	case a.turn.cancelled:
		a.reply(m.ID, cancelled)
		return false
	}
	// Some agents count their tools anew in each turn. What names a tool of an earlier one is the running turn's all the
	// same; but where that tool never ended it may be about that one, and proves nothing of the prompt.
	if old, known := a.past.tools.get(tool); !known || old.ended || !a.turn.ofPast(a, tool) {
		a.accept(m.Method)
	}
	return true
}
