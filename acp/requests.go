package acp

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// requests are what the agent waits for.
type requests struct {
	made int
	open []*pending // oldest first
}

// pending is one request that waits for an answer.
type pending struct {
	handle    string
	id        wire.ID
	command   string
	tool      *tool // that it is about, where there is one
	cancelled any   // the result that says that nobody answers
	// answer makes the result of an answer, and tells what it decided. Its error is an *sessions.Error.
	answer func(sessions.Answer) (result any, d decision, err error)
}

// decision is what an answer means for the turn.
type decision uint8

const (
	decided decision = iota
	denied
	approvedMode // a plan, or the leaving of a mode
)

// ask puts a request to the user. The rest of its event is the caller's.
func (a *Agent) ask(m wire.Message, p *pending, kind sessions.EventKind, r sessions.Request) {
	if err := r.CheckIDs(); err != nil {
		a.declineBroken(m, p.cancelled, sessions.AsError(err).Message)
		return
	}
	a.requests.made++
	p.handle, p.id, p.command = strconv.Itoa(a.requests.made), m.ID, a.turn.command
	a.requests.open = append(a.requests.open, p)
	r.Handle, r.State, r.AskedAt = p.handle, sessions.RequestPending, time.Now().UTC()
	if r.Command = p.command; r.Kind == "" {
		r.Kind = sessions.RequestApproval
		if kind == sessions.EventQuestionRequested {
			r.Kind = sessions.RequestQuestion
		}
	}
	e := sessions.Event{Kind: kind, Command: p.command, Request: &r, Raw: kept(m.Params)}
	if p.tool != nil {
		e.Item = p.tool.id
	}
	a.emit(e)
}

// answer is Answer, on the loop. The first answer closes the request, whatever becomes of its bytes.
func (a *Agent) answer(ctx context.Context, answer sessions.Answer) error {
	i := slices.IndexFunc(a.requests.open, func(p *pending) bool { return p.handle == answer.Handle })
	if i < 0 {
		return notWritten(noLonger(answer.Handle))
	}
	p := a.requests.open[i]
	result, d, err := p.answer(answer)
	if err != nil {
		return notWritten(err)
	}
	a.requests.open = slices.Delete(a.requests.open, i, i+1)
	if a.turn != nil {
		a.turn.declined = a.turn.declined || d == denied
		a.turn.approved = a.turn.approved || d == approvedMode
	}
	if p.tool != nil && d == denied {
		p.tool.declined = true
	}
	return a.conn.Reply(context.WithoutCancel(ctx), p.id, result)
}

func noLonger(handle string) error {
	return sessions.Errorf(sessions.CodeWithdrawn, "the agent no longer waits for an answer to request %s", handle).
		Do("see the session's open requests")
}

// withdrawAll answers everything that is open with cancelled. First all answers, then the events: the agent may be
// waiting, and an event may have to wait for the bridge.
func (a *Agent) withdrawAll(why string) {
	open := a.requests.open
	a.requests.open = nil
	for _, p := range open {
		a.reply(p.id, p.cancelled)
	}
	for _, p := range open {
		a.withdrawn(p, why)
	}
}

// withdrawnByAgent handles $/cancel_request: the agent no longer wants an answer. It gets one all the same, an error,
// because it sent a request.
func (a *Agent) withdrawnByAgent(params json.RawMessage) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	_ = decode(params, &p)
	i := slices.IndexFunc(a.requests.open, func(q *pending) bool { return q.id.String() == string(p.ID) })
	switch {
	case i >= 0:
	case a.withdrawWait(string(p.ID)):
		return
	default:
		return // it crossed our answer
	}
	q := a.requests.open[i]
	a.requests.open = slices.Delete(a.requests.open, i, i+1)
	a.replyError(q.id, codeCancelled, "Request cancelled")
	a.withdrawn(q, "the agent withdrew it")
}

func (a *Agent) withdrawn(p *pending, why string) {
	a.emit(sessions.Event{Kind: sessions.EventRequestResolved, Command: p.command,
		Request: &sessions.Request{Handle: p.handle, State: sessions.RequestWithdrawn, Reason: why}})
}

// declineBroken answers a request of a known kind that nobody could answer as it stands.
func (a *Agent) declineBroken(m wire.Message, result any, why string) {
	a.reply(m.ID, result)
	a.warn("a request of the agent was declined: "+why, map[string]any{"request": m.Method}, m.Params)
}

func invalid(format string, args ...any) *sessions.Error {
	return sessions.Errorf(sessions.CodeInvalidParams, format, args...)
}
