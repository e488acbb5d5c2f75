package bridge

import (
	"context"
	"slices"
	"testing"

	"github.com/batonmcp/baton/sandbox"
)

// A bridge that is told to end (SIGTERM) does so at once when it has no host, whether it was told before or after it lost
// it, a turn runs or not, and leaves in its spill file what no host has. One with a host leaves its end to the host.
func TestToldToEnd(t *testing.T) {
	for name, c := range map[string]struct{ before, running bool }{
		"without a host, idle":         {before: false, running: false},
		"without a host, in a turn":    {before: false, running: true},
		"before its host ended":        {before: true, running: false},
		"in a turn, and then the host": {before: true, running: true},
	} {
		t.Run(name, func(t *testing.T) {
			told, tell := context.WithCancel(context.Background())
			defer tell()
			w := begin(t, nil, rung(sandbox.PIDNamespace), func(o *Options) { o.Told = told })
			p := w.opened()
			if c.running {
				p.prompt(2, "c")
				p.result(2)
			}
			if c.before {
				tell()
				next := uint64(p.Hello.LastIn) + 2
				if c.running {
					next++
				}
				p.prompt(next, "d") // it still serves
				p.result(next)
			}
			p.Close()
			tell()
			w.gone()
			var kinds []Kind
			var exit Exit
			if err := ReadSpill(w.spill, func(f Frame) error {
				kinds = append(kinds, f.Kind)
				if f.Kind == OutExited {
					exit = body[Exit](t, f)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if n := len(kinds); n < 2 || kinds[n-1] != OutStopped || kinds[n-2] != OutExited || exit.Reason != errTold.Error() || len(exit.Running) > 0 {
				t.Errorf("spilled %q, %+v", kinds, exit)
			}
			if settled := slices.Contains(kinds, OutEvent); (c.running || c.before) && !settled {
				t.Errorf("the turn's end is not among %q", kinds)
			}
		})
	}
}

// Told long ago and still served: what it was told does not count when its host goes for another reason later.
func TestToldLongAgo(t *testing.T) {
	told, tell := context.WithCancel(context.Background())
	tell()
	b := &Bridge{o: Options{Told: told}, conn: &hostConn{}}
	b.heed()
	if b.toldAt.IsZero() {
		t.Fatal("it did not take note")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.toldAt = b.toldAt.Add(-toldLimit - 1)
	b.conn = nil
	b.leaveLocked()
	if b.haste.Load() {
		t.Error("it ends")
	}
}
