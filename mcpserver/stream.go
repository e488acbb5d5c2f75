package mcpserver

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// heartbeat is how often an idle event stream says that it lives; it is also how a client that is gone is found out.
	heartbeat = 20 * time.Second
	// streamPatience bounds one write to a client that does not read.
	streamPatience = 30 * time.Second
	// What a stream keeps for a client that comes back, or has not come yet. The oldest go first, those that were never
	// carried too: only a stream that nobody reads gets that long.
	maxKeptMessages = 1024
	maxKeptBytes    = 4 << 20
	// maxKeptOfAll bounds what the streams of one endpoint keep together. Beyond it those that nobody reads keep nothing.
	maxKeptOfAll = 64 << 20
)

// stream is a sequence of messages to a client over HTTP: those that belong to one request, or those that belong to none.
// It is written whether somebody reads it or not, and outlives its connections; each message travels on one of them, the
// newest, unless a client asks for it again.
type stream struct {
	id   string // within its session; "": its messages carry no ids, and cannot be asked for again (2026-07-28)
	born bool   // each connection begins with an event without a message, so that it can be taken up again (2025-11-25)

	mu      sync.Mutex
	kept    [][]byte // the messages that are kept, the oldest first
	first   int      // the number of kept[0]; messages are numbered from 1
	sent    int      // the number of the last message that a connection carried
	bytes   int
	total   *atomic.Int64 // of all streams of its endpoint; nil: it does not count
	ended   bool          // nothing follows
	code    int           // of the error that it ended with; 0: none
	awaited bool          // its first connection waits for it
	wake    chan struct{}
	readers []*streamReader // the connections, the newest last
}

// streamReader is one connection.
type streamReader struct {
	last   int  // the number of the last message that it is past
	behind bool // a newer one carries the messages
}

func newStream(id string, primed bool) *stream {
	return &stream{id: id, born: primed, first: 1, awaited: true, wake: make(chan struct{})}
}

type streamKey struct{}

// withStream says to which stream belongs what is sent on behalf of a request; nil: to none.
func withStream(ctx context.Context, s *stream) context.Context {
	return context.WithValue(ctx, streamKey{}, s)
}

func streamOf(ctx context.Context) *stream {
	s, _ := ctx.Value(streamKey{}).(*stream)
	return s
}

// changed wakes the connections; mu is held.
func (s *stream) changed() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// put adds a message; false when the stream has ended.
func (s *stream) put(line []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(line)
}

func (s *stream) add(line []byte) bool {
	if s.ended {
		return false
	}
	line = escapeSeparators(line)
	s.kept = append(s.kept, line)
	s.count(len(line))
	for s.tooMuch() {
		s.count(-len(s.kept[0]))
		s.kept[0] = nil
		s.kept = s.kept[1:]
		s.first++
	}
	s.changed()
	return true
}

// tooMuch tells whether the oldest message goes; mu is held.
func (s *stream) tooMuch() bool {
	if len(s.kept) > 1 && (len(s.kept) > maxKeptMessages || s.bytes > maxKeptBytes) {
		return true
	}
	return len(s.kept) > 0 && s.total != nil && s.total.Load() > maxKeptOfAll && !s.awaited && len(s.readers) == 0
}

// count adds to what is kept; mu is held.
func (s *stream) count(bytes int) {
	s.bytes += bytes
	if s.total != nil {
		s.total.Add(int64(bytes))
	}
}

// release takes the stream out of what its endpoint keeps: nobody can ask for it any more.
func (s *stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total != nil {
		s.total.Add(-int64(s.bytes))
		s.total = nil
	}
}

// finish ends the stream, with an answer unless it is empty.
func (s *stream) finish(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if a.line != nil {
		s.add(a.line)
	}
	s.ended, s.code = true, a.code
	s.changed()
}

// attended tells whether somebody reads the stream now, or is about to.
func (s *stream) attended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.awaited || len(s.readers) > 0
}

// alone waits for an answer that comes without anything before it. It returns an empty one when something else comes
// first, or nothing will, or patience is over, or ctx is.
func (s *stream) alone(ctx context.Context, patience time.Duration) answer {
	t := time.NewTimer(patience)
	defer t.Stop()
	for {
		s.mu.Lock()
		going, wake := s.ended || len(s.kept) > 0, s.wake
		var a answer
		if s.ended && len(s.kept) == 1 {
			a = answer{line: s.kept[0], code: s.code}
		}
		s.mu.Unlock()
		if going {
			return a
		}
		select {
		case <-wake:
		case <-t.C:
			return a
		case <-ctx.Done():
			return a
		}
	}
}

// holds tells whether what follows a message is still kept.
func (s *stream) holds(after int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return after >= s.first-1 && after < s.first+len(s.kept)
}

// carry writes the stream as server-sent events, from the message after a number on, or what was never carried when that is
// negative, until it ends or ctx does.
func (s *stream) carry(ctx context.Context, w http.ResponseWriter, after int) {
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	c := http.NewResponseController(w)
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }() // the next response of the connection has none
	write := func(b []byte) bool {
		// Not every writer has deadlines; one that has none is a test's.
		_ = c.SetWriteDeadline(time.Now().Add(streamPatience))
		_, err := w.Write(b)
		return err == nil && c.Flush() == nil
	}
	r := &streamReader{last: after}
	s.mu.Lock()
	if after < 0 {
		r.last = s.sent
	}
	s.readers, s.awaited = append(s.readers, r), false
	s.changed()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.readers = slices.DeleteFunc(s.readers, func(x *streamReader) bool { return x == r })
		s.changed()
	}()
	if s.born && !write(s.event(r.last, nil)) || !s.born && c.Flush() != nil {
		return
	}
	t := time.NewTicker(heartbeat)
	defer t.Stop()
	for {
		before := r.last
		out, over, wake := s.next(r)
		if len(out) > 0 {
			if !write(out) {
				s.mu.Lock()
				s.sent = min(s.sent, before) // the next connection carries it
				s.mu.Unlock()
				return
			}
			continue
		}
		if over {
			return
		}
		select {
		case <-wake:
		case <-t.C:
			if !write([]byte(": alive\n\n")) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// next is what a connection has to carry now. One that is not the newest, or was left behind, carries nothing.
func (s *stream) next(r *streamReader) (out []byte, over bool, wake chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.readers, r) {
		return nil, true, s.wake
	}
	if s.readers[len(s.readers)-1] != r {
		r.behind = true
		return nil, s.ended, s.wake
	}
	if r.behind {
		r.last, r.behind = max(r.last, s.sent), false
	}
	last := s.first + len(s.kept) - 1
	for n := max(r.last+1, s.first); n <= last; n++ {
		out = append(out, s.event(n, s.kept[n-s.first])...)
		r.last, s.sent = n, max(s.sent, n)
	}
	return out, s.ended, s.wake
}

// event is one server-sent event. A message has no line ends.
func (s *stream) event(number int, line []byte) []byte {
	b := make([]byte, 0, len(line)+48)
	if s.id != "" {
		b = append(b, "id: "+s.id+"."+strconv.Itoa(number)+"\n"...)
	}
	if line == nil {
		b = append(b, "retry: 1000\n"...)
	}
	b = append(b, "data: "...)
	b = append(b, line...)
	return append(b, "\n\n"...)
}
