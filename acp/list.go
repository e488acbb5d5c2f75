package acp

import (
	"context"
	"time"

	"github.com/batonmcp/baton/sessions"
)

const (
	maxPages    = 50 // of a list whose agent never stops giving cursors
	listTimeout = 10 * time.Second
)

// remembers tells whether the agent's own list of conversations names one. sure is false where the agent has no list,
// or none that can be read to its end.
//
// It settles what an error of session/load means: most agents answer an id that they do not know with the code of any
// other trouble (-32603: OpenCode, Gemini, codex-acp), and a conversation that is there must not be begun anew.
func (a *Agent) remembers(ctx context.Context, cwd, id string) (there, sure bool) {
	if !offered(a.initial.AgentCapabilities.SessionCapabilities.List) {
		return false, false
	}
	params := struct {
		Cwd    string `json:"cwd"`
		Cursor string `json:"cursor,omitempty"`
	}{Cwd: cwd}
	for range maxPages {
		m, err := a.call(ctx, methodList, params, min(a.o.HandshakeTimeout, listTimeout))
		if err != nil {
			a.log.Debug().Err(err).Msg(methodList)
			return false, false
		}
		var r struct {
			Sessions []sessionID `json:"sessions"`
			Next     string      `json:"nextCursor"`
		}
		if decode(m.Result, &r) != nil {
			return false, false
		}
		for _, s := range r.Sessions {
			if s.SessionID == id {
				return true, true
			}
		}
		if r.Next == "" || r.Next == params.Cursor {
			return false, true
		}
		params.Cursor = r.Next
	}
	return false, false
}

// notLoaded is what the failure of session/load or session/resume means: with nothing, that the agent has no such
// conversation.
func (a *Agent) notLoaded(ctx context.Context, p sessions.OpenParams, failure *sessions.Error) (nothing bool, err error) {
	if there, sure := a.remembers(ctx, p.Cwd, p.NativeID); sure && there {
		failure.Code = sessions.CodeAgentProtocol
		return false, failure.Do("look at the agent's own output for the reason, then resume the session again").With("listed", true)
	}
	return true, failure
}
