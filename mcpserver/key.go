package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/batonmcp/baton/sessions"
)

// callMeta is what a client said about a call beside its arguments.
type callMeta struct {
	progressToken json.RawMessage            // a string or a number as it was written; nil: no progress is wanted
	toolUseID     string                     // the client's own id of the call, the same when it repeats it (Claude Code 2.1)
	round         roundState                 // what the round before said, when the call is repeated with answers (2026-07-28)
	responses     map[string]json.RawMessage // the answers, by request id
}

type paramsKey struct{}

// withParams keeps the params of a request as they were written: mcp-go decodes _meta into floats.
func withParams(ctx context.Context, params json.RawMessage) context.Context {
	return context.WithValue(ctx, paramsKey{}, params)
}

// meta reads what the client said about the request of a context. Its error is about the state of the round before.
func (s *Server) meta(ctx context.Context) (m callMeta, err error) {
	raw, _ := ctx.Value(paramsKey{}).(json.RawMessage)
	var p struct {
		Meta      map[string]json.RawMessage `json:"_meta"`
		State     json.RawMessage            `json:"requestState"`
		Responses json.RawMessage            `json:"inputResponses"`
	}
	if raw == nil || json.Unmarshal(raw, &p) != nil {
		return m, nil
	}
	if t := p.Meta["progressToken"]; validID(t) {
		m.progressToken = t
	}
	_ = json.Unmarshal(p.Meta["claudecode/toolUseId"], &m.toolUseID)
	_ = json.Unmarshal(p.Responses, &m.responses)
	if p.State == nil || string(p.State) == "null" {
		return m, nil
	}
	var state string
	_ = json.Unmarshal(p.State, &state) // what is no text is not ours
	m.round, err = openRound(state, s.who.Principal)
	return m, err
}

// key names a call that names no key itself. It is made before the first attempt, so that whatever happens to the
// attempt, the call can be repeated without being done twice: from the state of the round before, then from the
// client's own id of the call, which is the same when the client repeats it, else a fresh one.
func (m callMeta) key() string {
	if m.round.Key != "" {
		return m.round.Key
	}
	if m.toolUseID == "" {
		return sessions.NewID()
	}
	if k := "call-" + m.toolUseID; sessions.CheckName("key", k) == nil {
		return k
	}
	return sessions.DerivedID("call", "", m.toolUseID)
}
