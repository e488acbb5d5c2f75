package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

var (
	errOverdue = sessions.Errorf(sessions.CodeTimeout, "the agent did not end within %s and was killed", closeLimit).
			Do("resume the session; nothing is sent again by itself")
	errUnsent = sessions.Errorf(sessions.CodeIncomplete, "the host ended before the agent was started; nothing was sent").
			Do("resume the session")
)

// tender is the one goroutine that speaks to a session's bridge, from its launch or adoption to the proof of its end.
type tender struct {
	h          *Host
	session    string
	generation string
	kicked     chan struct{}
	done       chan struct{}

	// Guarded by the host's lock.
	launched bool            // the bridge has its launch
	closing  bool            // a close was asked for that the journal did not take
	verdict  sandbox.Verdict // once proven is closed
	refused  *sessions.Error // why the bridge does not serve this host, nil when it does

	owner string // whose session it is, "" when that could not be read

	proven   chan struct{}   // closed when the end of the processes is proven, or that it cannot be
	held     []bridge.Frame  // frames in hand that are not durable, in order
	recovery <-chan struct{} // closed when the journal takes changes again, while it did not
	ending   bool            // the bridge was told to end without the journal's knowing
	meant    bool            // the journal knows of that after all

	proc     process
	record   sandbox.Record
	policy   *sessions.FilePolicy // that this host launched the bridge with
	sentIn   uint64               // the highest input that any host may have written to the bridge
	lastOut  uint64               // the last frame that is durable
	farewell bool                 // the bridge's last frame is durable
	closeBy  time.Time            // when the bridge must have ended, once it was asked to
	launchBy time.Time            // when the launch must have come, once it was missed
	cause    *sessions.Error
}

// tenderOf is a tender of a generation, with what an earlier host left of it. Inputs of its own time are beyond those
// that the earlier one may have given away.
func (h *Host) tenderOf(session, generation string, was journal.Generation) *tender {
	return &tender{h: h, session: session, generation: generation, lastOut: uint64(was.LastFrame), sentIn: uint64(was.LastInput),
		farewell: len(was.Record) > 0 && was.Socket == "",
		kicked:   make(chan struct{}, 1), done: make(chan struct{}), proven: make(chan struct{})}
}

// tend starts a tender. proc is nil when the bridge is yet to be launched; was is the zero value when that is this host's.
func (h *Host) tend(session, generation string, proc process, was journal.Generation) {
	t := h.tenderOf(session, generation, was)
	if t.proc = proc; proc != nil {
		t.record = proc.Record()
	}
	h.mu.Lock()
	if was := h.tenders[session]; was != nil && was.generation == generation {
		h.mu.Unlock()
		return // a journal that came back and the call that waited for it start the same
	}
	h.tenders[session] = t
	h.mu.Unlock()
	if !h.spawn(func() { h.run(t) }) {
		h.forget(t)
	}
}

func (h *Host) forget(t *tender) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenders[t.session] == t {
		delete(h.tenders, t.session)
	}
	delete(h.launches, t.generation)
	h.busySince = time.Now()
	close(t.done)
}

func (t *tender) run() {
	defer t.h.forget(t)
	t.learnOwner()
	if t.proc == nil {
		err := t.awaitLaunch()
		if err == nil {
			err = t.start()
		}
		switch {
		case err == nil:
		case t.h.life.Err() != nil: // the next host starts it, or says that it did not
			t.discard()
			return
		default:
			t.cause = sessions.AsError(err)
			t.over(t.prove())
			return
		}
	}
	defer t.proc.Release()
	const pause = 50 * time.Millisecond
	var mute silence
	for {
		began := time.Now()
		link, err := t.dial()
		why := refusedBy(err)
		t.apart(why)
		switch {
		case err == nil:
			mute = 0
			err = t.serve(link)
			link.Close()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				mute.after(bridge.GreetLimit) // it took nothing for long
			}
		case why != nil:
			mute = 0
		default:
			mute.after(time.Since(began) + pause)
		}
		if t.h.life.Err() != nil {
			return // the session lives on
		}
		if t.cause == nil && time.Duration(mute) >= t.h.limits.mute {
			t.cause = errMute.With("last_error", err.Error())
		}
		wait := pause
		switch {
		case t.cause != nil, t.asked() && !t.ending, why != nil && t.unwanted():
			if v, gone := t.kill(); !gone {
				t.over(v)
				return
			}
		case why != nil:
			wait = t.h.limits.apart
		}
		select {
		case <-t.proc.Done():
			t.over(t.prove())
			return
		case <-t.h.life.Done():
			return
		case <-t.refusal():
		case <-time.After(wait):
		}
	}
}

