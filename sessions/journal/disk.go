package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/batonmcp/baton/sessions"
)

// disk is what the journal needs of a file system beside SQLite's own files: to make a new journal appear whole or not
// at all, and to tell a missing file from an empty one.
type disk interface {
	// claim makes the directory fit, takes the lock of the journal and returns its release.
	claim(path string) (release func() error, err error)
	size(path string) (n int64, exists bool, err error)
	create(path string) error     // an empty file that only we may read
	shm(path string) error        // the same for the shared memory, unless it is there
	rewrite(path string) error    // the same bytes once more, durable after; nothing where it is not there
	rename(from, to string) error // from is durable before, the new name after
	remove(path string) error     // no error when it is not there
}

type osDisk struct{}

func (osDisk) claim(path string) (func() error, error) {
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("make its directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if err := trusted(dir, info); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil {
		if !info.Mode().IsRegular() {
			return nil, sessions.Errorf(sessions.CodeStorageFailed, "journal %s is no regular file but a %s", path, kind(info.Mode())).
				Do("move it away, or name another state directory")
		}
		if err := owned(path, info); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	release, err := lock(path + ".lock")
	if err != nil {
		return nil, err
	}
	// The names that SQLite makes beside it get the mode of what is there.
	for _, p := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Chmod(p, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, release())
		}
	}
	return release, nil
}

// makeDir makes a directory and what is missing above it, durably.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	}
	return "special file"
}

func (osDisk) size(path string) (int64, bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return info.Size(), true, nil
}

func (osDisk) create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// shm makes the file before the library does, which would leave its mode to the umask.
func (osDisk) shm(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (osDisk) rewrite(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := make([]byte, 256<<10)
	for at := int64(0); ; {
		n, err := f.ReadAt(b, at)
		if n > 0 {
			if _, err := f.WriteAt(b[:n], at); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return f.Sync()
		}
		if err != nil {
			return err
		}
		at += int64(n)
	}
}

func (osDisk) rename(from, to string) error {
	f, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func (osDisk) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
