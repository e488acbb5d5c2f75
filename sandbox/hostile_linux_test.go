package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostile is a process that tries to outlive its session: "hostile MODE TOKEN". The token stays in the command line of
// all its offspring, where an observer outside finds it, whatever they do to their environment.
func hostile(args []string) error {
	mode, token := args[0], args[1]
	switch mode {
	case "tree":
		for range 2 {
			breed(syscall.SysProcAttr{}, "twig", token)
		}
	case "twig":
		for range 2 {
			breed(syscall.SysProcAttr{}, "leaf", token)
		}
	case "daemon": // the classic double fork
		for range 3 {
			daemonise("leaf", token)
		}
	case "deaf":
		ignoreAll()
		daemonise("deafleaf", token)
		breed(syscall.SysProcAttr{}, "deafleaf", token)
	case "deafleaf":
		ignoreAll()
	case "swarm": // bounded: one that is not would fill the machine's pid table
		for range 20 {
			breed(syscall.SysProcAttr{Setsid: true}, "deafleaf", token)
		}
	case "closed":
		daemonise("closedleaf", token)
	case "closedleaf":
		ignoreAll()
		unix.CloseRange(0, 1<<20, 0)
	case "reaper": // orphans stop here and never reach the bridge
		daemonise("subreaper", token)
	case "subreaper":
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		for range 3 {
			daemonise("deafleaf", token)
		}
	case "rootexit":
		daemonise("closedleaf", token)
		return nil
	case "stopped":
		daemonise("stoppedleaf", token)
	case "stoppedleaf":
		ignoreAll()
		unix.Kill(os.Getpid(), unix.SIGSTOP)
	case "nested": // a pid namespace of its own
		breed(syscall.SysProcAttr{
			Setsid: true, Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 7, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 7, HostID: os.Getgid(), Size: 1}},
		}, "subreaper", token)
	case "unmarked": // out of reach of everything but the namespace
		os.Clearenv()
		daemonise("deafleaf", token)
	case "sleeper":
		os.Clearenv()
		daemonise("sleeper2", token)
	case "sleeper2": // daemonises again, so that the bridge's view of its ancestry changes
		daemonise("deafleaf", token)
	case "fork":
		breed(syscall.SysProcAttr{Setsid: true}, args[2], token)
		return nil
	case "leaf":
	default:
		return fmt.Errorf("no mode %q", mode)
	}
	return linger(nil)
}

func init() { roles["hostile"] = hostile }

func breed(sys syscall.SysProcAttr, args ...string) int {
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{"x", "hostile"}, args...), &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &sys})
	if err != nil {
		fmt.Fprintln(os.Stderr, args, err)
	}
	return pid
}

func daemonise(mode, token string) {
	var ws syscall.WaitStatus
	pid := breed(syscall.SysProcAttr{Setsid: true}, "fork", token, mode)
	for {
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

func ignoreAll() {
	for s := unix.Signal(1); s < 65; s++ {
		if s != unix.SIGCHLD && s != unix.SIGURG {
			signal.Ignore(s)
		}
	}
}

// witness looks from outside for what carries the token in its command line, and tells how many of those are leaves,
// which fork no more. It shares nothing with the package.
func witness(t *testing.T, token string) (pids []int, leaves int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(dirs) == 0 {
		t.Fatal("the witness is blind", err)
	}
	for _, d := range dirs {
		line, err := os.ReadFile(d + "/cmdline")
		if err != nil || !bytes.Contains(line, []byte("\x00"+token+"\x00")) {
			continue
		}
		if stat, err := os.ReadFile(d + "/stat"); err != nil || bytes.Contains(stat, []byte(") Z ")) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(d))
		pids = append(pids, pid)
		if bytes.Contains(line, []byte("leaf\x00"+token)) {
			leaves++
		}
	}
	return pids, leaves
}

var hostileModes = []struct {
	mode   string
	leaves int // once all are there
}{
	{"tree", 4}, {"daemon", 3}, {"deaf", 2}, {"swarm", 20}, {"closed", 1}, {"reaper", 3}, {"rootexit", 1}, {"stopped", 1},
	{"nested", 3}, {"unmarked", 1}, {"sleeper", 1},
}

// endings are the ways in which a session ends, each with what it claims.
var endings = []struct {
	name string
	end  func(t *testing.T, b *bridge) (claim bool)
}{
	{"stop", func(t *testing.T, b *bridge) bool {
		v := b.Stop(within(t))
		t.Logf("%s %s in %s: %s", v.State, v.Proof, v.Took, v.Detail)
		return v.State == Confirmed
	}},
	{"bridge kills all", func(t *testing.T, b *bridge) bool {
		began := time.Now()
		a := b.order(t, order{Do: "killall", Limit: 20 * time.Second})
		t.Logf("%v in %s", a.OK, time.Since(began))
		return a.OK
	}},
	{"bridge is killed", func(t *testing.T, b *bridge) bool {
		if err := unix.Kill(b.Record().PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-b.Done()
		v := Settle(within(t), b.Record())
		t.Logf("%s %s in %s: %s", v.State, v.Proof, v.Took, v.Detail)
		return v.State == Confirmed
	}},
}

func TestI10_StoppedMeansProven(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		for _, m := range hostileModes {
			for _, e := range endings {
				t.Run(m.mode+"/"+e.name, func(t *testing.T) {
					if m.mode == "nested" && rung == ProcessGroup && os.Getuid() == 0 {
						t.Skip("root without capabilities cannot map itself into a user namespace")
					}
					b := startBridge(t, Launch{Rung: rung})
					token := "token-" + b.Record().Marker
					t.Cleanup(func() {
						left, _ := witness(t, token)
						for _, pid := range left {
							unix.Kill(pid, unix.SIGKILL)
						}
					})
					b.order(t, order{Do: "spawn", Argv: []string{"/proc/self/exe", "hostile", m.mode, token}, Env: []string{"HOME=/"}})
					until(t, fmt.Sprintf("%d hostile leaves", m.leaves), func() bool { _, n := witness(t, token); return n == m.leaves })
					claim := e.end(t, b)
					left, _ := witness(t, token)
					switch {
					case claim && len(left) > 0:
						t.Errorf("FALSE CLAIM: %d processes live on", len(left))
					case rung == PIDNamespace && !claim:
						t.Error("the namespace ended and was not confirmed")
					case rung == ProcessGroup && claim:
						t.Error("a process group was confirmed")
					}
					switch unseen := m.mode == "unmarked" || m.mode == "sleeper"; {
					case len(left) == 0 && e.name == "bridge is killed" && unseen && rung == ProcessGroup:
						t.Error("nothing outlived its bridge: this mode shows nothing")
					case len(left) > 0 && !unseen:
						t.Errorf("%d processes were not found", len(left))
					}
				})
			}
		}
	})
}
