package remote

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		ours, theirs string
		want         bool
	}{
		{"1.2.0", "1.1.9", true}, {"1.2.0", "1.2.0", false}, {"1.1.9", "1.2.0", false}, {"1.0.0", "1.0.0-rc1", true},
		{"0.1.0-dev", "0.1.0-dev", false}, {"", "1.0.0", false}, {"1.0.0", "", false}, {"devel", "0.1.0", false},
	} {
		if got := newer(c.ours, c.theirs); got != c.want {
			t.Errorf("newer(%q, %q) = %v", c.ours, c.theirs, got)
		}
	}
}

// TestNewerFrontEndReplacesAnOlderHost: the older host is asked to stop, once, and the call is answered by the next one;
// a front end of the same or an older release leaves the host alone.
func TestNewerFrontEndReplacesAnOlderHost(t *testing.T) {
	for _, c := range []struct {
		version string
		stops   int
	}{{"2.0.0", 1}, {"1.0.0", 0}, {"0.9.0", 0}, {"", 0}} {
		t.Run(c.version, func(t *testing.T) {
			path := socket(t)
			var stops atomic.Int32
			var old, next fake
			var stopOld func()
			ended, gone := make(chan struct{}), make(chan struct{})
			stopOld = run(t, path, Handler(&old, HandlerOptions{
				Status: func() Status { return Status{Version: "1.0.0", Protocol: Protocol} },
				Stop: func(context.Context) (Stopped, error) {
					stops.Add(1)
					close(ended)
					return Stopped{}, nil
				}}))
			client := New(Options{Socket: path, Version: c.version, Start: func(context.Context) error {
				if c.stops > 0 {
					<-gone // its socket is free, as the lock sees to between hosts
				}
				run(t, path, Handler(&next, HandlerOptions{Status: func() Status { return Status{Version: c.version, Protocol: Protocol} }}))
				return nil
			}})
			if c.stops > 0 {
				go func() { // as a host does that was asked to stop
					<-ended
					stopOld()
					close(gone)
				}()
			}
			for range 2 {
				if _, err := client.List(t.Context(), sessions.Caller{}, sessions.ListArgs{}); err != nil {
					t.Fatal(err)
				}
			}
			if n := int(stops.Load()); n != c.stops {
				t.Errorf("the host was asked to stop %d times", n)
			}
			if c.stops == 0 && len(old.taken()) != 2 {
				t.Errorf("the host of the same release got %d calls", len(old.taken()))
			}
		})
	}
}
