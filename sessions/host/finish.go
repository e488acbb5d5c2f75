package host

import (
	"context"
	"os"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/sandbox"
)

// prove ends what is left of the bridge, when there was one, and says what is known of it.
func (t *tender) prove() sandbox.Verdict {
	if t.proc == nil {
		return sandbox.Verdict{State: sandbox.Confirmed, Proof: sandbox.ProofNeverStarted, Detail: "no process was started"}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.h.life), t.h.limits.stop)
	defer cancel()
	return t.proc.Stop(ctx)
}

// over settles everything after the bridge process is gone, was never there, or cannot be killed.
func (t *tender) over(verdict sandbox.Verdict) {
	h := t.h
	failpoint.Hit("host.end.proven")
	h.mu.Lock()
	t.verdict = verdict
	h.mu.Unlock()
	close(t.proven)
	h.finish(t, verdict)
}

// finish journals what a bridge that is gone left, then the end of its generation.
func (h *Host) finish(t *tender, verdict sandbox.Verdict) {
	whole := false
	for attempt := 1; ; attempt++ {
		recovery := h.disk.recovery()
		var err error
		if whole, err = t.takeRest(); err == nil {
			t.unplant()
			failpoint.Hit("host.end.before")
			end := ending{h: h, session: t.session, generation: t.generation, verdict: verdict, cause: t.cause, farewell: t.farewell,
				neverSent: func(n uint64) bool { return n > t.sentIn }}
			err = h.update(context.WithoutCancel(h.life), end.apply)
		}
		if err == nil {
			break
		}
		h.o.Log.Error().Err(err).Str("session", t.session).Msg("the end of a generation could not be journalled")
		select { // the journal may come back; the process is gone either way
		case <-h.life.Done():
			return // the next host settles it
		case <-recovery:
		case <-time.After(min(time.Duration(attempt)*200*time.Millisecond, 5*time.Second)):
		}
	}
	h.removeQuietly(h.o.Places.BridgeSocket(t.generation))
	if whole {
		h.removeQuietly(h.o.Places.Spill(t.generation))
	}
	if fi, err := os.Stat(h.o.Places.BridgeLog(t.generation)); err == nil && fi.Size() == 0 {
		h.removeQuietly(h.o.Places.BridgeLog(t.generation))
	}
}
