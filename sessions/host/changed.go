package host

import (
	"context"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// lookEvery merges the changes of others while somebody waits for a change of its own.
const lookEvery = 100 * time.Millisecond

// Changed returns when the principal's sessions are others than at the mark.
func (h *Host) Changed(ctx context.Context, who sessions.Caller, a sessions.ChangedArgs) (sessions.ChangedResult, error) {
	if err := named(who); err != nil {
		return sessions.ChangedResult{}, err
	}
	wait, err := seconds(a.WaitSeconds, sessions.DefaultWaitSeconds)
	if err != nil {
		return sessions.ChangedResult{}, err
	}
	w := h.hub.add(nil, true)
	defer w.remove()
	end := time.NewTimer(wait)
	defer end.Stop()
	for late := wait <= 0; ; {
		var mark string
		err := h.look(ctx, func(tx *journal.Tx) (err error) {
			mark, err = tx.Mark(who.Principal)
			return err
		})
		if err != nil || mark != a.Mark || late {
			return sessions.ChangedResult{Mark: mark}, err
		}
		var again <-chan time.Time
		for woken := false; !woken; {
			select {
			case <-w.ch:
				if again == nil {
					again = time.After(lookEvery)
				}
			case <-again:
				woken = true
			case <-end.C:
				late, woken = true, true
			case <-ctx.Done():
				return sessions.ChangedResult{}, left(ctx, context.Cause(ctx))
			case <-h.life.Done():
				return sessions.ChangedResult{}, errHostEnds
			}
		}
	}
}
