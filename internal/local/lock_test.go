package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLock(t *testing.T) {
	path := filepath.Join(folder(t), "lock")
	h, err := Lock(path)
	must(t, err)
	if _, err := Lock(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("second lock: %v", err)
	}
	must(t, h.Close())
	h, err = Lock(path)
	must(t, err)
	must(t, h.Close())
}

// Where a locked file is: at its path, moved away, replaced, deleted.
func TestPlaceOfALock(t *testing.T) {
	dir := folder(t)
	path, away := filepath.Join(dir, "lock"), filepath.Join(dir, "away")
	h, err := Lock(path)
	must(t, err)
	defer h.Close()
	for _, c := range []struct {
		does        string
		do          func() error
		there, lost bool
	}{
		{"nothing", func() error { return nil }, true, false},
		{"moved away", func() error { return os.Rename(path, away) }, false, false},
		{"replaced", func() error { return os.WriteFile(path, nil, 0o600) }, false, true},
		{"put back", func() error { return os.Rename(away, path) }, true, false},
		{"deleted", func() error { return os.Remove(path) }, false, true},
		{"made anew", func() error { return os.WriteFile(path, nil, 0o600) }, false, true},
	} {
		must(t, c.do())
		if there, lost := h.Place(); there != c.there || lost != c.lost {
			t.Errorf("%s: there %v, lost %v", c.does, there, lost)
		}
	}
}

func TestLockRefusesSymlink(t *testing.T) {
	dir := folder(t)
	must(t, os.Symlink(filepath.Join(dir, "target"), filepath.Join(dir, "lock")))
	if _, err := Lock(filepath.Join(dir, "lock")); !errors.Is(err, unix.ELOOP) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); err == nil {
		t.Error("the symlink was followed")
	}
}

// Two processes must not hold two locks because the file was replaced between one's open and its flock.
func TestLockNoticesReplacedFile(t *testing.T) {
	path := filepath.Join(folder(t), "lock")
	old, err := os.Create(path)
	must(t, err)
	defer old.Close()
	must(t, os.Remove(path))
	for _, replaced := range []bool{false, true} {
		if replaced {
			must(t, os.WriteFile(path, nil, 0o600))
		}
		again, err := (&Held{path: path, file: old}).take()
		if err != nil || !again {
			t.Errorf("replaced %v: again %v, %v", replaced, again, err)
		}
	}
}

// An inherited descriptor would keep the lock held after the holder's end.
func TestLockIsNotInherited(t *testing.T) {
	path := filepath.Join(folder(t), "lock")
	h, err := Lock(path)
	must(t, err)
	child := start(t, "wait", path)
	child.line(t)
	must(t, h.Close())
	h, err = Lock(path)
	must(t, err)
	must(t, h.Close())
}

func TestTakeoverAfterKill(t *testing.T) {
	dir := folder(t)
	lock, path := filepath.Join(dir, "lock"), filepath.Join(dir, "s")
	holder := start(t, "hold", path)
	if got := holder.line(t); got != "ready" {
		t.Fatal(got)
	}
	if _, err := Lock(lock); !errors.Is(err, ErrLocked) {
		t.Fatalf("while it lives: %v", err)
	}
	must(t, holder.Process.Signal(syscall.SIGKILL))
	holder.Wait()

	if _, err := Dial(context.Background(), path); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial of a stale socket: %v", err)
	}
	if _, err := Listen(path); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), path) {
		t.Errorf("listen without the lock: %v", err)
	}
	h, err := Lock(lock)
	must(t, err)
	defer h.Close()
	l, err := h.Listen(path)
	must(t, err)
	defer l.Close()
	talk(t, l, path)
}

func TestHeldListenRefusesWhatIsNoSocket(t *testing.T) {
	dir := folder(t)
	h, err := Lock(filepath.Join(dir, "lock"))
	must(t, err)
	defer h.Close()
	path := filepath.Join(dir, "s")
	must(t, os.WriteFile(path, []byte("precious"), 0o600))
	if _, err := h.Listen(path); err == nil || !strings.Contains(err.Error(), "is a file, not a socket") {
		t.Errorf("got %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Error("the file was touched")
	}
}

func TestAnnounce(t *testing.T) {
	path := filepath.Join(folder(t), "lock")
	if got := Announced(path); got != "" {
		t.Errorf("no file: %q", got)
	}
	h, err := Lock(path)
	must(t, err)
	defer h.Close()
	for _, line := range []string{"/a/rather/long/path/to/a.sock", "/short"} {
		must(t, h.Announce(line))
		if got := Announced(path); got != line {
			t.Errorf("announced %q, read %q", line, got)
		}
	}
	if err := h.Announce(strings.Repeat("x", maxNote)); err == nil {
		t.Error("a line that could not be read back was taken")
	}
	copied := filepath.Join(filepath.Dir(path), "copy")
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(copied, b, 0o600))
	if got := Announced(copied); got != "" {
		t.Errorf("a copy of the file: %q", got)
	}
	moved := filepath.Join(filepath.Dir(path), "moved")
	must(t, os.Rename(path, moved))
	if got := Announced(moved); got != "/short" {
		t.Errorf("the file itself, at another path: %q", got)
	}
	must(t, os.WriteFile(path, []byte("/of an older one\n"), 0o600))
	if got := Announced(path); got != "/of an older one" {
		t.Errorf("a line alone: %q", got)
	}
	must(t, os.WriteFile(path, []byte("/half"), 0o600))
	if got := Announced(path); got != "" {
		t.Errorf("a line cut short: %q", got)
	}
}
