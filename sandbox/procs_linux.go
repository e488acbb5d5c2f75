package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of start times in /proc: USER_HZ is 100 on every Linux that Go supports.
const tick = 10 * time.Millisecond

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

func pidScope() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// lookup reads one process. It may be another one by the time it returns, unless a handle says otherwise.
func lookup(pid int) (procInfo, error) {
	i, err := readStat(pid)
	if err != nil {
		return procInfo{}, err
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return procInfo{}, err
	}
	_, rest, _ := strings.Cut(string(b), "\nUid:")
	ids := strings.Fields(rest)
	if len(ids) < 2 {
		return procInfo{}, fmt.Errorf("process %d has no user", pid)
	}
	i.uid, err = strconv.Atoi(ids[1])
	return i, err
}

func readStat(pid int) (procInfo, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			err = fs.ErrNotExist
		}
		return procInfo{}, err
	}
	// The name is in parentheses and may hold anything, parentheses and newlines included.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return procInfo{}, fmt.Errorf("process %d: stat without a name", pid)
	}
	f := strings.Fields(string(b[end+1:])) // f[0] is field 3 of proc(5)
	if len(f) < 20 {
		return procInfo{}, fmt.Errorf("process %d: stat has %d fields", pid, len(f)+2)
	}
	ended := f[0] == "Z" || f[0] == "X" || f[0] == "x"
	// The state is that of the first thread: the others may go on without it, and only the kernel's count tells.
	i := procInfo{pid: pid, zombie: ended && (f[17] == "0" || f[17] == "1")}
	var errs [3]error
	i.ppid, errs[0] = strconv.Atoi(f[1])
	i.session, errs[1] = strconv.Atoi(f[3])
	i.start, errs[2] = strconv.ParseUint(f[19], 10, 64)
	return i, errors.Join(errs[:]...)
}

// lastPID is the number that was given last in our pid namespace, the last field of /proc/loadavg.
func lastPID() string {
	b, err := os.ReadFile("/proc/loadavg")
	f := strings.Fields(string(b))
	if err != nil || len(f) < 5 {
		return ""
	}
	return f[4]
}

// processes lists what /proc shows.
func processes() []procInfo {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var out []procInfo
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if i, err := readStat(pid); err == nil {
			out = append(out, i)
		}
	}
	return out
}

// memory reads a file of /proc that shows the memory of a process. Where the first thread has ended, its file is empty or,
// of environ on Linux 6.18, cannot be opened, and those of the others can.
func memory(pid int, name string) []byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil && !errors.Is(err, unix.ESRCH) || len(b) > 0 {
		return b
	}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/%s", pid, task.Name(), name)); len(b) > 0 {
			return b
		}
	}
	return nil
}

func argv(pid int) []string {
	b := memory(pid, "cmdline")
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// standardStreams tells what the kernel calls the standard input and output of a process, "" for what it does not tell.
func standardStreams(pid int) (in, out string) {
	in, _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid))
	out, _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/1", pid))
	return in, out
}

// carriers lists the living processes whose initial environment carries one of the markers, as far as we may read it.
func carriers(markers map[string]bool) []Proc {
	var out []Proc
	for _, i := range processes() {
		if i.zombie {
			continue
		}
		for v := range bytes.SplitSeq(memory(i.pid, "environ"), []byte{0}) {
			if value, ok := bytes.CutPrefix(v, []byte(MarkerEnv+"=")); ok && markers[string(value)] {
				// Read again: the pid may have passed to another process between stat and environ.
				if again, err := readStat(i.pid); err == nil && again.start == i.start {
					out = append(out, i.proc())
				}
				break
			}
		}
	}
	return out
}

// startedSince gives the least start time of a process that was started at t or later. Clocks disagree (the monotonic
// one stops while the machine sleeps, the wall clock is set), so the one that puts t further back counts, and one tick
// is given away.
func startedSince(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	now := time.Now()
	elapsed := max(now.Sub(t), now.Round(0).Sub(t.Round(0)), 0)
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	uptime := time.Duration(ts.Nano())
	if elapsed >= uptime-tick {
		return 0
	}
	return uint64(math.Floor(float64(uptime-elapsed)/float64(tick))) - 1
}
