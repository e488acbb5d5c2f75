package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// maxBatch bounds the frames of one transaction.
const maxBatch = 512

// errGone: the bridge is gone and everything it said is in hand.
var errGone = errors.New("the bridge is gone")

// hold keeps frames until the journal takes them, those that are numbered and neither durable already nor held.
func (t *tender) hold(frames []bridge.Frame) {
	last := t.lastOut
	if n := len(t.held); n > 0 {
		last = t.held[n-1].N
	}
	for _, f := range frames {
		if f.IsOut() && f.N > last {
			last = f.N
			t.held = append(t.held, f)
		}
	}
}

// sources is where serve looks. While the journal takes nothing no frame is read, so that the bridge keeps them, and its
// agent waits; only of a bridge that was told to end without the journal everything is read, since that is its last.
func (t *tender) sources(frames <-chan []bridge.Frame) (in <-chan []bridge.Frame, again, gone <-chan struct{}) {
	if len(t.held) == 0 {
		return frames, nil, nil
	}
	if t.ending {
		in = frames
	}
	return in, t.recovery, t.proc.Done()
}

// keep makes what is held durable and tells the bridge. A journal in trouble is no error: it is waited for.
func (t *tender) keep(link *bridge.Link) error {
	t.recovery = t.h.disk.recovery()
	err := t.takeHeld()
	switch {
	case trouble(err):
		t.h.o.Log.Warn().Err(err).Str("session", t.session).Msg("frames wait for the journal")
		return nil
	case err != nil:
		return err
	}
	failpoint.Hit("host.frames.durable")
	if err := link.Ack(t.lastOut); err != nil {
		return err
	}
	failpoint.Hit("host.frames.acked")
	return nil
}

func (t *tender) takeHeld() error {
	if t.asked() && !t.meant {
		if err := t.h.update(context.WithoutCancel(t.h.life), t.mean); err != nil {
			return err
		}
		t.meant = true
	}
	for len(t.held) > 0 {
		n := min(len(t.held), maxBatch)
		if err := t.take(t.held[:n]); err != nil {
			return err
		}
		t.held = t.held[n:]
	}
	t.held = nil
	return nil
}

// take makes a batch of frames durable, and what they mean.
func (t *tender) take(batch []bridge.Frame) error {
	ctx := context.WithoutCancel(t.h.life) // frames in hand are journalled even while the host stops
	a := applier{h: t.h, session: t.session, generation: t.generation}
	last := batch[len(batch)-1].N
	err := t.h.update(ctx, func(tx *journal.Tx, c *changes) error {
		a.reset()
		g, err := tx.GetGeneration(t.generation)
		if err != nil {
			return err
		}
		seen := uint64(g.LastFrame)
		for _, f := range batch {
			if f.N <= seen {
				continue // an earlier commit held it, although it seemed to fail
			}
			if f.N != seen+1 { // the bridge forgot them because they were acknowledged
				a.add(sessions.Event{Kind: sessions.EventGap, At: tx.Now(), Gap: &sessions.Gap{
					Reason: fmt.Sprintf("frames %d to %d of the session's bridge were journalled once and are lost from the journal", seen+1, f.N-1)}})
			}
			seen = f.N
			if err := a.apply(tx, c, f); err != nil {
				if trouble(err) {
					return err
				}
				// One frame that cannot be understood must not hold up those behind it for ever.
				t.h.o.Log.Error().Err(err).Str("session", t.session).Uint64("frame", f.N).Msg("frame could not be applied")
				a.add(sessions.Event{Kind: sessions.EventError, At: tx.Now(), Code: sessions.CodeInternal, Text: err.Error(), Raw: f.Body})
			}
		}
		if err := a.flush(tx, c); err != nil {
			return err
		}
		_, err = tx.SetFrame(t.generation, int64(last))
		return err
	})
	if err != nil {
		return err
	}
	t.lastOut = last
	t.farewell = t.farewell || a.stopped
	if a.failed != nil {
		t.cause = nil // the journal holds why already
	}
	return nil
}

// takeRest journals what is held and what the bridge left in its spill file. whole is false when something of that
// cannot be used; an error says that the journal takes nothing now.
func (t *tender) takeRest() (whole bool, err error) {
	if err = t.takeHeld(); err == nil {
		err = bridge.ReadSpill(t.h.o.Places.Spill(t.generation), func(f bridge.Frame) error {
			if t.hold([]bridge.Frame{f}); len(t.held) < maxBatch {
				return nil
			}
			return t.takeHeld()
		})
	}
	if err == nil {
		err = t.takeHeld()
	}
	if err == nil || trouble(err) {
		return err == nil, err
	}
	t.h.o.Log.Error().Err(err).Str("session", t.session).Msg("what the bridge left could not be journalled whole")
	t.held = nil
	return false, nil
}

// mean journals a close after the fact.
func (t *tender) mean(tx *journal.Tx, c *changes) error {
	s, err := tx.GetSession("", t.session)
	if err != nil || s.Generation != t.generation {
		return err
	}
	_, err = t.h.closing(tx, c, s)
	return err
}

// asked tells whether a close was asked for that the journal did not take.
func (t *tender) asked() bool {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	return t.closing
}

// endUnwritten tells the bridge to end, once, where that was asked for.
func (t *tender) endUnwritten(link *bridge.Link) error {
	if t.ending || !t.asked() {
		return nil
	}
	t.ending, t.closeBy = true, time.Now().Add(closeLimit)
	return link.End()
}

// learnOwner keeps whose session it is, for when nothing can be read.
func (t *tender) learnOwner() {
	err := t.h.j.View(t.h.life, func(tx *journal.Tx) error {
		s, err := tx.GetSession("", t.session)
		if err == nil {
			t.h.mu.Lock()
			t.owner = s.Principal
			t.h.mu.Unlock()
		}
		return err
	})
	if err != nil {
		t.h.o.Log.Warn().Err(err).Str("session", t.session).Msg("whose session this is could not be read")
	}
}

// stop has the tender end its session without the journal, and waits for the proof.
func (t *tender) stop(ctx context.Context, wait time.Duration) bool {
	t.h.mu.Lock()
	t.closing = true
	t.h.mu.Unlock()
	t.h.kick(t.session)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-t.proven:
		return true
	case <-timer.C:
	case <-ctx.Done():
	case <-t.h.life.Done():
	}
	return false
}
