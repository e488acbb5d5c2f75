package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrReplaced tells that a path leads to another directory than the one that was looked at.
var ErrReplaced = errors.New("it is not the directory any more that was looked at")

// Pin is a directory as it was looked at. Who opens it later gets that very one or an error, whatever was put in its place
// meanwhile: the path is one without symbolic links, and the numbers are those of its file system and of itself there.
type Pin struct {
	Path string `json:"path"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
}

// PinDir looks at a directory.
func PinDir(path string) (Pin, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return Pin{}, &os.PathError{Op: "look at", Path: path, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return Pin{}, &os.PathError{Op: "look at", Path: path, Err: syscall.ENOTDIR}
	}
	return Pin{Path: path, Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// Open opens the directory, for Spawn to start a program in it. The error wraps ErrReplaced where there is another one, or
// none.
func (p Pin) Open() (*os.File, error) {
	fd, err := unix.Open(p.Path, pinFlags|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		err = &os.PathError{Op: "open", Path: p.Path, Err: err}
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			err = fmt.Errorf("%w: %w", ErrReplaced, err)
		}
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (uint64(st.Dev) != p.Dev || st.Ino != p.Ino) {
		err = ErrReplaced
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("%s: %w", p.Path, err)
	}
	return os.NewFile(uintptr(fd), p.Path), nil
}

// Check tells whether the directory is still there.
func (p Pin) Check() error {
	f, err := p.Open()
	if err != nil {
		return err
	}
	return f.Close()
}
