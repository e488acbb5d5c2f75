package appserver

import (
	"context"
	"encoding/json"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// Probe asks a Codex process who it is, what it offers and whether it is logged in, without any thread. It owns the
// link and has closed it when it returns; the process is the caller's to end.
func Probe(ctx context.Context, conn *wire.Conn, o Options) (sessions.Probe, error) {
	a := New(conn, discard{}, o)
	defer func() {
		conn.Close()
		<-a.Done()
	}()
	models, v, err := a.handshake(ctx)
	if err != nil {
		return sessions.Probe{Version: v.text, Login: "unknown"}, openError(err)
	}
	p := sessions.Probe{Version: v.text, Models: models.offered(), Modes: v.modes(),
		Capability: map[string]any{"resume": true, "steer": true, "sandbox_by": "agent"}}
	var kind string
	if p.Login, kind, err = a.account(ctx); err != nil {
		p.Login = "unknown"
		return p, openError(err)
	}
	if kind != "" {
		p.Capability["login_kind"] = kind
	}
	if limits := a.rateLimits(ctx, kind); limits != nil {
		p.Capability["rate_limits"] = limits
	}
	images := false
	for _, m := range models.models {
		images = images || m.takesImages()
	}
	p.Capability["images"] = images
	if p.Raw, err = json.Marshal(models.models); err != nil {
		p.Raw = nil
	}
	return p, nil
}

// discard is the sink of a link without a session.
type discard struct{}

func (discard) Emit(sessions.Event) {}
