package bridge

import (
	"sync"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// flushAfter is how late a streamed text may be; flushAt is the size at which it no longer waits.
const (
	flushAfter = 20 * time.Millisecond
	flushAt    = 32 << 10
)

// recorder is the bridge's end of an adapter's Sink: it joins the deltas of one text item that come within a flush
// window, and puts everything else through in order.
type recorder struct {
	out func(sessions.Event) // numbers and keeps; blocks while the spool is full

	mu      sync.Mutex
	pending *sessions.Event
	text    []byte
	timer   *time.Timer
	closed  bool           // nothing waits for a window any more
	armed   sync.WaitGroup // the timers' functions, while they are due
}

func newRecorder(out func(sessions.Event)) *recorder { return &recorder{out: out} }

// Emit implements sessions.Sink.
func (r *recorder) Emit(e sessions.Event) {
	if e.At.IsZero() {
		e.At = time.Now().UTC()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !joinable(e) {
		r.flushLocked()
		r.out(e)
		return
	}
	if p := r.pending; p != nil && (p.Kind != e.Kind || p.Item != e.Item || p.Command != e.Command || p.Turn != e.Turn || p.Agent != e.Agent || p.Late != e.Late) {
		r.flushLocked()
	}
	if r.pending == nil {
		r.pending = &e
		if !r.closed {
			r.armed.Add(1)
			r.timer = time.AfterFunc(flushAfter, func() {
				defer r.armed.Done()
				r.Flush() // what waits by now may be a later text: that only makes it early
			})
		}
	}
	r.text = append(r.text, e.Text...)
	if len(r.text) >= flushAt || r.closed {
		r.flushLocked()
	}
}

func joinable(e sessions.Event) bool {
	switch e.Kind {
	case sessions.EventText, sessions.EventReasoning, sessions.EventPlan:
		return !e.Final && !e.Abandoned && e.Data == nil && e.Raw == nil
	}
	return false
}

// Flush puts through what still waits for its window.
func (r *recorder) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushLocked()
}

// close is a last Flush, and returns when no timer is left. What comes later is put through at once.
func (r *recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.flushLocked()
	r.mu.Unlock()
	r.armed.Wait() // only here, where none is added any more
}

func (r *recorder) flushLocked() {
	if r.pending == nil {
		return
	}
	if r.timer != nil && r.timer.Stop() {
		r.armed.Done()
	}
	e := *r.pending
	e.Text = string(r.text)
	r.pending, r.text, r.timer = nil, r.text[:0], nil
	r.out(e)
}
