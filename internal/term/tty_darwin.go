package term

import "golang.org/x/sys/unix"

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

// discard forgets what was typed and not read: FREAD of <sys/fcntl.h>.
func discard(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) }
