package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lookAtFiles reads /proc/locks, whose lines are like "20: FLOCK  ADVISORY  WRITE 6158 fe:00:9997283 0 EOF". Those that
// wait for a lock have an arrow in front of their kind.
func lookAtFiles() OpenFiles {
	o := OpenFiles{locks: map[fileID]int{}}
	for line := range bytes.Lines(readLocks()) {
		f := strings.Fields(string(line))
		if len(f) < 6 || f[1] == "->" || f[3] != "WRITE" {
			continue
		}
		pid, err := strconv.Atoi(f[4])
		id, ok := lockID(f[5])
		if err == nil && ok && pid > 0 {
			o.locks[id] = pid
		}
	}
	return o
}

// readLocks reads /proc/locks in pieces as large as the kernel gives: it counts the locks that it has shown, and one that is
// let go between two pieces hides another one that is held.
func readLocks() (text []byte) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer f.Close()
	piece := make([]byte, 64<<10)
	for {
		n, err := f.Read(piece)
		text = append(text, piece[:n]...)
		if err != nil {
			return text
		}
	}
}

// lockID reads major:minor:inode, the former two in hexadecimal.
func lockID(text string) (fileID, bool) {
	p := strings.Split(text, ":")
	if len(p) != 3 {
		return fileID{}, false
	}
	major, err1 := strconv.ParseUint(p[0], 16, 32)
	minor, err2 := strconv.ParseUint(p[1], 16, 32)
	inode, err3 := strconv.ParseUint(p[2], 10, 64)
	return fileID{unix.Mkdev(uint32(major), uint32(minor)), inode}, err1 == nil && err2 == nil && err3 == nil
}

func (o OpenFiles) writer(path string) (int, string) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0, ""
	}
	if pid := o.locks[fileID{st.Dev, st.Ino}]; pid != 0 {
		return pid, programOf(pid)
	}
	if pid := openedBy(st); pid != 0 {
		return pid, programOf(pid)
	}
	return 0, ""
}

// openedBy finds a process that has a file open for writing.
func openedBy(want unix.Stat_t) int {
	fds, err := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	if err != nil {
		return 0
	}
	for _, fd := range fds {
		var st unix.Stat_t
		if unix.Stat(fd, &st) != nil || st.Ino != want.Ino || st.Dev != want.Dev {
			continue
		}
		parts := strings.Split(fd, "/") // "", proc, PID, fd, N
		if pid, err := strconv.Atoi(parts[2]); err == nil && pid != os.Getpid() && writes(parts[2], parts[4]) {
			return pid
		}
	}
	return 0
}

// writes tells whether a descriptor was opened for writing.
func writes(pid, fd string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%s/fdinfo/%s", pid, fd))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), "flags:")
	flags, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 8, 64)
	return err == nil && flags&(unix.O_WRONLY|unix.O_RDWR) != 0
}

func programOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(name)), "\uFFFD")
}
