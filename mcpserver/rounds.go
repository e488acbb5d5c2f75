package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/batonmcp/baton/sessions"
)

// Since 2026-07-28 a server does not send requests to its client: it answers a call with what it needs to know, and the
// client repeats the call with the answers (multi-round-trip requests).

// roundState is what a client carries from one round of a call to the next. It grants nothing: the key and the request
// are those of the caller, who could name them anyway.
type roundState struct {
	Key       string   `json:"k,omitempty"` // under which the call was made first
	SessionID string   `json:"s,omitempty"`
	RequestID string   `json:"r,omitempty"` // what was asked in this round
	Asked     []string `json:"a,omitempty"` // what was asked in earlier rounds and not answered
}

func (r roundState) String() string {
	raw, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseRound(text string) (r roundState, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if text == "" || err != nil || json.Unmarshal(raw, &r) != nil {
		return roundState{}, false
	}
	return r, true
}

// inRounds tells whether a call belongs to the era in which servers send no requests.
func inRounds(ctx context.Context) bool {
	return mcp.IsModernProtocol(server.RequestProtocolVersion(ctx))
}

// round returns the result that asks the client for an answer, or nil when there is nothing to ask, or nobody.
func (s *Server) round(ctx context.Context, all []sessions.Session, m callMeta, key string) *mcp.CallToolResult {
	client, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo)
	if !ok || !s.elicit {
		return nil
	}
	asForm, asURL := canAsk(client.GetClientCapabilities())
	for _, who := range all {
		for i := range who.Requests {
			q := &who.Requests[i]
			f := formFor(who, q, server.RequestProtocolVersion(ctx), asForm, asURL)
			if f == nil || q.State != sessions.RequestPending && q.State != "" || m.round.has(q.RequestID) || s.dismissed(client, q.RequestID) {
				continue
			}
			raw, err := json.Marshal(f.params)
			if err != nil {
				continue
			}
			var p struct {
				Mode, Message, URL, ElicitationID string
				RequestedSchema                   json.RawMessage
			}
			if json.Unmarshal(raw, &p) != nil {
				continue
			}
			params := mcp.ElicitationParams{Mode: p.Mode, Message: p.Message, URL: p.URL, ElicitationID: p.ElicitationID}
			if p.RequestedSchema != nil { // as it was written: its members have an order
				params.RequestedSchema = p.RequestedSchema
			}
			state := roundState{Key: key, SessionID: who.SessionID, RequestID: q.RequestID, Asked: m.round.Asked}
			return &mcp.CallToolResult{Result: mcp.Result{ResultType: mcp.ResultTypeInputRequired}, Content: []mcp.Content{},
				MultiRoundTripResult: mcp.MultiRoundTripResult{RequestState: state.String(),
					InputRequests: mcp.InputRequests{q.RequestID: mcp.NewElicitationInputRequest(params)}}}
		}
	}
	return nil
}

func (r roundState) has(request string) bool {
	for _, a := range r.Asked {
		if a == request {
			return true
		}
	}
	return false
}

// dismissed tells whether this client's user has closed a question before.
func (s *Server) dismissed(client any, request string) bool {
	a, ok := client.(asker)
	if !ok {
		return false
	}
	_, asked := a.Dialogs().ended(request)
	return asked
}

// resume takes the answers that a repeated call brings. It returns what is known of the question of the round before.
func (s *Server) resume(ctx context.Context, m *callMeta) *elicitation {
	r := m.round
	raw, answered := m.responses[r.RequestID]
	if !s.elicit || r.RequestID == "" || !answered {
		return nil
	}
	caller := s.caller(ctx)
	state := dialogOver
	who := sessions.Session{SessionID: r.SessionID}
	q := &sessions.Request{RequestID: r.RequestID}
	if found, ok := s.find(ctx, caller, r.SessionID, r.RequestID); ok {
		client, _ := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo)
		asForm, asURL := true, true
		if client != nil {
			asForm, asURL = canAsk(client.GetClientCapabilities())
		}
		for i := range found.Requests {
			if found.Requests[i].RequestID == r.RequestID {
				q = &found.Requests[i]
			}
		}
		if f := formFor(found, q, server.RequestProtocolVersion(ctx), asForm, asURL); f != nil {
			state = s.settle(ctx, caller, found, q, f, raw)
		}
	}
	if state != dialogAnswered {
		m.round.Asked = append(m.round.Asked, r.RequestID)
		if a, ok := server.ClientSessionFromContext(ctx).(asker); ok {
			a.Dialogs().settle(r.RequestID, state)
		}
	}
	return told(who, q, state)
}

// find returns the session of a pending request.
func (s *Server) find(ctx context.Context, caller sessions.Caller, session, request string) (sessions.Session, bool) {
	r, err := s.api.Wait(ctx, caller, sessions.WaitArgs{SessionIDs: []string{session}, WaitSeconds: new(0)})
	if err != nil {
		return sessions.Session{}, false
	}
	for _, w := range r.Sessions {
		if w.Session.SessionID == session && pendingIn(w.Session, request) {
			return w.Session, true
		}
	}
	return sessions.Session{}, false
}
