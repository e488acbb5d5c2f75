package host

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

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
	handed   []handed        // inputs that their commit gave to the tender itself
	look     bool            // there are others, which the journal alone has
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
		case t.cause != nil, t.rests(err), t.asked() && !t.ending, why != nil && t.unwanted():
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

// rests tells whether the bridge has done all of its work, and waits to be seen without descendants: it listens no more.
func (t *tender) rests(err error) bool {
	return t.record.Rung == sandbox.Subreaper && errors.Is(err, syscall.ECONNREFUSED)
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
