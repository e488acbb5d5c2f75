package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostRole starts a bridge with a process inside, prints its record, and waits to be killed.
func hostRole(args []string) error {
	if len(args) > 1 { // the running program is gone from the disk
		if err := os.Remove(args[1]); err != nil {
			return err
		}
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	p, err := Start(context.Background(), Launch{Rung: Rung(args[0]), Args: []string{Command, "stay"}, Files: []*os.File{theirs}, Log: os.Stderr})
	if err != nil {
		return err
	}
	ours := os.NewFile(uintptr(pair[0]), "ours")
	if err := json.NewEncoder(ours).Encode(order{Do: "spawn", Argv: []string{"/bin/sleep", "600"}}); err != nil {
		return err
	}
	var a reply
	if err := json.NewDecoder(ours).Decode(&a); err != nil || a.Err != "" {
		return fmt.Errorf("%v %s", err, a.Err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(p.Record()); err != nil {
		return err
	}
	return linger(nil)
}

func init() { roles["host"] = hostRole }

// crashedHost runs a host and kills it.
func crashedHost(t *testing.T, cmd *exec.Cmd) Record {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var r Record
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		t.Fatalf("the host said nothing: %v", err)
	}
	t.Cleanup(func() {
		if p, err := Open(r); err == nil {
			p.Stop(within(t))
			p.Release()
		}
	})
	return r
}

// Whoever comes after a crashed host is not the parent of its bridge, and can prove its end all the same.
func TestI10_NextHostProvesTheEnd(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		r := crashedHost(t, role(t, "host", string(rung)))
		if v := Settle(within(t), r); v.State != Running {
			t.Errorf("the bridge did not outlive its host: %+v", v)
		}
		until(t, "the agent that outlives its host", func() bool { // and that a user sees, who does not see the bridge
			return slices.ContainsFunc(marked(r.Marker), func(p Proc) bool { return slices.Equal(p.Argv, []string{"/bin/sleep", "600"}) })
		})
		p, err := Open(r)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		if p.Record() != r {
			t.Errorf("record %+v of %+v", p.Record(), r)
		}
		v := p.Stop(within(t))
		if (v.State == Confirmed) != (rung != ProcessGroup) {
			t.Errorf("%+v", v)
		}
		if left := marked(r.Marker); len(left) > 0 {
			t.Errorf("left: %+v", left)
		}
		if again := p.Stop(within(t)); again.State != v.State || again.Proof != v.Proof {
			t.Errorf("stopped again: %+v", again)
		}
		if again := Settle(within(t), r); (again.State == Confirmed) != (rung == PIDNamespace) { // who saw nothing can prove nothing
			t.Errorf("settled: %+v", again)
		}
	})
}

