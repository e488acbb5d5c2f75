package journal

import (
	"sync"
	"sync/atomic"
)

// job is one update on its way through the writer.
type job struct {
	fn      func(*Tx) error
	err     error
	behind  bool // it ran in a transaction in which one before it had written: what it saw may come to nothing
	faulty  bool // its error is the storage's
	wrote   bool // it left changes
	touched []string
	done    chan struct{}
	claimed atomic.Bool // by the writer, which runs it, or by its caller, who left
}

// queue is where updates wait for the writer: a caller is woken once, when its update is durable, and not also when the
// writer takes it.
type queue struct {
	ready chan struct{} // holds one when there may be something in jobs

	mu     sync.Mutex
	jobs   []*job
	closed bool
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// put adds an update, unless the queue was closed.
func (q *queue) put(k *job) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.jobs = append(q.jobs, k)
	first := len(q.jobs) == 1
	q.mu.Unlock()
	if first {
		q.signal()
	}
	return true
}

// signal wakes the writer when it waits.
func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns the update that has waited longest and whose caller has not left, or nil.
func (q *queue) take() *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.jobs) > 0 {
		k := q.jobs[0]
		q.jobs[0] = nil
		if q.jobs = q.jobs[1:]; len(q.jobs) == 0 {
			q.jobs = nil
		}
		if k.claimed.CompareAndSwap(false, true) {
			return k
		}
	}
	return nil
}

// again has the writer look once more when something is left.
func (q *queue) again() {
	q.mu.Lock()
	left := len(q.jobs) > 0
	q.mu.Unlock()
	if left {
		q.signal()
	}
}

// close refuses what waits and what is put later.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	for k := q.take(); k != nil; k = q.take() {
		k.err = ErrClosed
		close(k.done)
	}
}
