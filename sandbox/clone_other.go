//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

func clone(path string, argv, env []string, dir string, files []*os.File, rung Rung) (int, *handle, error) {
	if rung != ProcessGroup {
		return 0, nil, fmt.Errorf("there is no rung %s on %s, Linux has it: %w", rung, runtime.GOOS, errors.ErrUnsupported)
	}
	fds := make([]uintptr, len(files))
	for i, f := range files {
		conn, err := f.SyscallConn()
		if err == nil {
			err = conn.Control(func(fd uintptr) { fds[i] = fd })
		}
		if err != nil {
			return 0, nil, fmt.Errorf("descriptor %d of the launch: %w", i, err)
		}
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Dir: dir, Env: env, Files: fds, Sys: &syscall.SysProcAttr{Setsid: true}})
	runtime.KeepAlive(files)
	if err != nil {
		return 0, nil, fmt.Errorf("fork: %w", err)
	}
	h, err := openHandle(pid)
	if err != nil {
		syscall.Kill(pid, syscall.SIGKILL) // not reaped yet: the pid is still its own
		syscall.Wait4(pid, nil, 0, nil)
		return 0, nil, err
	}
	return pid, h, nil
}

func readStart(pid int) (uint64, error) {
	i, err := lookup(pid)
	return i.start, err
}

func hints() []string { return nil }
