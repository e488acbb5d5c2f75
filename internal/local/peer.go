package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// ErrPeer is wrapped by the refusal of a peer.
var ErrPeer = errors.New("peer refused")

// peer is what the kernel says about the process at the other end of a connection, as of its connect or listen.
type peer struct {
	uid int
	pid int // 0: not known, or outside of this pid namespace
}

// CheckPeer refuses a connection that another user's process made, or one whose process lives in a pid namespace
// below ours or is already gone. What cannot be read does not refuse.
func CheckPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	return onDescriptor(raw, func(fd int) error {
		p, err := peerOf(fd)
		if err != nil {
			return err
		}
		if err := sameUser(p); err != nil {
			return err
		}
		return outsideSessions(fd, p)
	})
}

// ListenerOf is the process that listens at the other end of a connection that was dialled here, 0 where that is not known.
func ListenerOf(conn net.Conn) (pid int) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = onDescriptor(raw, func(fd int) error { // what is not known is 0
		p, err := peerOf(fd)
		pid = p.pid
		return err
	})
	return pid
}

// checkServer refuses a socket at which another user listens.
func checkServer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	return onDescriptor(raw, func(fd int) error {
		p, err := peerOf(fd)
		if err != nil {
			return err
		}
		return sameUser(p)
	})
}

func sameUser(p peer) error {
	if p.uid != os.Getuid() {
		return fmt.Errorf("%w: process %d belongs to uid %d, not to uid %d", ErrPeer, p.pid, p.uid, os.Getuid())
	}
	return nil
}

func onDescriptor(raw interface{ Control(func(uintptr)) error }, do func(fd int) error) error {
	var err error
	if e := raw.Control(func(fd uintptr) { err = do(int(fd)) }); e != nil {
		return e
	}
	return err
}
