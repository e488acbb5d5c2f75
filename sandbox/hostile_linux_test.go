package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostile is a process that tries to outlive its session: "hostile MODE TOKEN ...". The token stays in the command line of
// all its offspring, where an observer outside finds it, whatever they do to their environment. Every one of them that
// does not close its descriptors holds breathFD. Whatever starts others is bounded: one that is not would fill the
// machine's pid table.
func hostile(args []string) error {
	mode, token := args[0], args[1]
	switch mode {
	case "root": // "hostile root TOKEN MODE FIFO"
		fd, err := unix.Open(args[3], unix.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if err := unix.Dup3(fd, breathFD, 0); err != nil {
			return err
		}
		unix.Close(fd)
		return hostile([]string{args[2], token})
	case "tree":
		for range 2 {
			breed(syscall.SysProcAttr{}, "twig", token)
		}
	case "twig":
		for range 2 {
			breed(syscall.SysProcAttr{}, "leaf", token)
		}
	case "setsid":
		breed(syscall.SysProcAttr{Setsid: true}, "setsidtwig", token)
	case "setsidtwig":
		breed(syscall.SysProcAttr{Setsid: true}, "leaf", token)
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
	case "bomb":
		breed(syscall.SysProcAttr{Setsid: true}, "bombleaf", token)
	case "bombleaf":
		ignoreAll()
		runtime.LockOSThread()
		split(49)
	case "closed":
		daemonise("closedleaf", token)
	case "closedleaf":
		ignoreAll()
		unix.CloseRange(0, 1<<20, 0)
	case "guard": // two pairs, each of which replaces the other half
		daemonise("guardleaf", token, "0")
		daemonise("guardleaf", token, "0")
	case "guardleaf":
		guard(token, args[2:])
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
		sys := syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID}
		if os.Getuid() != 0 { // root without capabilities cannot map itself, and goes on as nobody
			sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: 7, HostID: os.Getuid(), Size: 1}}
			sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: 7, HostID: os.Getgid(), Size: 1}}
		}
		breed(sys, "subreaper", token)
	case "sibling": // a child of the bridge that the bridge did not start
		breed(syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_PARENT}, "deafleaf", token)
	case "cgroup":
		moveAway(token)
		daemonise("deafleaf", token)
	case "hopper":
		daemonise("hop", token)
	case "hop":
		ignoreAll()
		runtime.LockOSThread()
		hop(hops)
	case "unmarked": // out of reach of everything but rungs that prove
		os.Clearenv()
		daemonise("deafleaf", token)
	case "sleeper":
		os.Clearenv()
		daemonise("sleeper2", token)
	case "sleeper2": // daemonises again, so that the bridge's view of its ancestry changes
		daemonise("deafleaf", token)
	case "fork":
		breed(syscall.SysProcAttr{Setsid: true}, append([]string{args[2], token}, args[3:]...)...)
		return nil
	case "headless": // its first thread ends, and the process goes on without it
		daemonise("headlessleaf", token)
	case "headlessleaf":
		ignoreAll()
		go linger(nil)
		syscall.Syscall(unix.SYS_EXIT, 0, 0, 0)
	case "leaf":
	default:
		return fmt.Errorf("no mode %q", mode)
	}
	return linger(nil)
}

func init() {
	roles["hostile"] = hostile
	if len(os.Args) > 2 && os.Args[2] == "headlessleaf" {
		runtime.LockOSThread() // to the first thread, until main
	}
}

// breathFD is the write end of a fifo, far from the descriptors that the runtime opens for itself.
const breathFD = 60

func breed(sys syscall.SysProcAttr, args ...string) int {
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{"x", "hostile"}, args...), &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &sys})
	if err != nil {
		fmt.Fprintln(os.Stderr, args, err)
	}
	return pid
}

func daemonise(mode, token string, more ...string) {
	reapOne(breed(syscall.SysProcAttr{Setsid: true}, append([]string{"fork", token, mode}, more...)...))
}

func reapOne(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
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

// guard keeps a peer alive, and takes the place of whoever kept it: "N" or "N PARENT", N being how often that happened.
func guard(token string, args []string) {
	ignoreAll()
	n, _ := strconv.Atoi(args[0])
	if len(args) > 1 {
		for strconv.Itoa(os.Getppid()) == args[1] {
			time.Sleep(time.Millisecond)
		}
		n++
	}
	for ; n < 50; n++ {
		reapOne(breed(syscall.SysProcAttr{Setsid: true}, "guardleaf", token, strconv.Itoa(n), strconv.Itoa(os.Getpid())))
	}
}

// hops bounds a hopper to some seconds.
const hops = 30000

var hopByte [1]byte

// hop forks and exits again and again, so that no look at the process table finds a process that lives a moment later. It
// leaves a byte in the fifo each time, and waits where there is no room for it. After the first fork there is no Go runtime
// to speak of: system calls only.
//
//go:norace
//go:nosplit
func hop(hops int) {
	for ; hops > 0; hops-- {
		pid, _, err := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if err != 0 || pid != 0 {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
		syscall.RawSyscall(unix.SYS_WRITE, breathFD, uintptr(unsafe.Pointer(&hopByte)), 1)
	}
	syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
}

// split forks once and once more, each time into a session of its own, and the children linger. They cost nothing but a
// place in the process table; as in hop there is no runtime in them.
//
//go:norace
//go:nosplit
func split(times int) {
	for ; times > 0; times-- {
		pid, _, err := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if err != 0 || pid != 0 {
			continue
		}
		syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
		syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&twoMinutes)), 0, 0)
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

var twoMinutes = unix.Timespec{Sec: 120}

// moveAway leaves for a cgroup of its own, where it may.
func moveAway(token string) {
	for _, root := range cgroups() {
		dir := filepath.Join(root, token)
		os.Mkdir(dir, 0o755)
		os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
	}
}

// cgroups lists where the second version is mounted.
func cgroups() (roots []string) {
	b, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			roots = append(roots, f[1])
		}
	}
	return roots
}

// I09: a process whose first thread has ended, which /proc shows as a zombie without a command line, is none.
func TestI09_BornSeesWhatLostItsFirstThread(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		b := startBridge(t, Launch{Rung: rung})
		token := "token-" + b.Record().Marker
		b.order(t, order{Do: "spawn", Argv: []string{"/proc/self/exe", "hostile", "headlessleaf", token}, Env: []string{"HOME=/"}})
		until(t, "the end of its first thread", func() bool {
			for _, d := range procDirs(t) {
				if bytes.Contains(ofSomeThread(d, "cmdline"), []byte(token)) {
					stat, _ := os.ReadFile(d + "/stat")
					return bytes.Contains(stat, []byte(") Z "))
				}
			}
			return false
		})
		if born := b.order(t, order{Do: "born"}).Procs; len(born) != 1 || !slices.Contains(born[0].Argv, token) {
			t.Errorf("born: %+v", born)
		}
		if !b.order(t, order{Do: "killall", Limit: patience}).OK && rung != ProcessGroup {
			t.Error("not everything was killed")
		}
		until(t, "the end", func() bool { return len(witness(t, token)) == 1 }) // the bridge carries the marker too
	})
}
