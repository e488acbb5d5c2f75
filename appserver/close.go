package appserver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Close lets the thread go and closes Codex's input, upon which Codex leaves (within 0.1 s; 0.125 to 0.154 take 5 s).
// A running turn ends with it, unfinished. The link ends when the process does.
func (a *Agent) Close(ctx context.Context) error {
	let := make(chan struct{})
	ctx, stop := context.WithTimeout(ctx, a.o.CloseGrace+time.Second)
	defer stop()
	err := a.do(ctx, func() {
		a.gone = sessions.Errorf(sessions.CodeNotRunning, "the session is being closed").Do("resume it")
		if a.root == "" || a.turn != nil || a.foreign != nil {
			close(let)
			return
		}
		err := a.callWithin(ctx, a.o.CloseGrace, "thread/unsubscribe", threadID{a.root}, func(json.RawMessage, error) { close(let) })
		if err != nil {
			close(let)
		}
	})
	if err == nil {
		select {
		case <-let:
		case <-ctx.Done():
		}
	}
	if err := a.conn.CloseInput(); err != nil {
		return sessions.Errorf(sessions.CodeAgentExited, "Codex's input could not be closed: %w", err).Do("stop its process")
	}
	return nil
}
