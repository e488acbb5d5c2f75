package appserver

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// request is a request of Codex that waits for an answer. It is in Agent.requests from the moment it comes until its
// answer is written, and it never leaves without one.
type request struct {
	number int // order of arrival
	id     wire.ID
	thread string
	turn   string // "": it belongs to none
	shown  sessions.Request
	place  place
	// choices are the answers by option id; answer makes one of what an option cannot hold, nil where there is none.
	choices map[string]any
	answer  func(sessions.Answer) (any, error)
	decline any // "no", for a caller who chose nothing
	cancel  any // the answer when the turn ends instead
	// outlives: a question that does not hold up its turn may be answered after it.
	outlives bool
}

// requestHead is what the parameters of all requests share.
type requestHead struct {
	ThreadID  string `json:"threadId"`
	TurnID    string `json:"turnId"`
	ItemID    string `json:"itemId"`
	StartedAt int64  `json:"startedAtMs"`
	Reason    string `json:"reason"`
	Cwd       string `json:"cwd"`
}

// asker reads the parameters of one kind of request into r. An error declines the request, with its text as the reason.
type asker func(a *Agent, r *request, head requestHead, raw json.RawMessage) error

// askerFor tells how a request of 0.171.0 is asked that a person can answer, nil for the others. Those (tools of ours, tokens and attestations that
// we never offered, approvals of the protocol before threads) get an error, like everything unknown.
func askerFor(method string) asker {
	switch method {
	case "item/commandExecution/requestApproval":
		return askCommand
	case "item/fileChange/requestApproval":
		return askFileChange
	case "item/permissions/requestApproval":
		return askPermissions
	case "item/tool/requestUserInput":
		return askUser
	case "mcpServer/elicitation/request":
		return askElicitation
	}
	return nil
}

// requested takes a request of Codex.
func (a *Agent) requested(m wire.Message) {
	var head requestHead
	ask := askerFor(m.Method)
	if ask == nil {
		_ = decode(m.Params, &head) // for the event; a request that has none of it is as unknown
		a.refuse(m, head, wire.CodeMethodNotFound, "Baton does not know the request "+strconv.Quote(m.Method))
		return
	}
	a.asked++
	r := &request{number: a.asked, id: m.ID, shown: sessions.Request{Handle: "r" + strconv.Itoa(a.asked)}}
	err := decode(m.Params, &head)
	if err == nil {
		r.thread, r.turn, r.place = head.ThreadID, head.TurnID, a.place(head.ThreadID, head.TurnID)
		r.shown.AskedAt = millis(head.StartedAt)
		r.shown.Command, r.shown.Agent = r.place.command, r.place.agent
		err = ask(a, r, head, m.Params)
	}
	if err == nil {
		err = r.shown.CheckIDs()
	}
	if err != nil {
		a.refuse(m, head, wire.CodeInvalidParams, "Baton cannot show "+m.Method+": "+unreadable(err))
		return
	}
	a.requests[r.shown.Handle] = r
	if r.place.cancelled || r.place.late {
		a.closeRequest(r, "")
		a.warn(r.place.event(sessions.EventWarning, head.ItemID), "%s was declined, because its turn is over or being cancelled", m.Method)
		return
	}
	kind := sessions.EventApprovalRequested
	if r.shown.Kind == sessions.RequestQuestion {
		kind = sessions.EventQuestionRequested
	}
	e := r.place.event(kind, head.ItemID)
	e.Request, e.Raw = &r.shown, m.Params
	a.emit(e)
}

// refuse answers what nobody can be asked. For every known request Codex takes an error for a "no".
func (a *Agent) refuse(m wire.Message, head requestHead, code int64, why string) {
	if err := a.conn.ReplyError(a.life, m.ID, code, why); err != nil {
		a.o.Logger.Debug().Err(err).Msg("an error answer was not written")
	}
	e := a.place(head.ThreadID, head.TurnID).event(sessions.EventWarning, head.ItemID)
	e.Raw = m.Params
	addData(&e, "method", m.Method)
	a.warn(e, "Codex's request was declined: %s", why)
}

