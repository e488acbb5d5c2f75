package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/batonmcp/baton/sessions"
)

const (
	maxPages    = 50 // of a list whose agent never stops giving cursors
	listTimeout = 10 * time.Second
)

// conversations calls see with every conversation that the agent's list has, until see returns false. whole is false
// where the list goes on without an end. cwd "" is every directory.
func (a *Agent) conversations(ctx context.Context, cwd string, see func(conversation) bool) (whole bool, err error) {
	params := struct {
		Cwd    string `json:"cwd,omitempty"`
		Cursor string `json:"cursor,omitempty"`
	}{Cwd: cwd}
	for range maxPages {
		m, err := a.call(ctx, methodList, params, min(a.o.HandshakeTimeout, listTimeout))
		if err != nil {
			return false, a.answeredError(methodList, err)
		}
		var r struct {
			Sessions json.RawMessage `json:"sessions"`
			Next     string          `json:"nextCursor"`
		}
		var page []conversation
		err = decode(m.Result, &r)
		if err == nil && !bytes.HasPrefix(r.Sessions, []byte("[")) {
			err = fmt.Errorf("it has no list of sessions: %s", told(string(m.Result), 200, a.o.Redact))
		}
		if err == nil {
			err = decode(r.Sessions, &page)
		}
		if err != nil {
			return false, sessions.Errorf(sessions.CodeAgentProtocol, "the agent's answer to session/list cannot be read: %w", err)
		}
		for _, c := range page {
			if c.ID != "" && !see(c) {
				return true, nil
			}
		}
		if r.Next == "" || r.Next == params.Cursor {
			return true, nil
		}
		params.Cursor = r.Next
	}
	return false, nil
}

// remembers tells whether the agent's own list of conversations names one. sure is false where the agent has no list,
// or none that can be read to its end.
//
// It settles what an error of session/load means: most agents answer an id that they do not know with the code of any
// other trouble (-32603: OpenCode, Gemini, codex-acp), and a conversation that is there must not be begun anew.
func (a *Agent) remembers(ctx context.Context, cwd, id string) (there, sure bool) {
	if !offered(a.initial.AgentCapabilities.SessionCapabilities.List) {
		return false, false
	}
	whole, err := a.conversations(ctx, cwd, func(c conversation) bool {
		there = c.ID == id
		return !there
	})
	if err != nil {
		a.log.Debug().Err(err).Msg(methodList)
	}
	return there, there || whole && err == nil
}

// unreadable is what programs say of a file that is there and cannot be read: Node and Rust, Go and C.
var unreadable = regexp.MustCompile(`(?i)\bE(IO|ACCES|PERM|MFILE|NFILE|STALE|BUSY)\b|\bpermission denied\b|\bi/o error\b|\binput/output error\b|\btoo many open files\b`)

// notLoaded is what the failure of session/load or session/resume means: with nothing, that the agent has no such
// conversation. Agents answer an unknown id and a file that they cannot read with the same code.
func (a *Agent) notLoaded(ctx context.Context, p sessions.OpenParams, failure *sessions.Error) (nothing bool, err error) {
	cause, _ := failure.Details["cause"].(string)
	if unreadable.MatchString(cause) {
		failure.Code = sessions.CodeAgentProtocol
		return false, failure.Do("the conversation may well be there: let the agent read its own files again, then resume the session again")
	}
	if there, sure := a.remembers(ctx, p.Cwd, p.NativeID); sure && there {
		failure.Code = sessions.CodeAgentProtocol
		return false, failure.Do("look at the agent's own output for the reason, then resume the session again").With("listed", true)
	}
	return true, failure
}
