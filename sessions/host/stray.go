package host

import (
	"context"
	"os"
	"time"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// strayLimit bounds the dismissal of a bridge that waits at its gate.
const strayLimit = 3 * time.Second

// clearSocket makes room for the socket of a new bridge of the generation. An earlier host may have launched one and
// ended before it was registered: it waits at its gate, has no agent, and is told to end.
func (t *tender) clearSocket(socket string) error {
	if _, err := os.Lstat(socket); os.IsNotExist(err) {
		return nil
	}
	t.dismiss(false, strayLimit)
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// dismiss asks whatever bridge answers at the generation's socket to end. What it still has to say is journalled when it
// is the generation's own; one that waits at its gate has nothing to say. It proves nothing about what the bridge held.
func (t *tender) dismiss(own bool, limit time.Duration) {
	ctx, cancel := context.WithTimeout(t.h.life, limit)
	defer cancel()
	conn, err := local.Dial(ctx, t.h.o.Places.BridgeSocket(t.generation))
	if err != nil {
		return // nobody is there
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	link, err := bridge.NewLink(conn, bridge.Attach{Version: t.h.o.Version, Generation: t.generation, Epoch: t.h.epoch, After: t.lastOut})
	if err != nil {
		t.h.o.Log.Warn().Err(err).Str("session", t.session).Msg("an unknown bridge did not greet")
		return
	}
	if t.sentIn = link.Hello.LastIn; link.Send(t.sentIn+1, bridge.InClose, bridge.CloseInput{Reason: "no record leads to this bridge"}) != nil {
		return
	}
	for {
		f, err := link.Recv()
		if err != nil {
			return
		}
		if !f.IsOut() {
			continue
		}
		n := f.N
		if own {
			t.hold([]bridge.Frame{f})
			if err := t.takeHeld(); err != nil {
				t.h.o.Log.Warn().Err(err).Str("session", t.session).Msg("what a bridge said last could not be journalled")
				return
			}
			n = t.lastOut
		}
		if link.Ack(n) != nil {
			return
		}
	}
}

// unusable fails a session whose process record cannot be used, before anybody can send to it.
func (h *Host) unusable(ctx context.Context, g journal.Generation, cause *sessions.Error) {
	a := applier{h: h, session: g.Session, generation: g.ID, holds: true}
	if err := h.update(ctx, func(tx *journal.Tx, c *changes) error {
		a.reset()
		a.holds = true
		if err := a.fail(tx, c, cause); err != nil {
			return err
		}
		return a.flush(tx, c)
	}); err != nil {
		h.o.Log.Error().Err(err).Str("session", g.Session).Msg("a session could not be failed")
	}
}
