package sandbox

import (
	"errors"
	"os/exec"
	"testing"
)

// stranger starts a process that no launch made, and its true identity.
func stranger(t *testing.T, cmd *exec.Cmd) Record {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return identity(t, cmd.Process.Pid)
}

func identity(t *testing.T, pid int) Record {
	t.Helper()
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	h, err := openHandle(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	start, err := readStart(pid)
	if err != nil {
		t.Fatal(err)
	}
	return Record{BootID: boot, PID: pid, Start: start, PidfdInode: h.inode, PIDScope: pidScope(), Rung: PIDNamespace, Marker: "nobody"}
}

func TestI10_OnlyTheRecordedProcessIsOurs(t *testing.T) {
	live := stranger(t, role(t, "linger"))
	for name, tt := range map[string]struct {
		change func(*Record)
		want   State
		proof  Proof
		gone   bool
	}{
		"the very process":        {func(*Record) {}, Running, ProofNone, false},
		"without pidfd inode":     {func(r *Record) { r.PidfdInode = 0 }, Running, ProofNone, false},
		"another start time":      {func(r *Record) { r.Start++; r.PidfdInode = 0 }, Confirmed, ProofPIDNamespace, true},
		"another boot":            {func(r *Record) { r.BootID = "another" }, Confirmed, ProofReboot, true},
		"another boot, any rung":  {func(r *Record) { r.BootID = "another"; r.Rung = ProcessGroup }, Confirmed, ProofReboot, true},
		"a pid that is free":      {func(r *Record) { r.PID = 1<<22 + 1 }, Confirmed, ProofPIDNamespace, true},
		"free, on a weak rung":    {func(r *Record) { r.PID = 1<<22 + 1; r.Rung = ProcessGroup }, Unconfirmed, ProofNone, true},
		"free, a subreaper":       {func(r *Record) { r.PID = 1<<22 + 1; r.Rung = Subreaper }, Unconfirmed, ProofNone, true},
		"another boot, subreaper": {func(r *Record) { r.BootID = "another"; r.Rung = Subreaper }, Confirmed, ProofReboot, true},
		"another pid namespace":   {func(r *Record) { r.PIDScope++ }, Unconfirmed, ProofNone, false},
		"no boot":                 {func(r *Record) { r.BootID = "" }, Unconfirmed, ProofNone, false},
		"no rung":                 {func(r *Record) { r.Rung = "" }, Unconfirmed, ProofNone, false},
		"nothing to compare":      {func(r *Record) { r.Start, r.PidfdInode = 0, 0 }, Unconfirmed, ProofNone, false},
		"process 1":               {func(r *Record) { r.PID = 1 }, Unconfirmed, ProofNone, false},
		"never started":           {func(r *Record) { *r = Record{} }, Confirmed, ProofNeverStarted, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := live
			tt.change(&r)
			v := Settle(within(t), r)
			if v.State != tt.want || v.Proof != tt.proof || len(v.Suspects) > 0 {
				t.Errorf("%+v", v)
			}
			if v.State == Unconfirmed && v.Detail == "" {
				t.Error("unconfirmed for no reason")
			}
			p, err := Open(r)
			if err == nil {
				p.Release()
			}
			if errors.Is(err, ErrGone) != tt.gone || (err == nil) != (tt.want == Running) {
				t.Errorf("open: %v", err)
			}
		})
	}
	if now := identity(t, live.PID); now != live {
		t.Errorf("the stranger is %+v now", now)
	}
}

// A zombie answers kill(pid, 0) for as long as its parent does not care.
func TestI10_AZombieIsGone(t *testing.T) {
	cmd := role(t, "linger")
	r := stranger(t, cmd)
	cmd.Process.Kill() // reaped at the end of the test only
	until(t, "the zombie", func() bool { i, err := lookup(r.PID); return err == nil && i.zombie })
	if v := Settle(within(t), r); v.State != Confirmed || v.Proof != ProofPIDNamespace {
		t.Errorf("%+v", v)
	}
	if _, err := Open(r); !errors.Is(err, ErrGone) {
		t.Errorf("open: %v", err)
	}
}

func TestStopAndSettle(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		b := startBridge(t, Launch{Rung: rung})
		if v := Settle(within(t), b.Record()); v.State != Running {
			t.Errorf("before: %+v", v)
		}
		second, err := Open(b.Record())
		if err != nil {
			t.Fatal(err)
		}
		defer second.Release()
		// A subreaper's end is known to whoever saw it before it was gone, and to nobody else.
		seen := map[Rung]Proof{PIDNamespace: ProofPIDNamespace, Subreaper: ProofSubreaper, ProcessGroup: ProofNone}[rung]
		unseen := map[Rung]Proof{PIDNamespace: ProofPIDNamespace, Subreaper: ProofNone, ProcessGroup: ProofNone}[rung]
		for _, v := range []struct {
			name string
			Verdict
			want Proof
		}{
			{"stopped by its record", second.Stop(within(t)), seen},
			{"stopped by its record again", second.Stop(within(t)), seen},
			{"stopped", b.Stop(within(t)), unseen},
			{"settled", Settle(within(t), b.Record()), unseen},
		} {
			if v.Proof != v.want || (v.State == Confirmed) != (v.want != ProofNone) || len(v.Suspects) > 0 {
				t.Errorf("%s: %+v", v.name, v.Verdict)
			}
		}
		<-b.Done()
		<-second.Done()
		if _, err := Open(b.Record()); !errors.Is(err, ErrGone) {
			t.Errorf("open: %v", err)
		}
	})
}

// After Release nothing is claimed any more.
func TestReleaseClaimsNothing(t *testing.T) {
	b := startBridge(t, Launch{Rung: ProcessGroup})
	p, err := Open(b.Record())
	if err != nil {
		t.Fatal(err)
	}
	p.Release()
	if v := p.Stop(within(t)); v.State != Unconfirmed {
		t.Errorf("%+v", v)
	}
	b.order(t, order{Do: "self"})
}
