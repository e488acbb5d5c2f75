package wire

import "sync"

const (
	queueMessages = 1024
	queueBytes    = 4 << 20
)

// queue stands between the reader and the inbox. It is bounded, so that an agent that nobody listens to is stopped by
// its full pipe, with one exception: while something is being written it takes up to relief bytes more. The consumer
// of the inbox may be the one who writes, and the agent may read only after its own output was taken.
type queue struct {
	relief int

	mu      sync.Mutex
	change  sync.Cond
	items   []Message
	bytes   int
	writing bool
	ended   bool // by the reader: nothing more comes, what is there is still wanted
	dropped bool // by Close: nothing is wanted any more
}

func newQueue(relief int) *queue {
	q := &queue{relief: relief}
	q.change.L = &q.mu
	return q
}

// put waits for room. It reports false once the queue was dropped.
func (q *queue) put(m Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.dropped && q.full() {
		q.change.Wait()
	}
	if q.dropped {
		return false
	}
	q.items = append(q.items, m)
	q.bytes += m.size()
	if len(q.items) == 1 {
		q.change.Broadcast()
	}
	return true
}

func (q *queue) full() bool {
	if q.writing {
		return q.bytes >= q.relief
	}
	return len(q.items) >= queueMessages || q.bytes >= queueBytes
}

// take waits for messages and returns all there are, in exchange for a slice to fill next. None is the end.
func (q *queue) take(spare []Message) []Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.dropped && !q.ended && len(q.items) == 0 {
		q.change.Wait()
	}
	if q.dropped {
		return nil
	}
	got := q.items
	q.items, q.bytes = spare[:0], 0
	q.change.Broadcast()
	return got
}

func (q *queue) set(f func(*queue)) {
	q.mu.Lock()
	f(q)
	q.change.Broadcast()
	q.mu.Unlock()
}

// size is what a message holds in memory, roughly.
func (m *Message) size() int { return 256 + len(m.Params) + len(m.Result) }
