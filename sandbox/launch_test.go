package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestStart(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		b := startBridge(t, Launch{Rung: rung, Dir: dir})
		want := Inside{Rung: rung, MountNamespace: rung == PIDNamespace}
		a := b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", "pwd; exit 3"}})
		if a.Inside != want || a.Exit != 3 || a.Signal != "" || strings.TrimSpace(a.Text) != dir {
			t.Errorf("inside %+v, exit %d %s, wrote %q", a.Inside, a.Exit, a.Signal, a.Text)
		}
		r := b.Record()
		if r.BootID == "" || r.PID < 2 || r.Start == 0 || len(r.Marker) < 20 || r.Rung != rung || r.MountNamespace != want.MountNamespace {
			t.Errorf("record %+v", r)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var again Record
		if err := json.Unmarshal(text, &again); err != nil || again != r {
			t.Errorf("record %s read back as %+v: %v", text, again, err)
		}
	})
}

func TestStartChoosesTheBestRung(t *testing.T) {
	best := Probe(within(t))
	b := startBridge(t, Launch{})
	if got := b.Record().Rung; got != best.Rung {
		t.Errorf("started on %s, the best is %s (%v)", got, best.Rung, best.Reasons)
	}
	if (best.Rung == PIDNamespace) != (len(best.Reasons) == 0) {
		t.Errorf("rung %s with reasons %q", best.Rung, best.Reasons)
	}
}

func TestStartFails(t *testing.T) {
	cancelled, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("nobody wants it")
	cancel(cause)
	for name, tt := range map[string]struct {
		ctx  context.Context
		l    Launch
		want string
	}{
		"no command":         {within(t), Launch{Rung: ProcessGroup}, "command line"},
		"no such rung":       {within(t), Launch{Args: []string{Command}, Rung: "cage"}, "cage"},
		"no such directory":  {within(t), Launch{Args: []string{Command}, Rung: ProcessGroup, Dir: "/no/such"}, "no such file"},
		"ended at once":      {within(t), Launch{Args: []string{"exit"}, Rung: ProcessGroup}, "ended before it reported"},
		"cancelled":          {cancelled, Launch{Args: []string{"mute"}, Rung: ProcessGroup}, cause.Error()},
		"cancelled, no rung": {cancelled, Launch{Args: []string{"mute"}}, cause.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Start(tt.ctx, tt.l)
			if err == nil {
				p.Stop(within(t))
				p.Release()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			for _, left := range family(os.Getpid()) {
				t.Errorf("process %d (%q) was left", left.PID, left.Argv)
			}
		})
	}
}

func init() {
	roles["exit"] = func([]string) error { return nil }
	roles["mute"] = linger
}

func TestEnterNeedsALaunch(t *testing.T) {
	if _, err := Enter(); !errors.Is(err, ErrNotLaunched) {
		t.Errorf("Enter without Start: %v", err)
	}
}

// A program that forgets to call Enter would otherwise launch itself for ever.
func TestNoLaunchWithinALaunch(t *testing.T) {
	t.Setenv(setupEnv, "{}")
	if _, err := Start(within(t), Launch{Args: []string{Command}, Rung: ProcessGroup}); err == nil {
		t.Error("a process that never entered could start another")
	}
}

func TestStopLeavesNoZombieAndNoDescriptor(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		cycle := func(l Launch) {
			p, err := Start(within(t), l)
			if err != nil {
				return
			}
			p.Stop(within(t))
			if _, err := lookup(p.Record().PID); err == nil {
				t.Errorf("process %d is still known to the kernel", p.Record().PID)
			}
			p.Release()
		}
		good := Launch{Args: []string{Command, "stay"}, Rung: rung, Files: []*os.File{devNull(t)}}
		bad := Launch{Args: []string{"exit"}, Rung: rung}
		cycle(good) // what the runtime opens once
		before := openDescriptors(t)
		for range 5 {
			cycle(good)
			cycle(bad)
		}
		if after := openDescriptors(t); after > before { // what an earlier test forgot may be closed meanwhile
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// A parent-death signal would be tied to the thread that forked.
func TestBridgeOutlivesItsThread(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		started := make(chan *bridge)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			defer close(started)
			if b, err := tryBridge(t, Launch{Rung: rung}); err != nil {
				t.Error(err)
			} else {
				started <- b
			}
		}()
		b, ok := <-started
		if !ok {
			t.FailNow()
		}
		<-started
		b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", ":"}})
		b.order(t, order{Do: "self"})
	})
}
