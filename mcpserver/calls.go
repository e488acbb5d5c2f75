package mcpserver

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errCancelled is the cause of a call's context that its client cancelled.
var errCancelled = errors.New("cancelled by the client")

const (
	// maxEarly and earlyLife bound how many cancels wait for their request, and for how long.
	maxEarly  = 256
	earlyLife = time.Minute
	// maxAnswered bounds how many ids are remembered as answered: a cancel that crossed its answer must not be taken
	// for one that overtook the next request of that id.
	maxAnswered = 4096
	// maxKey bounds the ids that are remembered; longer ones are forgotten at once.
	maxKey = 256
)

// verdict is what becomes of a request that arrives.
type verdict int

const (
	begun verdict = iota
	duplicate
	cancelledEarly
	closing
)

// calls are the requests of the client that are not answered yet, and everything else that runs for the connection.
type calls struct {
	mu       sync.Mutex
	inFlight map[string]*call
	early    map[string]time.Time
	answered map[string]bool
	previous map[string]bool // the generation of answered before
	running  int
	closed   bool
	idle     chan struct{} // closed when closed and nothing runs
}

// call is one request in flight.
type call struct {
	key       string
	ctx       context.Context
	end       context.CancelCauseFunc
	cancelled bool
}

func newCalls() *calls {
	return &calls{inFlight: map[string]*call{}, early: map[string]time.Time{}, answered: map[string]bool{}, idle: make(chan struct{})}
}

// begin registers a request before its goroutine starts, so that a cancel in the next line finds it. The goroutine of
// a begun call ends with done.
func (c *calls) begin(ctx context.Context, key string) (*call, verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, closing
	}
	if _, ok := c.inFlight[key]; ok {
		return nil, duplicate
	}
	if at, ok := c.early[key]; ok {
		delete(c.early, key)
		if time.Since(at) < earlyLife {
			return nil, cancelledEarly
		}
	}
	k := &call{key: key}
	k.ctx, k.end = context.WithCancelCause(ctx)
	c.inFlight[key] = k
	c.running++
	return k, begun
}

// cancel ends the context of the call with that id and frees the id. Nothing happens to a call that is answered.
func (c *calls) cancel(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.inFlight[key]; k != nil {
		k.cancelled = true
		delete(c.inFlight, key)
		k.end(errCancelled)
		return
	}
	if len(key) > maxKey || c.answered[key] || c.previous[key] {
		return
	}
	if len(c.early) >= maxEarly {
		c.forgetOldest()
	}
	c.early[key] = time.Now()
}

func (c *calls) forgetOldest() {
	oldest, first := "", time.Time{}
	for key, at := range c.early {
		if first.IsZero() || at.Before(first) {
			oldest, first = key, at
		}
	}
	delete(c.early, oldest)
}

// answer tells whether the call may be answered, and frees its id for the client before the answer is written.
func (c *calls) answer(k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.cancelled {
		return false
	}
	delete(c.inFlight, k.key)
	if len(k.key) <= maxKey {
		if len(c.answered) >= maxAnswered/2 {
			c.answered, c.previous = map[string]bool{}, c.answered
		}
		c.answered[k.key] = true
	}
	return true
}

// spawn runs a function for the connection; false when the connection is ending.
func (c *calls) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running++
	go func() {
		defer c.done()
		f()
	}()
	return true
}

// done is the last thing that a goroutine of a begun call does.
func (c *calls) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.closed && c.running == 0 {
		close(c.idle)
	}
}

// close lets nothing begin any more. idle is closed when what runs has ended.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	if c.running == 0 {
		close(c.idle)
	}
}
