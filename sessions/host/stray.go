package host

import (
	"context"
	"os"
	"time"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions/bridge"
)

// strayLimit bounds the dismissal of a bridge that no record leads to.
const strayLimit = 3 * time.Second

// clearSocket makes room for the socket of a new bridge of the generation. An earlier host may have launched one and
// ended before it was registered: it waits at its gate, has no agent, and is told to end.
func (t *tender) clearSocket(socket string) error {
	if _, err := os.Lstat(socket); os.IsNotExist(err) {
		return nil
	}
	t.dismiss()
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// dismiss asks whatever bridge answers at the generation's socket to end, and takes what it still has to say. It proves
// nothing about what the bridge held.
func (t *tender) dismiss() {
	ctx, cancel := context.WithTimeout(t.h.life, strayLimit)
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
	if err := link.Send(link.Hello.LastIn+1, bridge.InClose, bridge.CloseInput{Reason: "no record leads to this bridge"}); err != nil {
		return
	}
	for {
		f, err := link.Recv()
		if err != nil {
			return
		}
		if f.IsOut() && link.Ack(f.N) != nil {
			return
		}
	}
}
