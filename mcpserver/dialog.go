package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/batonmcp/baton/sessions"
)

// elicitation is what a result says about a question that was put to the client's user.
type elicitation struct {
	SessionID string      `json:"session_id"`
	RequestID string      `json:"request_id"`
	State     dialogState `json:"state"`
	Note      string      `json:"note"` // what that means, and what to do
}

// dialogState is what became of a question to the user.
type dialogState string

const (
	dialogOpen      dialogState = "open"      // the user sees it and has not answered
	dialogAnswered  dialogState = "answered"  // the user decided, and the agent has the answer
	dialogDismissed dialogState = "dismissed" // the user closed it, or gave no usable answer; the request stays pending
	dialogOver      dialogState = "over"      // the request was answered or withdrawn elsewhere meanwhile
	dialogFailed    dialogState = "failed"    // the host could not ask; the request stays pending
)

var dialogNotes = map[dialogState]string{
	dialogOpen:      "your user is being asked this now: do not answer for them, call session_wait again with the cursor",
	dialogAnswered:  "your user answered, and the agent goes on",
	dialogDismissed: "your user closed the question without an answer; it stays pending and is not asked again: ask them in the conversation, then session_respond",
	dialogOver:      "the request was settled elsewhere while your user was asked",
	dialogFailed:    "your user could not be asked; the request stays pending: ask them in the conversation, then session_respond",
}

// errSettled withdraws a question to the user whose request needs no answer any more.
var errSettled = errors.New("the request needs no answer any more")

// asker is a client whose user can be asked. It remembers what was asked, so that nothing is asked twice.
type asker interface {
	server.SessionWithClientInfo
	ProtocolVersion() string
	// Ask sends a request to the client and waits for its answer.
	Ask(ctx context.Context, method string, params any) (json.RawMessage, error)
	// Spawn runs a function for as long as the client is there; false when it is gone.
	Spawn(func(context.Context)) bool
	// Dialogs are the questions that were put to its user.
	Dialogs() *dialogs
}

var _ asker = (*session)(nil)

// Ask sends a request to the client and waits for its answer.
func (s *session) Ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return s.conn.ask(ctx, method, params)
}

// Spawn runs a function for the connection; its context ends with the connection.
func (s *session) Spawn(f func(context.Context)) bool {
	return s.conn.calls.spawn(func() { f(s.conn.ctx) })
}

// Dialogs are the questions that were put to the user of the client.
func (s *session) Dialogs() *dialogs { return s.asked }

// dialogs are the questions of one client, by request id. They stay after their end: a request is asked once.
type dialogs struct {
	mu   sync.Mutex
	open map[string]*dialog
}

// dialog is one question to a user. state may be read once done is closed.
type dialog struct {
	done  chan struct{}
	state dialogState
}

// of returns the dialog of a request; fresh when it was not asked before.
func (d *dialogs) of(request string) (x *dialog, fresh bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x = d.open[request]; x != nil {
		return x, false
	}
	if d.open == nil {
		d.open = map[string]*dialog{}
	}
	x = &dialog{done: make(chan struct{})}
	d.open[request] = x
	return x, true
}

// settle records a question that was asked in another way than by a dialog of ours.
func (d *dialogs) settle(request string, state dialogState) {
	if x, fresh := d.of(request); fresh {
		x.state = state
		close(x.done)
	}
}

// ended tells whether a request was asked before, and how that ended.
func (d *dialogs) ended(request string) (dialogState, bool) {
	d.mu.Lock()
	x := d.open[request]
	d.mu.Unlock()
	if x == nil {
		return "", false
	}
	select {
	case <-x.done:
		return x.state, true
	default:
		return dialogOpen, true
	}
}

// canAsk tells in which modes the user of a client can be asked. A client that names no mode means forms (2025-06-18).
func canAsk(c mcp.ClientCapabilities) (form, url bool) {
	if c.Elicitation == nil {
		return false, false
	}
	return c.Elicitation.Form != nil || c.Elicitation.URL == nil, c.Elicitation.URL != nil
}

