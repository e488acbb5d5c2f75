package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// modelsTimeout is the patience with a method that a build may not know, and may not refuse either.
const modelsTimeout = 10 * time.Second

// Probe asks an agent what it is, without a conversation and without a login. The models are known only where Cursor
// tells them (cursor/list_available_models, undocumented, not in every build); every other agent tells them with a
// conversation alone. The link is the caller's to close.
func Probe(ctx context.Context, conn *wire.Conn, o Options) (sessions.Probe, error) {
	o = o.withDefaults()
	p := prober{conn}
	m, err := p.call(ctx, methodInitialize, newInitialize(o), o.HandshakeTimeout)
	if err != nil {
		return sessions.Probe{}, err
	}
	r, err := readInitialize(m)
	if err != nil {
		return sessions.Probe{}, err
	}
	out := sessions.Probe{Version: r.AgentInfo.Version, Login: "unknown", Raw: m.Result}
	methods := make([]string, len(r.AuthMethods))
	for i, a := range r.AuthMethods {
		methods[i] = a.ID
	}
	caps := r.AgentCapabilities
	out.Capability = map[string]any{
		"resume": caps.LoadSession || offered(caps.SessionCapabilities.Resume),
		"close":  offered(caps.SessionCapabilities.Close),
		"images": caps.PromptCapabilities.Image, "steer": false, "auth_methods": methods,
	}
	if r.AgentInfo.Name != "" {
		out.Capability["agent_name"] = r.AgentInfo.Name
	}
	if r.lists(cursorLogin) == nil {
		return out, nil
	}
	own := askAccount(ctx, o)
	out.Login = own.login
	if out.Version == "" {
		out.Version = own.version
	}
	m, err = p.call(ctx, cursorModels, struct{}{}, min(o.HandshakeTimeout, modelsTimeout))
	var refused *wire.ResponseError
	switch {
	case errors.As(err, &refused) && refused.Code == codeAuthRequired:
		out.Login = "no"
	case err == nil:
		out.Models = readModels(m.Result)
	case ctx.Err() != nil:
		return out, err
	}
	return out, nil
}

// readModels reads a list that has had more than one form: objects with value or id, or bare strings.
func readModels(raw json.RawMessage) []sessions.Model {
	var r struct {
		Models []json.RawMessage `json:"models"`
	}
	_ = decode(raw, &r)
	var out []sessions.Model
	for _, entry := range r.Models {
		var id string
		if decode(entry, &id) == nil && id != "" {
			out = append(out, sessions.Model{ID: id})
			continue
		}
		var m struct {
			Value   string          `json:"value"`
			ID      string          `json:"id"`
			ModelID string          `json:"modelId"`
			Name    string          `json:"name"`
			Options json.RawMessage `json:"configOptions"`
		}
		if decode(entry, &m) != nil {
			continue
		}
		model := sessions.Model{Name: m.Name}
		for _, v := range []string{m.Value, m.ID, m.ModelID} {
			if model.ID == "" {
				model.ID = v
			}
		}
		if model.ID == "" {
			continue
		}
		if set, ok := parseOptions(m.Options); ok {
			if o := findEffort(set); o != nil {
				model.Efforts = o.offers()
			}
		}
		out = append(out, model)
	}
	return out
}

// prober makes calls without an Agent.
type prober struct{ conn *wire.Conn }

func (p prober) call(ctx context.Context, method string, params any, limit time.Duration) (wire.Message, error) {
	call, err := p.conn.Call(ctx, method, params)
	if err != nil {
		if why := p.conn.Err(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		code, action := wire.Lost(err)
		return wire.Message{}, sessions.Errorf(code, "%s could not be sent: %w", method, err).Do("%s", action)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case m, ok := <-p.conn.Inbox():
			switch {
			case !ok:
				code, action := wire.Lost(p.conn.Err())
				return m, sessions.Errorf(code, "the agent's link ended before %s was answered: %w", method, p.conn.Err()).Do("%s", action)
			case m.Kind == wire.Request:
				if err := p.conn.ReplyError(ctx, m.ID, wire.CodeMethodNotFound, "Method not found: "+m.Method); err != nil {
					return m, sessions.Errorf(sessions.CodeAgentExited, "%s of the agent could not be answered: %w", m.Method, err)
				}
			case m.Kind == wire.Response && m.Call == call && m.Err != nil:
				return m, m.Err
			case m.Kind == wire.Response && m.Call == call:
				return m, nil
			}
		case <-timer.C:
			return wire.Message{}, sessions.Errorf(sessions.CodeTimeout, "the agent did not answer %s within %s", method, limit)
		case <-ctx.Done():
			return wire.Message{}, sessions.Errorf(sessions.CodeTimeout, "given up waiting for %s: %w", method, context.Cause(ctx))
		}
	}
}
