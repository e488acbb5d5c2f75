package local

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxPath is what fits into sun_path with its closing zero.
const maxPath = 107

// longAddress reaches the folder through its descriptor: the kernel follows /proc/self/fd/N, however long the path
// behind it is.
func longAddress(dir *os.File, path string) (string, error) {
	short := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if len(short) > maxPath {
		return "", tooLong(path)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", dir.Fd())); err != nil {
		return "", fmt.Errorf("no /proc to shorten it by: %w", tooLong(path))
	}
	return short, nil
}

// beforeBind sets the mode that bind creates the socket file with; Linux takes it from the socket's inode. A umask
// would do the same for every thread of the process.
func beforeBind(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); e != nil {
		return e
	}
	return err
}

func afterBind(string) error { return nil }
