package mcpserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/batonmcp/baton/sessions"
)

// Since 2026-07-28 a server does not send requests to its client: it answers a call with what it needs to know, and the
// client repeats the call with the answers (multi-round-trip requests).

// roundState is what a client carries from one round of a call to the next. It grants nothing: the key and the request
// are those of the caller, who could name them anyway. So its seal tells damage and mix-ups, and needs no secret: the next
// front end, of which nobody knows when it comes, must be able to read it.
type roundState struct {
	Key       string   `json:"k,omitempty"` // under which the call was made first
	SessionID string   `json:"s,omitempty"`
	RequestID string   `json:"r,omitempty"` // what was asked in this round
	Asked     []string `json:"a,omitempty"` // what was asked in earlier rounds and not answered
}

// seal writes the state for a principal.
func (r roundState) seal(principal string) string {
	raw, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(sealOf(principal, raw), raw...))
}

func sealOf(principal string, raw []byte) []byte {
	sum := sha256.Sum256(append([]byte(principal+"\x00"), raw...))
	return sum[:sealSize]
}

const sealSize = 16

// openRound reads a sealed state. One that is damaged, or another principal's, is refused: taken for none, it would let the
// repeated call be a new one.
func openRound(text, principal string) (r roundState, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < sealSize || !bytes.Equal(raw[:sealSize], sealOf(principal, raw[sealSize:])) || json.Unmarshal(raw[sealSize:], &r) != nil {
		return roundState{}, sessions.Errorf(sessions.CodeInvalidParams, "requestState is not as this server gave it").
			Do("repeat the call with the state of its last answer, or without one under the same key")
	}
	return r, nil
}

// inputRequired is a result that asks the client to repeat the call with answers.
func inputRequired(state string, requests mcp.InputRequests) *mcp.CallToolResult {
	return &mcp.CallToolResult{Result: mcp.Result{ResultType: mcp.ResultTypeInputRequired}, Content: []mcp.Content{},
		MultiRoundTripResult: mcp.MultiRoundTripResult{RequestState: state, InputRequests: requests}}
}

// inputRequest is the form as one of the questions of a result.
func (f *form) inputRequest() (mcp.InputRequest, error) {
	raw, err := json.Marshal(f.params)
	if err != nil {
		return mcp.InputRequest{}, err
	}
	var p struct {
		Mode, Message, URL, ElicitationID string
		RequestedSchema                   json.RawMessage
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return mcp.InputRequest{}, err
	}
	params := mcp.ElicitationParams{Mode: p.Mode, Message: p.Message, URL: p.URL, ElicitationID: p.ElicitationID}
	if p.RequestedSchema != nil { // as it was written: its members have an order
		params.RequestedSchema = p.RequestedSchema
	}
	return mcp.NewElicitationInputRequest(params), nil
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
			ask, err := f.inputRequest()
			if err != nil {
				continue
			}
			state := roundState{Key: key, SessionID: who.SessionID, RequestID: q.RequestID, Asked: m.round.Asked}
			return inputRequired(state.seal(s.who.Principal), mcp.InputRequests{q.RequestID: ask})
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
