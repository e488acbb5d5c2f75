package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handle refers to one process for good: a pidfd. It may be waited for by one goroutine at a time.
type handle struct {
	inode uint64 // 0 where the kernel gives all pidfds the same
	file  *os.File
}

// newHandle takes over a pidfd. It is made non-blocking so that the runtime's poller waits for it, without a thread.
func newHandle(fd int) (*handle, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("pidfd: %w", err)
	}
	h := &handle{file: os.NewFile(uintptr(fd), "pidfd")}
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.PID_FS_MAGIC && unix.Fstat(fd, &st) == nil {
		h.inode = st.Ino
	}
	return h, nil
}

// openHandle is ErrGone when there is no such process, a zombie excepted.
func openHandle(pid int) (*handle, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		return nil, ErrGone // the last two: the number is now a thread's, not a process's
	case err != nil:
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	return newHandle(fd)
}

// control runs f with the descriptor, which stays open meanwhile.
func (h *handle) control(f func(fd int) error) error {
	conn, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// signal is ErrGone when the process was reaped; a signal to a zombie succeeds and means nothing.
func (h *handle) signal(s syscall.Signal) error {
	err := h.control(func(fd int) error { return unix.PidfdSendSignal(fd, s, nil, 0) })
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return err
}

// gone tells whether the process has ended, as a zombie too.
func (h *handle) gone() bool {
	var ended bool
	err := h.control(func(fd int) error { ended = readable(fd); return nil })
	return err == nil && ended
}

// wait returns nil when the process has ended.
func (h *handle) wait(ctx context.Context) error {
	conn, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { h.file.SetReadDeadline(time.Unix(1, 0)) })()
	err = conn.Read(func(fd uintptr) bool { return readable(int(fd)) })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// reap takes the exit status of an ended child. For a process that is not our child it does nothing.
func (h *handle) reap() {
	h.control(func(fd int) error { return unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil) })
}

func (h *handle) close() { h.file.Close() }

func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err == unix.EINTR {
			continue
		}
		return n == 1 && fds[0].Revents&unix.POLLIN != 0
	}
}
