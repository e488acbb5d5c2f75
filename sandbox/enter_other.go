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
	if s.Plan != nil {
		if err := held(s.Mask); err != nil {
			return place{}, err
		}
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

// held looks whether the profile that was put around this process is in force, by what it hides.
func held(hidden []mask) error {
	for _, m := range hidden {
		f, err := os.Open(m.Path)
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("%s is to be hidden by Seatbelt and is not: %v", m.Path, err)
		}
	}
	if len(hidden) == 0 {
		return errors.New("nothing is hidden by which the profile of Seatbelt could be seen to be in force")
	}
	return nil
}
