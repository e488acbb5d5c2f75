package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLocked is returned by Lock when another process holds the lock.
var ErrLocked = errors.New("held by another process")

// maxNote bounds what a lock file says.
const maxNote = 4 << 10

// Held is a lock that this process holds until it releases it or ends, whatever ends it. No child inherits it.
type Held struct {
	path string
	file *os.File
}

// Lock takes the lock of a file at once, or returns ErrLocked. The file is created when it is missing and is never
// removed, so that its content and its lock always belong together.
func Lock(path string) (*Held, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("cannot open the lock: %w", err)
		}
		h := &Held{path: path, file: f}
		again, err := h.take()
		if err != nil || again {
			f.Close()
		}
		switch {
		case err != nil:
			return nil, err
		case !again:
			return h, nil
		}
	}
}

// take reports again when the file was replaced under it, so that two processes would lock two files.
func (h *Held) take() (again bool, err error) {
	fd := int(h.file.Fd())
	var have, now unix.Stat_t
	if err := unix.Fstat(fd, &have); err != nil {
		return false, &fs.PathError{Op: "stat", Path: h.path, Err: err}
	}
	if int(have.Uid) != os.Getuid() {
		return false, fmt.Errorf("lock %s is %w: it belongs to uid %d", h.path, ErrNotPrivate, have.Uid)
	}
	for {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EWOULDBLOCK {
			return false, fmt.Errorf("lock %s is %w", h.path, ErrLocked)
		}
		if err != nil {
			return false, &fs.PathError{Op: "flock", Path: h.path, Err: err}
		}
		break
	}
	err = unix.Lstat(h.path, &now)
	return err != nil || now.Ino != have.Ino || now.Dev != have.Dev, nil
}

// Place tells where the locked file is: at its path (there), deleted or replaced so that another process can lock what is
// at the path now (lost), or neither: somebody moved it away, and may put it back.
func (h *Held) Place() (there, lost bool) {
	var have, now unix.Stat_t
	if unix.Fstat(int(h.file.Fd()), &have) != nil {
		return false, false
	}
	if unix.Lstat(h.path, &now) == nil {
		same := now.Ino == have.Ino && now.Dev == have.Dev
		return same, !same
	}
	return false, have.Nlink == 0
}

// Announce writes into the lock file, for those who look for the holder, where it listens, and which file says so: a copy
// of the folder has no holder, and whoever looks into the copy must not be answered for it by the original's. A line left by
// a holder that died is only a hint that leads nowhere.
func (h *Held) Announce(line string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(h.file.Fd()), &st); err != nil {
		return err
	}
	note := fmt.Sprintf("%s\n%d\n", line, st.Ino)
	if len(note) > maxNote {
		return fmt.Errorf("announcement of %d bytes is longer than %d", len(note), maxNote)
	}
	if err := h.file.Truncate(0); err != nil {
		return err
	}
	_, err := h.file.WriteAt([]byte(note), 0)
	return err
}

// Announced reads what the holder of the lock announced, "" when that is nothing or was said in another file.
func Announced(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	var st unix.Stat_t
	b, err := io.ReadAll(io.LimitReader(f, maxNote))
	if err != nil || unix.Fstat(int(f.Fd()), &st) != nil {
		return ""
	}
	line, rest, whole := bytes.Cut(b, []byte("\n"))
	ino, _, said := bytes.Cut(rest, []byte("\n")) // an older host says no more than the line
	if !whole || said && string(ino) != fmt.Sprint(st.Ino) {
		return ""
	}
	return string(line)
}

// Listen listens at path and removes the socket that a former holder left there. Only the holder of the lock that
// guards the path may call it, which is what makes the removal safe.
func (h *Held) Listen(path string) (*Listener, error) {
	dir, err := OpenPrivate(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("cannot listen at %s: it is a %s, not a socket; remove it", path, kind(info.Mode()))
	default:
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot remove the socket of a former host: %w", err)
		}
	}
	return Listen(path)
}

// Close releases the lock.
func (h *Held) Close() error { return h.file.Close() }
