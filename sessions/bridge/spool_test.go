package bridge

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func never() bool { return false }

// keep puts one frame that names its number.
func keep(s *spool) bool {
	return s.put(func(n uint64) ([]byte, bool) { return fmt.Appendf(nil, "frame %d", n), false })
}

func texts(frames [][]byte) []string {
	var out []string
	for _, f := range frames {
		out = append(out, string(f))
	}
	return out
}

func TestSpoolKeepsUntilAcked(t *testing.T) {
	s := newSpool(1 << 20)
	for range 3 {
		keep(s)
	}
	for _, c := range []struct {
		ack         uint64
		first, last uint64
		rest        []string
	}{
		{0, 1, 3, []string{"frame 1", "frame 2", "frame 3"}},
		{2, 3, 3, []string{"frame 3"}},
		{1, 3, 3, []string{"frame 3"}}, // an older acknowledgement takes nothing back
		{3, 4, 3, nil},
		{99, 4, 3, nil}, // of what was never given out
	} {
		s.ack(c.ack)
		first, last := s.bounds()
		if rest := texts(s.rest()); first != c.first || last != c.last || !slices.Equal(rest, c.rest) {
			t.Errorf("ack %d: first %d, last %d, rest %q; want %d, %d, %q", c.ack, first, last, rest, c.first, c.last, c.rest)
		}
	}
	keep(s)
	if got := texts(s.next(3, never)); !slices.Equal(got, []string{"frame 4"}) {
		t.Errorf("after everything was acknowledged: %q", got)
	}
}

func TestSpoolNext(t *testing.T) {
	s := newSpool(1 << 20)
	for range 600 {
		keep(s)
	}
	var got []string
	for len(got) < 600 {
		batch := s.next(uint64(len(got)), never)
		if len(batch) > 256 {
			t.Fatalf("a batch of %d frames", len(batch))
		}
		got = append(got, texts(batch)...)
	}
	for i, g := range got {
		if want := fmt.Sprintf("frame %d", i+1); g != want {
			t.Fatalf("frame %d is %q", i+1, g)
		}
	}
	s.ack(10)
	if got := texts(s.next(3, never))[0]; got != "frame 11" {
		t.Errorf("after 3, of which 10 are forgotten: %q", got)
	}
}

func TestSpoolNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(1 << 20)
		var stop atomic.Bool
		got := make(chan [][]byte)
		next := func() { go func() { got <- s.next(0, stop.Load) }() }
		next()
		synctest.Wait()
		keep(s)
		if batch := <-got; len(batch) != 1 {
			t.Errorf("woken by a frame: %q", texts(batch))
		}
		s.ack(1)
		next()
		synctest.Wait()
		stop.Store(true)
		s.wake()
		if batch := <-got; batch != nil {
			t.Errorf("told to stop: %q", texts(batch))
		}
		stop.Store(false)
		next()
		synctest.Wait()
		s.close()
		if batch := <-got; batch != nil {
			t.Errorf("closed: %q", texts(batch))
		}
	})
}

// Frames that nobody waits for linger for what follows them: until somebody waits for one, their time is over, or they are
// many.
func TestSpoolLingers(t *testing.T) {
	for name, c := range map[string]struct {
		follows func(*spool)
		after   time.Duration
		want    int
	}{
		"nothing follows":           {func(*spool) {}, lingerFor, 2},
		"one that is waited for":    {func(s *spool) { keep(s) }, 0, 3},
		"so many":                   {func(s *spool) { keepQuiet(s, lingerMost-2) }, 0, lingerMost},
		"one less":                  {func(s *spool) { keepQuiet(s, lingerMost-3) }, lingerFor, lingerMost - 1},
		"a long one":                {func(s *spool) { s.put(func(uint64) ([]byte, bool) { return make([]byte, lingerBytes), true }) }, 0, 3},
		"the spool is full of them": {func(s *spool) { s.max = s.bytes }, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpool(1 << 20)
				keep(s)
				got := make(chan [][]byte)
				next := func(n uint64) { go func() { got <- s.next(n, never) }() }
				next(0)
				<-got
				began := time.Now()
				keepQuiet(s, 2)
				next(1)
				synctest.Wait()
				c.follows(s)
				s.wake()
				batch := <-got
				if took := time.Since(began); len(batch) != c.want || took != c.after {
					t.Errorf("%d frames after %s, want %d after %s", len(batch), took, c.want, c.after)
				}
			})
		})
	}
}

// Frames that linger go along with what wakes their sender: else each receipt would have them linger anew.
func TestSpoolLingersNoLongerThanItsSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(1 << 20)
		keepQuiet(s, 2)
		var stop atomic.Bool
		got := make(chan [][]byte)
		began := time.Now()
		go func() { got <- s.next(0, stop.Load) }()
		synctest.Wait()
		stop.Store(true)
		s.wake()
		if batch := <-got; len(batch) != 2 || time.Since(began) > 0 {
			t.Errorf("%d frames after %s", len(batch), time.Since(began))
		}
	})
}

// keepQuiet puts frames that nobody waits for.
func keepQuiet(s *spool, frames int) {
	for range frames {
		s.put(func(uint64) ([]byte, bool) { return []byte("quiet"), true })
	}
}

// A full spool stops whoever has something to say, and loses nothing.
func TestSpoolFull(t *testing.T) {
	for name, c := range map[string]struct {
		free func(*spool)
		want bool
		kept int
	}{
		"acknowledged": {func(s *spool) { s.ack(1) }, true, 2},
		"bound lifted": {func(s *spool) { s.lift() }, true, 3},
		"closed":       {func(s *spool) { s.close() }, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpool(len("frame 1") + 1)
				keep(s)
				keep(s) // the bound is looked at before, so that one frame may exceed it
				put := make(chan bool, 1)
				go func() { put <- keep(s) }()
				synctest.Wait()
				select {
				case <-put:
					t.Fatal("a full spool took a frame")
				default:
				}
				c.free(s)
				if got := <-put; got != c.want {
					t.Errorf("put: %v, want %v", got, c.want)
				}
				if n := len(s.rest()); n != c.kept {
					t.Errorf("%d frames kept, want %d", n, c.kept)
				}
			})
		})
	}
}

// A frame over the bound must pass an empty spool, or nothing ever would.
func TestSpoolTakesOneLongFrame(t *testing.T) {
	s := newSpool(1)
	if !keep(s) {
		t.Fatal("refused")
	}
	s.ack(1)
	if !keep(s) {
		t.Fatal("refused after the first was acknowledged")
	}
}

func TestSpoolDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(1 << 20)
		if !s.drained(time.Hour) {
			t.Error("an empty spool is not drained")
		}
		keep(s)
		began := time.Now()
		if s.drained(2*time.Second) || time.Since(began) != 2*time.Second {
			t.Errorf("gave up after %s", time.Since(began))
		}
		go func() {
			time.Sleep(time.Second) // of the bubble's clock
			s.ack(1)
		}()
		if began = time.Now(); !s.drained(time.Hour) || time.Since(began) != time.Second {
			t.Errorf("drained after %s", time.Since(began))
		}
	})
}
