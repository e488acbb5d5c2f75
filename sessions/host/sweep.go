package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions/journal"
)

const (
	sweepEvery = 5 * time.Minute    // how often what outlived its session is looked for
	sweepSince = 7 * 24 * time.Hour // how long after the session's end
	sweepMost  = 500                // sessions
	sweepLimit = 30 * time.Second
)

// sweep is the goroutine that ends what outlived sessions whose end could not be proven: what could not be read or did
// not go away when its bridge ended may do so later. It begins when the host does, beside everything else.
func (h *Host) sweep() {
	pace := time.NewTicker(sweepEvery)
	defer pace.Stop()
	for {
		if err := h.sweepOnce(); err != nil && h.life.Err() == nil {
			h.o.Log.Warn().Err(err).Msg("what outlived its session could not be looked for")
		}
		select {
		case <-h.life.Done():
			return
		case <-pace.C:
		}
	}
}

func (h *Host) sweepOnce() error {
	var records []sandbox.Record
	if err := h.j.View(h.life, func(tx *journal.Tx) error {
		list, err := tx.UnprovenGenerations(time.Now().Add(-sweepSince), sweepMost)
		for _, g := range list {
			var r sandbox.Record
			if json.Unmarshal(g.Record, &r) == nil { // a record that means nothing leads to nobody
				records = append(records, r)
			}
		}
		return err
	}); err != nil || len(records) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(h.life, sweepLimit)
	defer cancel()
	if met := sandbox.Sweep(ctx, records); met > 0 {
		h.o.Log.Warn().Int("processes", met).Msg("processes that outlived their sessions were ended")
	}
	return nil
}
