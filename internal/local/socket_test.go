package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSocketPathsOfAnyLength(t *testing.T) {
	for _, n := range []int{60, 95, 103, 104, 107, 108, 190, 400} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			path := pathOf(t, n)
			must(t, MakePrivate(filepath.Dir(path)))
			l, err := Listen(path)
			if runtime.GOOS != "linux" && n > maxPath {
				for _, part := range []string{path, fmt.Sprint(n), fmt.Sprint(maxPath)} {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("got %v, want an error that names %s", err, part)
					}
				}
				return
			}
			must(t, err)
			defer l.Close()
			talk(t, l, path)
			must(t, l.Remove())
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after Remove: %v", err)
			}
		})
	}
}

func TestSocketNameTooLong(t *testing.T) {
	path := filepath.Join(folder(t), strings.Repeat("n", 120))
	_, err := Listen(path)
	if !errors.Is(err, syscall.ENAMETOOLONG) || !errors.Is(Reachable(path), syscall.ENAMETOOLONG) {
		t.Fatalf("got %v and %v", err, Reachable(path))
	}
	for _, part := range []string{path, fmt.Sprintf("%d bytes", len(path)), fmt.Sprintf("is %d", maxPath)} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

func TestSocketIsPrivateWhateverTheUmask(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	path := filepath.Join(folder(t), "s")
	l, err := Listen(path)
	must(t, err)
	defer l.Close()
	info, err := os.Lstat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestSocketInFolderOfOthers(t *testing.T) {
	dir := folder(t)
	must(t, os.Chmod(dir, 0o755))
	if _, err := Listen(filepath.Join(dir, "s")); !errors.Is(err, ErrNotPrivate) {
		t.Errorf("listen: %v", err)
	}
	if _, err := Dial(context.Background(), filepath.Join(dir, "s")); !errors.Is(err, ErrNotPrivate) {
		t.Errorf("dial: %v", err)
	}
}

func TestDialOfNothing(t *testing.T) {
	dir := folder(t)
	for _, path := range []string{filepath.Join(dir, "s"), filepath.Join(dir, "none", "s")} {
		if _, err := Dial(context.Background(), path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Go's own listener would remove whatever is at its path when it is closed.
func TestClosedListenerLeavesItsSuccessor(t *testing.T) {
	path := filepath.Join(folder(t), "s")
	former, err := Listen(path)
	must(t, err)
	must(t, os.Remove(path))
	l, err := Listen(path)
	must(t, err)
	defer l.Close()
	must(t, former.Close())
	must(t, former.Remove())
	talk(t, l, path)
}

func TestDialWaitsForRoomInTheQueue(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a full queue refuses here")
	}
	path := filepath.Join(folder(t), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	unix.CloseOnExec(fd)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	must(t, unix.Listen(fd, 0))
	file := os.NewFile(uintptr(fd), path)
	l, err := net.FileListener(file)
	must(t, err)
	must(t, file.Close())
	defer l.Close()

	first, err := Dial(context.Background(), path)
	must(t, err)
	defer first.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the queue is not full: %v", err)
	}
	second := make(chan error)
	go func() {
		conn, err := Dial(context.Background(), path)
		if err == nil {
			conn.Close()
		}
		second <- err
	}()
	for range 2 {
		conn, err := l.Accept()
		must(t, err)
		conn.Close()
	}
	must(t, <-second)
}

// pathOf is a socket path of n bytes.
func pathOf(t *testing.T, n int) string {
	t.Helper()
	path := folder(t)
	for rest := n - len(path) - len("/s"); rest > 0; rest = n - len(path) - len("/s") {
		if rest == 1 {
			path += "x"
			continue
		}
		path += "/" + strings.Repeat("d", min(rest-1, 100))
	}
	if path += "/s"; len(path) != n {
		t.Fatalf("made a path of %d bytes, not %d", len(path), n)
	}
	return path
}

// talk passes a word through the socket.
func talk(t *testing.T, l *Listener, path string) {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		defer conn.Close()
		b, _ := io.ReadAll(conn)
		got <- string(b)
	}()
	conn, err := Dial(context.Background(), path)
	if err != nil {
		l.Close()
		<-got
		t.Fatal(err)
	}
	io.WriteString(conn, "hello")
	conn.Close()
	if word := <-got; word != "hello" {
		t.Errorf("got %q", word)
	}
}
