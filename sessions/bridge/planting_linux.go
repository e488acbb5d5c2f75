package bridge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// watchFor calls seen whenever a file of the name may have appeared in one of the folders, until stop is called.
func watchFor(name string, dirs []string, seen func()) (stop func(), err error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	for _, dir := range dirs {
		if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil && !errors.Is(err, unix.ENOENT) {
			f.Close()
			return nil, fmt.Errorf("inotify: %s: %w", dir, err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(buf)
			if err != nil {
				return
			}
			if hasName(buf[:n], name) {
				seen()
			}
		}
	}()
	return func() { f.Close(); <-ended }, nil
}

// hasName looks for events about a name in what inotify gave. An overflow, after which nobody knows, is one.
func hasName(events []byte, name string) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(events[4:])
		length := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[unix.SizeofInotifyEvent:]
		if mask&unix.IN_Q_OVERFLOW != 0 || string(bytes.TrimRight(events[:min(length, len(events))], "\x00")) == name {
			return true
		}
		events = events[min(length, len(events)):]
	}
	return false
}
