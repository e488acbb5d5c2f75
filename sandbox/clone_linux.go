package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// innerID is the user and group that root becomes inside its user namespace. Not 0: bubblewrap, which Codex 0.171 puts
// around every command, fails to set up its own namespace under an inner uid 0.
const innerID = 1000

// clone starts the program with exactly the given descriptors open from 0 on, plus those of ours that lack
// close-on-exec, which Enter closes.
func clone(path string, argv, env []string, dir string, files []*os.File, rung Rung) (int, *handle, error) {
	pidfd := -1
	sys := &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
	if rung == PIDNamespace {
		uid, gid := os.Geteuid(), os.Getegid()
		inUID, inGID := uid, gid
		if uid == 0 {
			inUID, inGID = innerID, innerID
		}
		sys.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: inUID, HostID: uid, Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: inGID, HostID: gid, Size: 1}}
		// Who is not uid 0 inside loses the namespace's capabilities at exec; ambient ones stay until Enter drops them.
		sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	}
	fds, err := descriptors(files)
	if err != nil {
		return 0, nil, err
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Dir: dir, Env: env, Files: fds, Sys: sys})
	runtime.KeepAlive(files)
	if err != nil {
		return 0, nil, fmt.Errorf("clone: %w", err)
	}
	h, err := childHandle(pid, pidfd)
	if err != nil {
		syscall.Kill(pid, syscall.SIGKILL) // not reaped yet: the pid is still its own
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
				break
			}
		}
		return 0, nil, err
	}
	return pid, h, nil
}

func childHandle(pid, pidfd int) (*handle, error) {
	if pidfd < 0 {
		return openHandle(pid)
	}
	return newHandle(pidfd)
}

// descriptors does not use Fd, which would make a listener that the host shares with its bridge blocking.
func descriptors(files []*os.File) ([]uintptr, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		conn, err := f.SyscallConn()
		if err == nil {
			err = conn.Control(func(fd uintptr) { fds[i] = fd })
		}
		if err != nil {
			return nil, fmt.Errorf("descriptor %d of the launch: %w", i, err)
		}
	}
	return fds, nil
}

func readStart(pid int) (uint64, error) {
	i, err := readStat(pid)
	return i.start, err
}

// hints adds what is known to forbid user namespaces.
func hints() []string {
	var out []string
	for _, known := range []struct{ file, value, hint string }{
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts unprivileged user namespaces (kernel.apparmor_restrict_unprivileged_userns=1): give this program a profile that allows userns"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "unprivileged user namespaces are off (kernel.unprivileged_userns_clone=0)"},
		{"/proc/sys/user/max_user_namespaces", "0", "user namespaces are off (user.max_user_namespaces=0)"},
	} {
		if b, err := os.ReadFile(known.file); err == nil && strings.TrimSpace(string(b)) == known.value {
			out = append(out, known.hint)
		}
	}
	return out
}
