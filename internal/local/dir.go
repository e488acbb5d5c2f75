package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNotPrivate is wrapped by the refusal of a folder or file that somebody else owns or can reach.
var ErrNotPrivate = errors.New("not private")

// MakePrivate creates the folder, and missing ones above it, for this user alone, and checks it as OpenPrivate does.
func MakePrivate(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot create the folder of %s: %w", path, err)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot create %s: %w", path, err)
	}
	dir, err := OpenPrivate(path)
	if err != nil {
		return err
	}
	return dir.Close()
}

// OpenPrivate opens the folder. It is refused with ErrNotPrivate when it is a symlink or no folder, belongs to another
// user, or lets anybody else in: a folder of that name made by somebody else beforehand is never used.
func OpenPrivate(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP || err == unix.ENOTDIR {
		if info, e := os.Lstat(path); e == nil {
			return nil, fmt.Errorf("%s is %w: it is a %s, not a folder; remove it", path, ErrNotPrivate, kind(info.Mode()))
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open folder", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := private(path, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

func private(path string, st *unix.Stat_t) error {
	if int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s is %w: it belongs to uid %d, not to uid %d; remove it or choose another folder", path, ErrNotPrivate, st.Uid, os.Getuid())
	}
	if mode := st.Mode & 0o777; mode&0o077 != 0 {
		return fmt.Errorf("%s is %w: its mode %#o lets others in; chmod go-rwx it", path, ErrNotPrivate, mode)
	}
	return nil
}

func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m.IsDir():
		return "folder"
	case m.IsRegular():
		return "file"
	default:
		return "special file"
	}
}