// refusal is what may change how a bridge that does not serve this host is to be treated; one that serves takes its kicks
// itself.
func (t *tender) refusal() <-chan struct{} {
	if t.refused == nil { // nobody else changes it
		return nil
	}
	return t.kicked
}

func (t *tender) dial() (*bridge.Link, error) {
	ctx, cancel := context.WithTimeout(t.h.life, 5*time.Second)
	defer cancel()
	conn, err := local.Dial(ctx, t.h.o.Places.BridgeSocket(t.generation))
	if err != nil {
		return nil, err
	}
	link, err := bridge.NewLink(conn, bridge.Attach{Version: t.h.o.Version, Generation: t.generation, Epoch: t.h.epoch, After: t.lastOut})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return link, nil
}

// serve carries inputs and frames until the connection ends.
func (t *tender) serve(link *bridge.Link) error {
	failpoint.Hit("host.greeted")
	t.sentIn = link.Hello.LastIn
	if t.sentIn > 0 {
		t.hasLaunch()
	}
	frames := make(chan bridge.Frame, 512)
	var readErr error
	reading := make(chan struct{})
	quit := make(chan struct{})
	go func() { // ends with the connection; serve waits for it
		defer close(reading)
		defer close(frames)
		for {
			f, err := link.Recv()
			if err != nil {
				readErr = err
				return
			}
			select {
			case frames <- f:
			case <-quit:
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
		case <-pulse.ticker.C:
			if err := pulse.beat(in != nil); errors.Is(err, errMute) {
				t.cause = errMute
				return err
			} else if err != nil {
				return err
			}
		case <-t.kicked:
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
			for f := range frames { // what it said last is still on its way
				t.hold(f)
			}
			return errGone
		case f, ok := <-in:
			if !ok {
				<-reading
				return readErr
			}
			pulse.open = 0
			if f.IsPong() {
				continue
			}
			if !t.launchBy.IsZero() || t.lastOut == 0 {
				t.launchBy = time.Time{}
				t.hasLaunch() // whatever a bridge says, it says after that
			}
			waits := len(t.held) > 0
			t.gather(f, in)
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

// gather holds f and what else has come, up to a bound.
func (t *tender) gather(f bridge.Frame, frames <-chan bridge.Frame) {
	for size := 0; ; {
		t.hold(f)
		if size += len(f.Body); len(t.held) >= maxBatch || size > 4<<20 {
			return
		}
		select {
		case next, ok := <-frames:
			if !ok {
				return
			}
			f = next
		default:
			return
		}
	}
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

// give sends the bridge what it lacks.
func (t *tender) give(link *bridge.Link) error {
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
		t.sentIn = uint64(in.N) // from here on its bytes may have left
		if bridge.Kind(in.Kind) == bridge.InClose && t.closeBy.IsZero() {
			t.closeBy = time.Now().Add(closeLimit)
		}
		failpoint.Hit("host.input.before")
		if err := link.Send(t.sentIn, kind, body); err != nil {
			return err
		}
		failpoint.Hit("host.input.after")
	}
	return nil
}

// endBy is when the bridge is stopped, zero when nothing is due.
func (t *tender) endBy() time.Time {
	if !t.closeBy.IsZero() {
		return t.closeBy
	}
	return t.launchBy
}

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
