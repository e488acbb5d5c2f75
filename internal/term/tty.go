package term

import (
	"os"

	"golang.org/x/sys/unix"
)

// Foreground tells whether this process may read what is typed: a job in the background is stopped when it tries.
func Foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// Discard forgets what was typed before a question was seen: it cannot be meant as its answer.
func Discard(f *os.File) { _ = discard(int(f.Fd())) }

// Echo turns the echo of what is typed on or off, until the terminal is set anew.
func Echo(f *os.File, on bool) error {
	t, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	if err != nil {
		return err
	}
	if on {
		t.Lflag |= unix.ECHO
	} else {
		t.Lflag &^= unix.ECHO
	}
	return unix.IoctlSetTermios(int(f.Fd()), setTermios, t)
}
