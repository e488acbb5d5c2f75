package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

func peerOf(fd int) (peer, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return peer{}, fmt.Errorf("%w: no credentials: %w", ErrPeer, err)
	}
	return peer{uid: int(c.Uid), pid: int(c.Pid)}, nil
}

// outsideSessions refuses a process that lives in a pid namespace below ours, as those of a contained session do:
// user and group are the same there. A process that is gone is refused as well, since it could have handed its
// connection to one in a session.
func outsideSessions(fd int, p peer) error {
	if p.pid == 0 { // outside of our namespace, where the host of a bridge is
		return nil
	}
	inside, err := nested("/proc", p.pid)
	if err != nil {
		return fmt.Errorf("%w: process %d: %w", ErrPeer, p.pid, err)
	}
	if inside {
		return fmt.Errorf("%w: process %d runs inside a session", ErrPeer, p.pid)
	}
	return alive(fd, p)
}

// alive makes sure that what was read about the pid was read about the peer: the pid cannot have been reused while
// the peer still lives.
func alive(fd int, p peer) error {
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch err {
	case nil:
	case unix.ESRCH, unix.ENODATA, unix.EINVAL:
		return fmt.Errorf("%w: process %d is gone", ErrPeer, p.pid)
	default: // ENOPROTOOPT: SO_PEERPIDFD came with Linux 6.5
		return nil
	}
	defer unix.Close(pidfd)
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err == unix.ESRCH {
		return fmt.Errorf("%w: process %d is gone", ErrPeer, p.pid)
	}
	return nil
}

var errGone = errors.New("it is gone")

// nested tells whether the process lives in a pid namespace other than ours, by its namespace link, and where that may
// not be read by its status: it has one NSpid for every namespace from the one of the mount down to its own.
func nested(proc string, pid int) (bool, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	ours, err := os.Readlink(filepath.Join(proc, "self/ns/pid"))
	if err == nil {
		theirs, err := os.Readlink(filepath.Join(dir, "ns/pid"))
		if err == nil {
			return theirs != ours, nil
		}
		if gone(err) {
			return false, errGone
		}
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if gone(err) {
		if _, e := os.Stat(filepath.Join(proc, "self")); e != nil {
			return false, nil // no usable /proc at all
		}
		return false, errGone
	}
	if err != nil {
		return false, nil
	}
	for line := range bytes.Lines(status) {
		if ids, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			return len(bytes.Fields(ids)) > 1, nil
		}
	}
	return false, nil
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}
