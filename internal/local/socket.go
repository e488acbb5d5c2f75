package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listener is a listening unix socket that hands out only connections of peers that CheckPeer lets in. Closing it
// leaves the path alone: another process may have bound it anew meanwhile. Remove takes it away.
type Listener struct {
	*net.UnixListener
	path     string
	dev, ino uint64

	// Refused is told why a connection was closed at once; nil: nobody is. Set it before the first Accept.
	Refused func(error)
}

// Listen listens at path, in a private folder, for this user alone. A socket that is already there is never removed,
// alive or not: that is an error that wraps syscall.EADDRINUSE.
func Listen(path string) (*Listener, error) {
	dir, err := OpenPrivate(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	address, err := address(dir, path)
	if err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: beforeBind}
	l, err := config.Listen(context.Background(), "unix", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen at %s: %w", path, cause(err))
	}
	unixListener := l.(*net.UnixListener)
	unixListener.SetUnlinkOnClose(false)
	if err := afterBind(path); err != nil {
		unixListener.Close()
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		unixListener.Close()
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return &Listener{UnixListener: unixListener, path: path, dev: uint64(st.Dev), ino: st.Ino}, nil
}

// Accept waits for the next connection of a peer that may come in.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if err := CheckPeer(conn); err != nil {
			conn.Close()
			if l.Refused != nil {
				l.Refused(err)
			}
			continue
		}
		return conn, nil
	}
}

// Path is where it listens.
func (l *Listener) Path() string { return l.path }

// Present tells whether the path still leads to this socket.
func (l *Listener) Present() bool {
	var st unix.Stat_t
	return unix.Lstat(l.path, &st) == nil && uint64(st.Dev) == l.dev && st.Ino == l.ino
}

// Remove takes the socket's path away, unless something else is there by now. What it cannot rule out is a socket bound
// between its look and its removal; the lock that guards the path does.
func (l *Listener) Remove() error {
	if !l.Present() {
		return nil
	}
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Dial connects to the socket at path and checks that this user listens there. It waits, within ctx, while the other
// side's queue of connections is full. Nobody listening is an error that wraps syscall.ECONNREFUSED, a missing socket
// or folder one that wraps fs.ErrNotExist.
func Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	dir, err := OpenPrivate(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	address, err := address(dir, path)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", address)
		if err == nil {
			c := conn.(*net.UnixConn)
			if err := checkServer(c); err != nil {
				c.Close()
				return nil, err
			}
			return c, nil
		}
		// Linux answers EAGAIN, not a wait, when a non-blocking connect meets a full backlog.
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, fmt.Errorf("cannot connect to %s: %w", path, cause(err))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot connect to %s, whose queue is full: %w", path, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Reachable tells whether path can be a socket's path here, with an error that names path, length and limit.
func Reachable(path string) error {
	dir, err := OpenPrivate(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	_, err = address(dir, path)
	return err
}

// address is the path itself while it fits into a sockaddr_un, else what the system has for longer ones.
func address(dir *os.File, path string) (string, error) {
	if len(path) <= maxPath {
		return path, nil
	}
	return longAddress(dir, path)
}

func tooLong(path string) error {
	return fmt.Errorf("socket path %s has %d bytes, and the limit of this system is %d: choose a shorter BATON_HOME or XDG_RUNTIME_DIR: %w",
		path, len(path), maxPath, syscall.ENAMETOOLONG)
}

// cause drops the address that net puts into its errors: for a long path it is not one that anybody knows.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
