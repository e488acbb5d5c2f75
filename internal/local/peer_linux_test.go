package local

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// refusals listens and hands the test what it refuses.
func refusals(t *testing.T) (l *Listener, refused chan error, accepted chan net.Conn) {
	t.Helper()
	l, err := Listen(filepath.Join(folder(t), "s"))
	must(t, err)
	refused, accepted = make(chan error, 1), make(chan net.Conn, 1)
	l.Refused = func(err error) { refused <- err }
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	return l, refused, accepted
}

func TestPeerInASessionIsRefused(t *testing.T) {
	l, refused, accepted := refusals(t)
	inside := start(t, "dial", l.Path(), func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		}
	})
	select {
	case err := <-refused:
		if !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), "inside a session") {
			t.Errorf("got %v", err)
		}
	case conn := <-accepted:
		conn.Close()
		t.Fatal("it was let in")
	}
	if got := inside.line(t); got != "read: EOF" {
		t.Errorf("it read %q", got)
	}
}

func TestPeerBesideUsIsAccepted(t *testing.T) {
	l, refused, accepted := refusals(t)
	start(t, "dial", l.Path())
	select {
	case err := <-refused:
		t.Error(err)
	case conn := <-accepted:
		conn.Close()
	}
}

// A process could hand its connection to one inside a session and end before anybody looks.
func TestPeerThatIsGoneIsRefused(t *testing.T) {
	path := filepath.Join(folder(t), "s")
	l, err := Listen(path)
	must(t, err)
	refused := make(chan error, 1)
	l.Refused = func(err error) { refused <- err }
	caller := start(t, "dial and go", path)
	must(t, caller.Wait())
	done := make(chan error)
	go func() { _, err := l.Accept(); done <- err }()
	if err := <-refused; !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("got %v", err)
	}
	l.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestNestedByStatus(t *testing.T) {
	proc := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(proc, "self"), 0o700))
	for name, c := range map[string]struct {
		status string
		inside bool
		err    error
	}{
		"1": {"Name:\tx\nNSpid:\t41\nVmPeak:\t1\n", false, nil},
		"2": {"Name:\tx\nNSpid:\t41\t2\nVmPeak:\t1\n", true, nil},
		"3": {"Name:\tNSpid:\t1\t2\n", false, nil},
		"4": {"", false, errGone},
	} {
		if c.status != "" {
			must(t, os.Mkdir(filepath.Join(proc, name), 0o700))
			must(t, os.WriteFile(filepath.Join(proc, name, "status"), []byte(c.status), 0o600))
		}
		inside, err := nested(proc, int(name[0]-'0'))
		if inside != c.inside || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", name, inside, err)
		}
	}
	if inside, err := nested(filepath.Join(proc, "none"), 1); inside || err != nil {
		t.Errorf("without /proc: %v, %v", inside, err)
	}
}
