package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pinFlags open a directory that may be entered, whether or not it may be listed.
const pinFlags = unix.O_PATH

// wayInto is a path that leads a child into an open directory, wherever that lies by then.
func wayInto(dir *os.File) (string, error) {
	conn, err := dir.SyscallConn()
	if err != nil {
		return "", err
	}
	var path string
	err = conn.Control(func(fd uintptr) { path = fmt.Sprintf("/proc/self/fd/%d", fd) })
	return path, err
}
