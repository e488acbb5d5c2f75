package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter does the first stage and executes the program again, or does the second and returns.
func enter(s setup) (place, error) {
	if s.Stage == stagePrepare {
		return place{}, prepare(s) // returns only when it failed
	}
	if s.Rung == PIDNamespace && os.Getpid() != 1 {
		return place{}, fmt.Errorf("process %d is not process 1", os.Getpid())
	}
	if err := powerless(); err != nil {
		return place{}, err
	}
	if err := closeOnExec(3); err != nil {
		return place{}, err
	}
	// Opened now because once we are not dumpable the file is root's. See Reaper.Spawn.
	oom, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		oom = nil
	}
	name, err := os.OpenFile("/proc/self/comm", os.O_WRONLY, 0) // likewise
	if err != nil && s.Rung == Subreaper {
		return place{}, fmt.Errorf("the name that tells the end: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return place{}, fmt.Errorf("PR_SET_DUMPABLE: %w", err)
	}
	if s.Rung != PIDNamespace {
		// Orphans come back to us: on rung subreaper the proof, below it what lets a census by ancestry find them as long as
		// we live.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return place{}, fmt.Errorf("PR_SET_CHILD_SUBREAPER: %w", err)
		}
	}
	swallowSignals()
	p := place{oom: oom, name: name}
	if s.Rung == Subreaper {
		p.empty = make(chan os.Signal, 1)
		signal.Notify(p.empty, emptySignal)
	}
	if s.Rung == Subreaper && s.Trial {
		if err := orphanReturns(); err != nil {
			return place{}, err
		}
	}
	return p, nil
}

// prepare runs with the capabilities of the new user namespace, on one thread.
func prepare(s setup) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if s.Rung == PIDNamespace {
		if err := arrange(s); err != nil {
			return err
		}
	}
	if err := unix.Chdir(s.Dir); err != nil { // again: the first one may have led below what is now hidden
		return fmt.Errorf("working directory %s: %w", s.Dir, err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("RLIMIT_CORE: %w", err)
	}
	if s.MaxProcesses > 0 { // in a user namespace of its own the count is the session's
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: s.MaxProcesses, Max: s.MaxProcesses}); err != nil {
			return fmt.Errorf("RLIMIT_NPROC: %w", err)
		}
	}
	if err := renounce(); err != nil {
		return err
	}
	if err := closeOnExec(3 + s.Files + 1); err != nil {
		return err
	}
	s.Stage = stageEntered
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.Setenv(setupEnv, string(b)); err != nil {
		return err
	}
	return fmt.Errorf("exec: %w", syscall.Exec(program(), os.Args, os.Environ()))
}

// renounce gives up every capability of this thread, for good and for whatever it executes.
func renounce() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_NO_NEW_PRIVS: %w", err)
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) { // past the last one that the kernel knows
			break
		}
		if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 { // no CAP_SETPCAP: the set only bounds what we cannot gain
			break
		}
		if err != nil {
			return fmt.Errorf("PR_CAPBSET_DROP %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_CAP_AMBIENT_CLEAR_ALL: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}

// powerless checks what renounce did, after the exec.
func powerless() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	if have != ([2]unix.CapUserData{}) {
		return fmt.Errorf("capabilities are left: %x", have)
	}
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on != 1 {
		return fmt.Errorf("no_new_privs is %d: %v", on, err)
	}
	return nil
}

// closeOnExec marks every descriptor from first on. The Go runtime marks what it opens itself, not what was inherited.
func closeOnExec(first int) error {
	err := unix.CloseRange(uint(first), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	names, listErr := os.ReadDir("/proc/self/fd") // before Linux 5.11
	if listErr != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// swallowSignals installs handlers that do nothing for everything that would end a Go program. Not SIG_IGN: that is
// inherited by what we execute, and an agent that ignores SIGTERM never ends in good order.
func swallowSignals() {
	signal.Notify(make(chan os.Signal, 1),
		unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGABRT, unix.SIGPIPE, unix.SIGTRAP, unix.SIGILL,
		unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS, unix.SIGSTKFLT, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGALRM,
		unix.SIGVTALRM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGIO, unix.SIGPWR, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
}