// ask puts the first open request of some sessions to the user, and waits for the answer as long as ctx lasts. It
// returns nil when there is nothing to ask, or nobody. The question outlives the call: the next one that meets the
// request joins it. An answer is given to the agent; everything else leaves the request as it is.
func (s *Server) ask(ctx context.Context, all []sessions.Session) *elicitation {
	client, ok := server.ClientSessionFromContext(ctx).(asker)
	if !ok || !s.elicit {
		return nil
	}
	form, url := canAsk(client.GetClientCapabilities())
	for _, who := range all {
		for i := range who.Requests {
			q := &who.Requests[i]
			f := formFor(who, q, client.ProtocolVersion(), form, url)
			if f == nil || q.State != sessions.RequestPending && q.State != "" {
				continue
			}
			if state, asked := client.Dialogs().ended(q.RequestID); asked && state != dialogOpen && state != dialogAnswered {
				if len(all) == 1 && len(who.Requests) == 1 {
					return told(who, q, state)
				}
				continue
			}
			d, fresh := client.Dialogs().of(q.RequestID)
			if fresh && !client.Spawn(func(life context.Context) {
				s.converse(withStream(life, streamOf(ctx)), client, s.caller(ctx), who, q, f, d)
			}) {
				return nil
			}
			select {
			case <-d.done:
				return told(who, q, d.state)
			case <-ctx.Done():
				return told(who, q, dialogOpen)
			}
		}
	}
	return nil
}

func told(who sessions.Session, q *sessions.Request, state dialogState) *elicitation {
	return &elicitation{SessionID: who.SessionID, RequestID: q.RequestID, State: state, Note: dialogNotes[state]}
}

// converse asks one question and gives its answer to the agent. It withdraws the question when the request is settled
// by somebody else.
func (s *Server) converse(life context.Context, client asker, caller sessions.Caller, who sessions.Session, q *sessions.Request, f *form, d *dialog) {
	defer close(d.done)
	d.state = dialogFailed
	ctx, end := context.WithCancelCause(life)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx, caller, who, q.RequestID, end)
	}()
	defer func() {
		end(nil)
		<-watched
	}()
	raw, err := client.Ask(ctx, string(mcp.MethodElicitationCreate), f.params)
	if errors.Is(context.Cause(ctx), errSettled) {
		d.state = dialogOver
		return
	}
	if err != nil {
		s.log.Debug().Err(err).Str("request", q.RequestID).Msg("the user could not be asked")
		return
	}
	d.state = s.settle(context.WithoutCancel(ctx), caller, who, q, f, raw)
}

// settle gives an answer of the user to the agent, when there is one.
func (s *Server) settle(ctx context.Context, caller sessions.Caller, who sessions.Session, q *sessions.Request, f *form, raw json.RawMessage) dialogState {
	answer, ok := f.read(raw)
	if !ok {
		return dialogDismissed
	}
	ctx, cancel := context.WithTimeout(ctx, slice)
	defer cancel()
	answer.SessionID, answer.RequestID = who.SessionID, q.RequestID
	if _, err := s.api.Respond(ctx, caller, answer); err != nil {
		s.log.Debug().Err(err).Str("request", q.RequestID).Msg("the answer of the user was not taken")
		switch sessions.CodeOf(err) {
		case sessions.CodeAlreadyAnswered, sessions.CodeWithdrawn, sessions.CodeStaleGeneration, sessions.CodeNotFound, sessions.CodeNotRunning:
			return dialogOver
		}
		return dialogFailed
	}
	return dialogAnswered
}

// watch ends a question when its request is pending no more.
func (s *Server) watch(ctx context.Context, caller sessions.Caller, who sessions.Session, request string, end context.CancelCauseFunc) {
	after := who.Cursor
	for ctx.Err() == nil {
		a := sessions.WaitArgs{SessionIDs: []string{who.SessionID}, Until: "event", WaitSeconds: new(sessions.MaxWaitSeconds)}
		if after != "" {
			a.After = map[string]string{who.SessionID: after}
		}
		r, err := s.api.Wait(ctx, caller, a)
		if err != nil {
			return // the answer will meet whatever became of the request
		}
		for _, w := range r.Sessions {
			after = w.Cursor
			if !pendingIn(w.Session, request) {
				end(errSettled)
				return
			}
		}
		if len(r.Sessions) == 0 && !r.TimedOut {
			return
		}
	}
}

func pendingIn(s sessions.Session, request string) bool {
	for _, q := range s.Requests {
		if q.RequestID == request && (q.State == sessions.RequestPending || q.State == "") {
			return true
		}
	}
	return false
}