// A host lives on after an upgrade has replaced its file, and goes on starting bridges of its own version.
func TestStartAfterTheProgramWasDeleted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "sandbox") // not t.TempDir: its parent is private, and the inner user may be another
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	gone := filepath.Join(dir, "gone")
	if err := os.Link(self, gone); err != nil {
		copyFile(t, self, gone)
	}
	rungs(t, func(t *testing.T, rung Rung) {
		path := gone + string(rung)
		copyFile(t, gone, path)
		cmd := exec.CommandContext(within(t), path, "host", string(rung), path)
		cmd.Stderr = os.Stderr
		r := crashedHost(t, cmd)
		p, err := Open(r)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		p.Stop(within(t))
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// inNamespace runs a role as root of new namespaces, where it may change what is the whole machine's elsewhere.
func inNamespace(t *testing.T, flags uintptr, caps []uintptr, name string) string {
	t.Helper()
	needNamespace(t)
	cmd := role(t, name)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: innerID, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: innerID, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: caps,
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}

// Where user namespaces are denied, in many containers, everything works on the next rung and says why.
func TestProbeTellsWhyNot(t *testing.T) {
	out := inNamespace(t, 0, []uintptr{unix.CAP_SYS_RESOURCE, unix.CAP_SYS_ADMIN}, "denied")
	if !strings.Contains(out, "rung subreaper") || !strings.Contains(out, "max_user_namespaces=0") {
		t.Errorf("%s", out)
	}
}

func init() {
	roles["denied"] = func([]string) error {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		began := time.Now()
		c := Probe(ctx)
		first := time.Since(began)
		fmt.Printf("rung %s in %s: %q\n", c.Rung, first, c.Reasons)
		if c.MountNamespace {
			return errors.New("a mount namespace without user namespaces")
		}
		if _, err := Start(ctx, Launch{Rung: PIDNamespace, Args: []string{Command}}); err == nil {
			return errors.New("a forced rung was not refused")
		}
		p, err := Start(ctx, Launch{Args: []string{Command, "stay"}, Files: []*os.File{os.Stdin}})
		if err != nil {
			return err
		}
		defer p.Release()
		if v := p.Stop(ctx); p.Record().Rung != Subreaper || v.Proof != ProofSubreaper {
			return fmt.Errorf("%+v %+v", p.Record(), v)
		}
		return nil
	}
}

// The kernel gives a pid again as soon as it wraps around, within the same 10 ms that a start time can tell.
func TestI10_AReusedPIDIsNotOurs(t *testing.T) {
	out := inNamespace(t, unix.CLONE_NEWPID|unix.CLONE_NEWNS, []uintptr{unix.CAP_SYS_ADMIN}, "reuse")
	if !strings.Contains(out, "reused") {
		t.Errorf("%s", out)
	}
	t.Log(out)
}

func init() {
	roles["reuse"] = func([]string) error {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for range 50 {
			p, err := Start(ctx, Launch{Rung: ProcessGroup, Args: []string{Command, "stay"}, Files: []*os.File{os.Stdin}})
			if err != nil {
				return err
			}
			r := p.Record()
			r.Rung = PIDNamespace // so that a wrong match would also be a wrong proof
			p.Stop(ctx)
			p.Release()
			if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", fmt.Append(nil, r.PID-1), 0); err != nil {
				return err
			}
			other := exec.Command("/bin/sleep", "600")
			if err := other.Start(); err != nil {
				return err
			}
			if other.Process.Pid == r.PID {
				r.Start, err = readStart(r.PID) // as if both had started within one tick
				if err != nil {
					return err
				}
				v := Settle(ctx, r)
				fmt.Printf("pid %d reused: %+v\n", r.PID, v)
				if i, err := readStat(r.PID); err != nil || i.zombie {
					return fmt.Errorf("the newcomer is gone: %v", err)
				}
				if r.PidfdInode != 0 && v.State != Confirmed {
					return errors.New("the newcomer was taken for the recorded process")
				}
				return other.Process.Kill()
			}
			other.Process.Kill()
			other.Wait()
		}
		return errors.New("no pid came again")
	}
}

// What outlived its session is ended whenever it is met, and nobody else is, whatever they carry.
func TestI10_SweepEndsWhatIsMarkedAndNothingElse(t *testing.T) {
	with := func(mark string) *exec.Cmd {
		cmd := role(t, "linger")
		cmd.Env = []string{MarkerEnv + "=" + mark}
		stranger(t, cmd)
		until(t, "its environment", func() bool { return len(marked(mark)) == 1 })
		return cmd
	}
	for _, rung := range []Rung{Subreaper, ProcessGroup} {
		dead, living := startBridge(t, Launch{Rung: rung}), startBridge(t, Launch{Rung: rung})
		dead.Stop(within(t))
		r := dead.Record()
		late := with(r.Marker)
		other := with(r.Marker + "x")
		elsewhere, boot, strong := r, r, r
		elsewhere.PIDScope++
		elsewhere.Marker += "elsewhere"
		boot.BootID, boot.Marker = "another", r.Marker+"boot"
		strong.Rung, strong.Marker = PIDNamespace, r.Marker+"strong"
		bystanders := []*exec.Cmd{other, with(elsewhere.Marker), with(boot.Marker), with(strong.Marker), with(living.Record().Marker + "y")}
		living.order(t, order{Do: "spawn", Argv: []string{"/bin/sleep", "600"}})
		if met := Sweep(within(t), []Record{elsewhere, boot, strong, living.Record(), {}, r}); met != 1 {
			t.Errorf("rung %s: %d met", rung, met)
		}
		if i, err := readStat(late.Process.Pid); err == nil && !i.zombie {
			t.Errorf("rung %s: what is marked lives on", rung)
		}
		for _, b := range bystanders {
			if i, err := readStat(b.Process.Pid); err != nil || i.zombie {
				t.Errorf("rung %s: %q is gone", rung, b.Env)
			}
		}
		if got := len(living.order(t, order{Do: "born"}).Procs); got != 1 {
			t.Errorf("rung %s: %d processes of the living session", rung, got)
		}
		if met := Sweep(within(t), []Record{r}); met != 0 {
			t.Errorf("rung %s: %d met again", rung, met)
		}
	}
}
