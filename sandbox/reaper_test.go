package sandbox

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A child may end before it is known, and its pid may be used again before its exit was looked up.
func TestSpawnLosesNoExit(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		b := startBridge(t, Launch{Rung: rung})
		b.order(t, order{Do: "many", Count: 200, Argv: []string{"/bin/sh", "-c"}})
		if left := b.order(t, order{Do: "born"}).Procs; len(left) > 0 {
			t.Errorf("left: %+v", left)
		}
		if left := b.order(t, order{Do: "zombies"}).Procs; rung == PIDNamespace && len(left) > 0 {
			t.Errorf("zombies: %+v", left)
		}
	})
}

func TestSpawnFails(t *testing.T) {
	b := startBridge(t, Launch{Rung: ProcessGroup})
	for want, argv := range map[string][]string{
		"absolute path": {"sh"},
		"no such file":  {"/no/such/program"},
		"permission":    {"/etc"},
		"absolute":      nil,
	} {
		if a := b.try(t, order{Do: "spawn", Argv: argv}); !strings.Contains(a.Err, want) {
			t.Errorf("%q: %q, want %q", argv, a.Err, want)
		}
	}
	b.order(t, order{Do: "many", Count: 3, Argv: []string{"/bin/sh", "-c"}}) // the reaper has lost nothing
}

func TestSignalAndStatus(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		b := startBridge(t, Launch{Rung: rung})
		pid := b.order(t, order{Do: "spawn", Argv: []string{"/bin/sleep", "600"}}).PID
		if a := b.try(t, order{Do: "status", PID: pid, Limit: time.Millisecond}); a.Err == "" {
			t.Errorf("status of a living child: %+v", a)
		}
		b.order(t, order{Do: "signal", PID: pid, Sig: syscall.SIGTERM})
		if a := b.order(t, order{Do: "status", PID: pid}); a.Exit != -1 || a.Signal != "SIGTERM" {
			t.Errorf("%+v", a)
		}
		if a := b.try(t, order{Do: "signal", PID: pid, Sig: syscall.SIGTERM}); a.Err != os.ErrProcessDone.Error() {
			t.Errorf("signal to a reaped child: %+v", a)
		}
	})
}

// Nothing a caller passes can take the marker away.
func TestMarkerIsInEveryEnvironment(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		b := startBridge(t, Launch{Rung: rung})
		got := strings.Fields(b.shell(t, "env", MarkerEnv+"=false", setupEnv+"=false", "A=1"))
		slices.Sort(got)
		want := []string{"A=1", MarkerEnv + "=" + b.Record().Marker, "PATH=/usr/bin:/bin"}
		got = slices.DeleteFunc(got, func(v string) bool { // what the shell adds
			name, _, _ := strings.Cut(v, "=")
			return name == "PWD" || name == "SHLVL" || name == "OLDPWD" || name == "_" || name == "__CF_USER_TEXT_ENCODING"
		})
		if !slices.Equal(got, want) {
			t.Errorf("environment %q, want %q", got, want)
		}
	})
}

// The host's own environment must not reach an agent by way of the bridge.
func TestBridgeInheritsLittle(t *testing.T) {
	t.Setenv("FAKE_TOKEN", "marker")
	t.Setenv("GIT_DIR", "marker")
	b := startBridge(t, Launch{Rung: ProcessGroup})
	for _, v := range b.order(t, order{Do: "environ"}).Env {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains(bridgeEnv, name) && name != MarkerEnv {
			t.Errorf("%s passes", v)
		}
	}
}

func TestI09_BornSeesWhatATurnLeftBehind(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		b := startBridge(t, Launch{Rung: rung})
		standing := b.order(t, order{Do: "spawn", Argv: []string{"/bin/sleep", "600"}}).PID
		turn := afterTick(t)
		b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", "(sleep 601 >/dev/null 2>&1 &) ; :"}})
		var born []Proc
		until(t, "the orphan", func() bool {
			born = b.order(t, order{Do: "born", Since: turn}).Procs
			return len(born) == 1 && slices.Equal(born[0].Argv, []string{"sleep", "601"})
		})
		left := born[0]
		if left.PID < 2 || left.Start == 0 || left.PPID == 0 {
			t.Errorf("%+v", left)
		}
		if all := b.order(t, order{Do: "born"}).Procs; len(all) != 2 {
			t.Errorf("all: %+v", all)
		}
		if later := b.order(t, order{Do: "born", Since: afterTick(t)}).Procs; len(later) != 0 {
			t.Errorf("born later: %+v", later)
		}
		// An identity that does not match is left alone.
		other := left
		other.Start++
		b.order(t, order{Do: "kill", Proc: other})
		if now := b.order(t, order{Do: "born", Since: turn}).Procs; len(now) != 1 {
			t.Errorf("after a kill of another: %+v", now)
		}
		b.order(t, order{Do: "kill", Proc: left})
		b.order(t, order{Do: "kill", Proc: left}) // again is no error
		if now := b.order(t, order{Do: "born"}).Procs; len(now) != 1 || now[0].PID != standing {
			t.Errorf("after the kill: %+v", now)
		}
		if got := b.order(t, order{Do: "killall", Limit: patience}).OK; got != (rung != ProcessGroup) {
			t.Errorf("killall: %v", got)
		}
		if now := b.order(t, order{Do: "born"}).Procs; len(now) != 0 {
			t.Errorf("after killall: %+v", now)
		}
		if a := b.order(t, order{Do: "status", PID: standing}); a.Signal != "SIGKILL" {
			t.Errorf("%+v", a)
		}
		if a := b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", "exit 4"}}); a.Exit != 4 {
			t.Error("the reaper does not go on after killall")
		}
	})
}

// afterTick waits until what starts from now on is told apart from what started before, and returns that moment.
func afterTick(t *testing.T) time.Time {
	t.Helper()
	before := startedSince(time.Now())
	var now time.Time
	until(t, "the next ticks", func() bool { now = time.Now(); return startedSince(now) > before+startSlack })
	return now
}
