package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A host without a live session or a call ends after its time; every end of one begins the time anew.
func TestIdleExit(t *testing.T) { synctest.Test(t, idleExit) }

func idleExit(t *testing.T) {
	const limit = 10 * time.Minute
	began := time.Now()
	h := &Host{tenders: map[string]*tender{}, launches: map[string]launch{}, busySince: began}
	idle := func(limit time.Duration) <-chan time.Duration {
		gone := make(chan time.Duration, 1)
		go func() {
			h.idle(t.Context(), limit)
			gone <- time.Since(began)
		}()
		return gone
	}
	if took := <-idle(limit); took != limit {
		t.Errorf("an unused host stayed %s", took)
	}

	began, h.busySince = time.Now(), time.Now()
	gone := idle(limit)
	live := &tender{session: "s", done: make(chan struct{})}
	time.Sleep(9 * time.Minute)
	h.mu.Lock()
	h.tenders["s"] = live
	h.mu.Unlock()
	time.Sleep(55 * time.Minute) // a session that lives
	h.calls.Add(1)
	h.forget(live)
	time.Sleep(15 * time.Minute) // a call that waits
	h.mu.Lock()
	h.busySince = time.Now()
	h.mu.Unlock()
	h.calls.Add(-1)
	ended := time.Since(began)
	select {
	case took := <-gone:
		t.Fatalf("it was gone after %s", took)
	default:
	}
	if took := <-gone; took < ended+limit || took > ended+2*limit {
		t.Errorf("it stayed %s after its last call", took-ended)
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		h.idle(ctx, -1) // never
		close(done)
	}()
	time.Sleep(1000 * time.Hour)
	synctest.Wait()
	select {
	case <-done:
		t.Error("a host that is to stay has gone")
	default:
	}
	cancel()
	<-done
}
