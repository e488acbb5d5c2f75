package bridge

import (
	"math"
	"sync"
	"time"
)

// spool keeps out frames until they are acknowledged. put blocks while it is full, which stops the reading of the
// agent; it never drops.
type spool struct {
	max int // bytes; one frame may exceed it when the spool is empty

	mu     sync.Mutex
	cond   *sync.Cond
	frames [][]byte // frames[0] has number first
	first  uint64
	bytes  int
	loud   uint64 // the last frame that somebody may wait for
	closed bool
}

func newSpool(max int) *spool {
	s := &spool{max: max, first: 1}
	s.cond = sync.NewCond(&s.mu)
	return s
}

// put numbers and keeps what encode makes, which also tells whether nobody waits for it. It reports false when the spool was
// closed meanwhile.
func (s *spool) put(encode func(n uint64) (frame []byte, quiet bool)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes >= s.max && len(s.frames) > 0 && !s.closed {
		s.cond.Wait()
	}
	if s.closed {
		return false
	}
	n := s.first + uint64(len(s.frames))
	f, quiet := encode(n)
	s.frames = append(s.frames, f)
	s.bytes += len(f)
	if !quiet {
		s.loud = n
	}
	s.cond.Broadcast()
	return true
}

// ack forgets the frames up to n.
func (s *spool) ack(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.frames) > 0 && s.first <= n {
		s.bytes -= len(s.frames[0])
		s.frames[0] = nil
		s.frames = s.frames[1:]
		s.first++
	}
	s.cond.Broadcast()
}

// bounds returns the first number still kept and the last one given out.
func (s *spool) bounds() (first, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first, s.first + uint64(len(s.frames)) - 1
}

// next returns the frames after n, waiting until there are some or stop says true; wake lets stop be looked at again. Frames
// that nobody waits for linger for those that follow them, and go along with what stop is about.
func (s *spool) next(n uint64, stop func() bool) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	lingered := false
	var timer *time.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for !s.closed {
		now := stop()
		if n+1 < s.first {
			n = s.first - 1
		}
		if i := int(n + 1 - s.first); i < len(s.frames) {
			batch := s.frames[i:]
			if now || s.loud > n || lingered || len(batch) >= lingerMost || s.bytes >= min(lingerBytes, s.max) {
				return append([][]byte(nil), batch[:min(len(batch), 256)]...)
			}
			if timer == nil {
				timer = time.AfterFunc(lingerFor, func() {
					s.mu.Lock()
					defer s.mu.Unlock()
					lingered = true
					s.cond.Broadcast()
				})
			}
		}
		if now {
			return nil
		}
		s.cond.Wait()
	}
	return nil
}

func (s *spool) wake() {
	s.mu.Lock()
	s.cond.Broadcast()
	s.mu.Unlock()
}

// drained waits until everything is acknowledged, at most for d.
func (s *spool) drained(d time.Duration) bool {
	end := time.Now().Add(d) // before the timer: a wake-up that came too early would be the last
	timer := time.AfterFunc(d, s.wake)
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.frames) > 0 && time.Now().Before(end) {
		s.cond.Wait()
	}
	return len(s.frames) == 0
}

// lift removes the bound, so that the end of a session can be put down whatever nobody has fetched yet.
func (s *spool) lift() {
	s.mu.Lock()
	s.max = math.MaxInt
	s.cond.Broadcast()
	s.mu.Unlock()
}

// close refuses further frames and wakes everybody.
func (s *spool) close() {
	s.mu.Lock()
	s.closed = true
	s.cond.Broadcast()
	s.mu.Unlock()
}

// rest returns what was never acknowledged.
func (s *spool) rest() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.frames...)
}