// Answer writes the answer of an open request.
func (a *Agent) Answer(ctx context.Context, ans sessions.Answer) error {
	var sent error
	err := a.do(ctx, func() { sent = a.reply(ctx, ans) })
	if err != nil {
		return notWritten(err)
	}
	return sent
}

func (a *Agent) reply(ctx context.Context, ans sessions.Answer) error {
	r := a.requests[ans.Handle]
	if r == nil {
		return notWritten(sessions.Errorf(sessions.CodeWithdrawn, "request %s is not open: Codex withdrew it, or it was answered", ans.Handle).
			Do("read the session's events to see what became of it"))
	}
	result, err := r.result(ans)
	if err != nil {
		return notWritten(err)
	}
	if err := a.conn.Reply(ctx, r.id, result); err != nil {
		return a.writeFailed(ctx, err) // not written: it is still open; broken: the link has ended
	}
	delete(a.requests, ans.Handle)
	return nil
}

func (r *request) result(ans sessions.Answer) (any, error) {
	if choice, ok := r.choices[ans.OptionID]; ok && ans.OptionID != "" {
		return choice, nil
	}
	switch {
	case ans.OptionID != "":
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "option %q is not offered", ans.OptionID).Do("choose an option of the request")
	case ans.Decline:
		return r.decline, nil
	case r.answer != nil:
		return r.answer(ans)
	}
	return nil, sessions.Errorf(sessions.CodeInvalidParams, "the answer chooses no option").Do("choose an option of the request, or decline it")
}

// offer adds an option and what it answers.
func (r *request) offer(id string, kind sessions.OptionKind, answer any, label string) {
	if r.choices == nil {
		r.choices = map[string]any{}
	}
	r.choices[id] = answer
	r.shown.Options = append(r.shown.Options, sessions.Option{OptionID: id, Kind: kind, Label: label})
}

// resolved takes serverRequest/resolved: Codex no longer waits. After our own answer that is an echo; after the end of
// a turn it comes behind turn/completed.
func (a *Agent) resolved(raw json.RawMessage) error {
	var n struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	for _, r := range a.requests {
		if r.id.String() == string(n.RequestID) {
			delete(a.requests, r.shown.Handle)
			a.withdrawn(r, "Codex withdrew it")
			return nil
		}
	}
	return nil
}

func (a *Agent) withdrawn(r *request, why string) {
	e := r.place.event(sessions.EventRequestResolved, "")
	e.Request = &sessions.Request{Handle: r.shown.Handle, Kind: r.shown.Kind, State: sessions.RequestWithdrawn, Reason: why}
	a.emit(e)
}

// closeRequest answers a request on behalf of a turn that ends. Codex has dropped it by then, or is about to, and ignores the
// answer; that is cheaper than a request without one.
func (a *Agent) closeRequest(r *request, why string) {
	delete(a.requests, r.shown.Handle)
	if err := a.conn.Reply(a.life, r.id, r.cancel); err != nil {
		a.o.Logger.Debug().Err(err).Msg("the answer of a withdrawn request was not written")
	}
	if why != "" {
		a.withdrawn(r, why)
	}
}

// withdrawTurn closes what a turn has left open.
func (a *Agent) withdrawTurn(thread, turn, why string) {
	for _, r := range a.openRequests() {
		if r.turn == turn && (r.thread == thread || a.isRoot(r.thread) && a.isRoot(thread)) && !r.outlives {
			a.closeRequest(r, why)
		}
	}
}

// millis is a time of the protocol, zero for none.
func millis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (a *Agent) openRequests() []*request {
	open := make([]*request, 0, len(a.requests))
	for _, r := range a.requests {
		open = append(open, r)
	}
	slices.SortFunc(open, func(x, y *request) int { return cmp.Compare(x.number, y.number) })
	return open
}
