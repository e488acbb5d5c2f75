package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What proves the end on rung subreaper is a name that only the bridge can give itself.
func TestI10_NobodyElseSaysEmpty(t *testing.T) {
	b := startBridge(t, Launch{Rung: Subreaper})
	pid := b.Record().PID
	for _, script := range []string{"echo '" + emptyName + "' > /proc/%d/comm", "echo '" + emptyName + "' > /proc/%[1]d/task/%[1]d/comm"} {
		if a := b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", fmt.Sprintf(script, pid)}}); a.Exit == 0 {
			t.Errorf("%s: %q", script, a.Text)
		}
	}
	if saysEmpty(pid) {
		t.Error("somebody else named the bridge")
	}
	// Who bears that name is not the bridge.
	agent := b.order(t, order{Do: "spawn", Argv: []string{"/bin/sh", "-c", "printf '" + emptyName + "' > /proc/$$/comm; while :; do /bin/sleep 600; done"}}).PID
	until(t, "the agent's name", func() bool { return saysEmpty(agent) })
	if v := Settle(within(t), b.Record()); v.State != Running {
		t.Errorf("%+v", v)
	}
	if v := b.Stop(within(t)); v.Proof != ProofSubreaper {
		t.Errorf("%+v", v)
	}
}

// A bridge that stands still is woken to end what it has; one that says that it is done starts nothing any more.
func TestI10_AFrozenSubreaperProvesItsEnd(t *testing.T) {
	b := startBridge(t, Launch{Rung: Subreaper})
	b.order(t, order{Do: "spawn", Argv: []string{"/bin/sleep", "600"}})
	if err := unix.Kill(b.Record().PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if v := b.Stop(within(t)); v.Proof != ProofSubreaper {
		t.Errorf("%+v", v)
	}
}

func TestNothingIsStartedAfterTheProof(t *testing.T) {
	b := startBridge(t, Launch{Rung: Subreaper})
	b.order(t, order{Do: "spawn", Argv: []string{"/bin/sleep", "600"}})
	if err := unix.Kill(b.Record().PID, emptySignal); err != nil {
		t.Fatal(err)
	}
	until(t, "the proof", func() bool { return saysEmpty(b.Record().PID) })
	if a := b.try(t, order{Do: "spawn", Argv: []string{"/bin/sleep", "601"}}); !strings.Contains(a.Err, "at its end") {
		t.Errorf("%+v", a)
	}
	if left := marked(b.Record().Marker); len(left) > 1 { // root sees the bridge too
		t.Errorf("left: %+v", left)
	}
	if v := b.Stop(within(t)); v.Proof != ProofSubreaper {
		t.Errorf("%+v", v)
	}
}

// The order to end everything can come as soon as the bridge is launched, before it reaps anything.
func TestI10_AStopRightAfterTheLaunchIsHeard(t *testing.T) {
	b := startBridge(t, Launch{Rung: Subreaper, Args: []string{"late"}})
	if _, err := b.lines.ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(b.Record().PID, emptySignal); err != nil {
		t.Fatal(err)
	}
	until(t, "the proof", func() bool { return saysEmpty(b.Record().PID) })
	if v := b.Stop(within(t)); v.Proof != ProofSubreaper {
		t.Errorf("%+v", v)
	}
}
