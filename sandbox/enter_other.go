//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func playKin(setup) error { return errors.ErrUnsupported }

// enter has no namespace to finish and no capability to drop here.
func enter(s setup) (place, error) {
	if s.Rung != ProcessGroup {
		return place{}, errors.ErrUnsupported
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return place{}, fmt.Errorf("RLIMIT_CORE: %w", err)
	}
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return place{}, fmt.Errorf("close on exec: %w", err)
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd >= 3 {
			syscall.CloseOnExec(fd)
		}
	}
	// Handlers that do nothing, not SIG_IGN: that is inherited by what we execute.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	return place{}, nil
}
