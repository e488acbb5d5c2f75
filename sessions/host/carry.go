package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// serve carries inputs and frames until the connection ends.
func (t *tender) serve(link *bridge.Link) error {
	failpoint.Hit("host.greeted")
	if link.Hello.LastIn > t.sentIn {
		if err := t.overtaken(link.Hello.LastIn); err != nil {
			return err
		}
	}
	t.sentIn = link.Hello.LastIn
	if t.sentIn > 0 {
		t.hasLaunch()
	}
	frames := make(chan []bridge.Frame, 4)
	var readErr error
	reading := make(chan struct{})
	quit := make(chan struct{})
	go func() { // ends with the connection; serve waits for it
		defer close(reading)
		defer close(frames)
		for {
			batch, err := receive(link)
			if len(batch) > 0 {
				select {
				case frames <- batch:
				case <-quit:
					return
				}
			}
			if err != nil {
				readErr = err
				return
			}
		}
	}()
	defer context.AfterFunc(t.h.life, func() { link.Close() })() // a write to a bridge that hangs ends with the host
	defer func() {
		link.Close()
		close(quit)
		<-reading
	}()
	t.held = nil // the bridge gives again what is not durable
	if err := t.give(link); err != nil {
		return err
	}
	limit := time.NewTimer(time.Hour)
	defer limit.Stop()
	pulse := newPulse(link, t.h.limits)
	defer pulse.stop()
	for {
		var overdue <-chan time.Time
		if by := t.endBy(); !by.IsZero() {
			limit.Reset(time.Until(by))
			overdue = limit.C
		}
		in, again, gone := t.sources(frames)
		select {
		case <-t.h.life.Done():
			return context.Cause(t.h.life)
		case <-overdue:
			t.cause = errOverdue
			if t.closeBy.IsZero() {
				t.cause = errUnsent
			}
			return t.cause
		case <-pulse.timer.C:
			if err := pulse.beat(in != nil); errors.Is(err, errMute) {
				t.cause = errMute
				return err
			} else if err != nil {
				return err
			}
		case <-t.kicked:
			pulse.lively()
			if err := t.endUnwritten(link); err != nil {
				return err
			}
			if err := t.give(link); err != nil {
				return err
			}
		case <-again:
			if err := t.keep(link); err != nil {
				return err
			}
		case <-gone:
			for batch := range frames { // what it said last is still on its way
				t.hold(batch)
			}
			return errGone
		case batch, ok := <-in:
			if !ok {
				<-reading
				return readErr
			}
			if batch = t.heed(batch, pulse); len(batch) == 0 {
				continue
			}
			waits := len(t.held) > 0
			t.gather(batch, in)
			if len(t.held) == 0 || waits {
				continue
			}
			failpoint.Hit("host.frames.before")
			if err := t.keep(link); err != nil {
				return err
			}
		}
	}
}

// batchBytes bounds what is read before any of it is made durable, beyond one frame.
const batchBytes = 4 << 20

// receive reads the next frame and those that came with it. Their events are decoded here, while the tender is at others.
func receive(link *bridge.Link) ([]bridge.Frame, error) {
	var batch []bridge.Frame
	for size := 0; len(batch) == 0 || link.Buffered() && len(batch) < maxBatch && size < batchBytes; {
		f, err := link.Recv()
		if err != nil {
			return batch, err
		}
		if f.IsOut() && f.Kind == bridge.OutEvent {
			if e, err := decode[sessions.Event](f); err == nil {
				f.Event = &e
			}
		}
		batch = append(batch, f)
		size += len(f.Body)
	}
	return batch, nil
}

// heed notes what frames say of their bridge, and returns those that say more than that it lives.
func (t *tender) heed(batch []bridge.Frame, pulse *pulse) []bridge.Frame {
	told := slices.DeleteFunc(batch, bridge.Frame.IsPong)
	if len(told) < len(batch) {
		pulse.answered()
	}
	if len(told) == 0 {
		return nil
	}
	pulse.open = 0
	pulse.lively()
	if !t.launchBy.IsZero() || t.lastOut == 0 {
		t.launchBy = time.Time{}
		t.hasLaunch() // whatever a bridge says, it says after that
	}
	return told
}

// gather holds a batch and what else has come, up to a bound.
func (t *tender) gather(batch []bridge.Frame, frames <-chan []bridge.Frame) {
	for size := 0; ; {
		t.hold(batch)
		for _, f := range batch {
			size += len(f.Body)
		}
		if len(t.held) >= maxBatch || size > batchBytes {
			return
		}
		select {
		case next, ok := <-frames:
			if !ok {
				return
			}
			batch = next
		default:
			return
		}
	}
}

// give sends the bridge what it lacks.
func (t *tender) give(link *bridge.Link) error {
	if prompts := t.takeHanded(); len(prompts) > 0 {
		for _, p := range prompts {
			if t.h.inDoubt(t.session, p.prompt.CommandID) {
				return nil
			}
			if err := t.put(link, p.n, bridge.InPrompt, p.prompt); err != nil {
				return err
			}
		}
		return nil
	}
	var inputs []journal.Input
	if err := t.h.j.View(t.h.life, func(tx *journal.Tx) (err error) {
		inputs, err = tx.InputsAfter(t.generation, int64(t.sentIn))
		return err
	}); trouble(err) {
		return nil // they are given when the journal is back
	} else if err != nil {
		return err
	}
	for _, in := range inputs {
		var body any = in.Payload
		kind := bridge.Kind(in.Kind)
		switch {
		case t.h.inDoubt(t.session, in.Ref):
			return nil
		case in.State == journal.InputRefused:
			kind, body = bridge.InVoid, nil
		case kind == bridge.InAnswer:
			var err error
			if kind, body, err = t.givenAnswer(in); err != nil {
				return err
			}
		}
		if bridge.Kind(in.Kind) == bridge.InOpen {
			l := t.launch()
			if l == nil { // an earlier host ended between registration and launch, and took the environment with it
				return t.missLaunch(inputs)
			}
			t.launchBy = time.Time{}
			body = l.spec
		}
		if bridge.Kind(in.Kind) == bridge.InClose && t.closeBy.IsZero() {
			t.closeBy = time.Now().Add(closeLimit)
		}
		if err := t.put(link, uint64(in.N), kind, body); err != nil {
			return err
		}
	}
	return nil
}

// put gives the bridge one input.
func (t *tender) put(link *bridge.Link, n uint64, kind bridge.Kind, body any) error {
	t.sentIn = n // from here on its bytes may have left
	failpoint.Hit("host.input.before")
	if err := link.Send(n, kind, body); err != nil {
		return err
	}
	failpoint.Hit("host.input.after")
	return nil
}

// endBy is when the bridge is stopped, zero when nothing is due.
func (t *tender) endBy() time.Time {
	if !t.closeBy.IsZero() {
		return t.closeBy
	}
	return t.launchBy
}
