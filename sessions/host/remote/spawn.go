package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
)

// maxLog is the size at which the host's log is set aside before a new host writes to it.
const maxLog = 8 << 20

// Spawn returns an Options.Start: it runs this program with args as the host of the places, detached in a session of
// its own, and returns when a host answers, whoever started it. The program must become the host (see Take), or end
// with status 0 when another process is it; any other status fails the start with the end of the log.
//
// Many front ends may start at once: one lock file lets one of them spawn, and the host's own lock decides in any case.
func Spawn(p place.Places, args ...string) func(context.Context) error {
	s := &starter{places: p, args: args, turn: make(chan struct{}, 1)}
	return s.start
}

type starter struct {
	places place.Places
	args   []string
	turn   chan struct{} // holds one token: one start at a time in this process

	children []int // hosts that this process started and has not reaped; owned by the holder of the turn
}

func (s *starter) start(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.reap()
	if err := s.places.Make(); err != nil {
		return startError(err)
	}
	if err := local.Reachable(s.places.HostSocket()); err != nil {
		return startError(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, DefaultPatience,
		sessions.Errorf(sessions.CodeTimeout, "no host answered within %v", DefaultPatience).
			Do("read its log %s, and see whether a process baton host run stands still: continue or kill it", s.places.HostLog()))
	defer cancel()
	began := time.Now()
	killed := 0
	for tries := 0; ; tries++ {
		if s.answers(ctx) {
			return nil
		}
		lock, err := local.Lock(s.places.StartLock())
		switch {
		case err == nil:
			err = s.attempt(ctx)
			lock.Close()
		case errors.Is(err, local.ErrLocked) && time.Since(began) < DefaultPatience/2:
			err = errLost
		case errors.Is(err, local.ErrLocked): // whoever starts one hangs
			err = s.attempt(ctx)
		}
		if err == nil {
			return nil
		}
		if errors.Is(err, errKilled) {
			killed++
		}
		if !errors.Is(err, errLost) && !(errors.Is(err, errKilled) && killed < maxKilled) {
			return startError(err)
		}
		if err := pause(ctx, tries); err != nil {
			return startError(err)
		}
	}
}

func startError(err error) error { return filesError("cannot start the host", err) }

var (
	// errLost: another process is, or becomes, the host.
	errLost = errors.New("another process starts the host")
	// errKilled: somebody ended the host with SIGKILL while it started, which says nothing about the next one.
	errKilled = errors.New("signal SIGKILL")
)

// maxKilled is how many hosts may be killed at their start in one start.
const maxKilled = 3

// attempt spawns one host and waits until one answers or the spawned one has ended.
func (s *starter) attempt(ctx context.Context) error {
	if s.answers(ctx) {
		return nil
	}
	log, from, err := openLog(s.places.HostLog())
	if err != nil {
		return err
	}
	defer log.Close()
	said, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	pid, err := s.spawn(log, says)
	says.Close()
	if err != nil {
		return err
	}
	s.children = append(s.children, pid)
	for tries := 0; ; tries++ {
		ended, status := s.ended(pid)
		switch {
		case s.answers(ctx):
			return nil
		case ended && status.Exited() && status.ExitStatus() == 0:
			return errLost
		case ended && status.Signaled() && status.Signal() == syscall.SIGKILL:
			return sessions.Errorf(sessions.CodeInternal, "the host ended at its start (%w): %s", errKilled, tail(log, from)).
				Do("read its log %s", s.places.HostLog())
		case ended:
			if e := reported(said); e != nil {
				return e
			}
			return sessions.Errorf(sessions.CodeInternal, "the host ended at its start (%s): %s", describe(status), tail(log, from)).
				Do("read its log %s", s.places.HostLog())
		}
		if err := pause(ctx, min(tries, 1)); err != nil {
			return err
		}
	}
}

// answers asks for the status: a socket that exists, or accepts, is not yet a host.
func (s *starter) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := New(Options{Socket: s.places.HostSocket(), Lock: s.places.Lock(), TokenFile: s.places.Token()}).Status(ctx)
	return err == nil
}

func (s *starter) spawn(log, says *os.File) (pid int, err error) {
	self := "/proc/self/exe" // the running program, even when its file was replaced or deleted
	if runtime.GOOS != "linux" {
		if self, err = os.Executable(); err != nil {
			return 0, err
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	p, err := os.StartProcess(self, append([]string{"baton"}, s.args...), &os.ProcAttr{
		Dir:   "/", // no folder is kept busy
		Env:   append(hostEnvironment(os.Environ()), reportVariable+"=3"),
		Files: []*os.File{null, log, log, says},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	pid = p.Pid
	return pid, p.Release()
}

// ended reaps a child that has ended. It is asked for, never waited for, so that no goroutine has to outlive the start:
// a host outlives its starter, and one that dies first is reaped at the next start, which it is the reason for.
func (s *starter) ended(pid int) (bool, syscall.WaitStatus) {
	var status syscall.WaitStatus
	for {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err == nil && got == 0:
			return false, 0
		}
		for i, child := range s.children {
			if child == pid {
				s.children = append(s.children[:i], s.children[i+1:]...)
				break
			}
		}
		return true, status // ECHILD: somebody else reaped it, and its status is lost
	}
}

func (s *starter) reap() {
	for _, pid := range append([]int(nil), s.children...) {
		s.ended(pid)
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// openLog opens the log to append to it, and says where it ends now.
func openLog(path string) (*os.File, int64, error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_APPEND | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if info, err := os.Lstat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, err
		}
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot open the host's log: %w", err)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, end, nil
}

// tail is the end of what was written to the log since from.
func tail(log *os.File, from int64) string {
	const most = 1 << 10
	if info, err := log.Stat(); err == nil && info.Size()-from > most {
		from = info.Size() - most
	}
	b, _ := io.ReadAll(io.NewSectionReader(log, from, most))
	text := strings.TrimSpace(strings.ToValidUTF8(string(b), "?"))
	if text == "" {
		return "it said nothing"
	}
	return text
}

// hostEnvironment is what the host needs of its starter's environment. The host serves every front end, so it keeps
// none of the secrets of the one that happened to start it; what an agent gets comes with each call.
func hostEnvironment(environ []string) []string {
	names := map[string]bool{"HOME": true, "PATH": true, "USER": true, "LOGNAME": true, "SHELL": true, "TMPDIR": true, "LANG": true,
		"TZ": true, "DBUS_SESSION_BUS_ADDRESS": true, "GODEBUG": true, "GOTRACEBACK": true, "GOMAXPROCS": true, "GOMEMLIMIT": true,
		"GOCOVERDIR": true, "GORACE": true, "SSL_CERT_FILE": true, "SSL_CERT_DIR": true}
	var kept []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if names[name] || strings.HasPrefix(name, "BATON_") || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "LC_") {
			kept = append(kept, entry)
		}
	}
	return kept
}
