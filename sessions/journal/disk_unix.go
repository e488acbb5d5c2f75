//go:build unix

package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batonmcp/baton/sessions"
)

// lock takes the lock of the journal's one writer. It is bound to the open file, so it ends with the process however
// that ends, and a second opening in the same process is refused too.
func lock(path string) (func() error, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		err = errors.Join(err, f.Close())
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, sessions.Errorf(sessions.CodeStorageFailed, "%s is locked: another host has the journal open", path).
				Do("use that host, or stop it first")
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	return f.Close, nil
}

// trusted refuses a directory in which somebody else could put or replace the journal.
func trusted(dir string, info fs.FileInfo) error {
	if !info.IsDir() {
		return sessions.Errorf(sessions.CodeStorageFailed, "%s is no directory", dir).Do("name another state directory")
	}
	if err := owned(dir, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return sessions.Errorf(sessions.CodeStorageFailed, "directory %s may be written by others (mode %#o)", dir, info.Mode().Perm()).
			Do("take that right away (chmod 700), or name another state directory")
	}
	return nil
}

func owned(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return sessions.Errorf(sessions.CodeStorageFailed, "%s belongs to user %d, this is user %d", path, st.Uid, os.Geteuid()).
			Do("run as its owner, or name another state directory")
	}
	return nil
}
