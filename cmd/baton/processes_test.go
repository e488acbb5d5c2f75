package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sessions/host/remote"
)

// baton runs a verb and returns what it printed.
func (w *world) baton(argv ...string) string {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(exe, argv...)
	cmd.Env = w.env
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("baton %v: %v", argv, err)
	}
	return string(out)
}

func (w *world) hostPID() int {
	w.t.Helper()
	var s remote.Status
	if err := json.Unmarshal([]byte(w.baton("host", "status", "--json")), &s); err != nil {
		w.t.Fatal(err)
	}
	return s.PID
}

// killHost ends the host as a crash would, and waits until it is gone.
func (w *world) killHost() {
	w.t.Helper()
	pid := w.hostPID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	await(w.t, "the end of the killed host", func() bool { return !alive(pid) })
}

// alive tells whether a process exists and is no zombie. One whose first thread has ended is called that too, while other
// threads hold what it has open: their number tells.
func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	return len(f) < 18 || string(f[0]) != "X" && (string(f[0]) != "Z" || string(f[17]) != "0" && string(f[17]) != "1")
}

// process is one process as /proc shows it.
type process struct {
	PID, PPID int
	Args      string
}

// allProcesses is the process table.
func allProcesses(t *testing.T) []process {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var all []process
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || !alive(pid) {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		stat, _ := os.ReadFile(filepath.Join(d, "stat"))
		ppid := 0
		if i := bytes.LastIndexByte(stat, ')'); i > 0 {
			if f := bytes.Fields(stat[i+1:]); len(f) > 1 {
				ppid, _ = strconv.Atoi(string(f[1]))
			}
		}
		all = append(all, process{pid, ppid, string(bytes.ReplaceAll(bytes.TrimRight(args, "\x00"), []byte{0}, []byte{' '}))})
	}
	return all
}

// processes finds what belongs to this world: whatever carries its folder in its environment or works in it.
func (w *world) processes() []process {
	var found []process
	for _, p := range allProcesses(w.t) {
		dir := filepath.Join("/proc", strconv.Itoa(p.PID))
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if p.PID != os.Getpid() && (bytes.Contains(environ, []byte(w.dir)) || strings.HasPrefix(cwd, w.dir)) {
			found = append(found, p)
		}
	}
	return found
}

// asleep returns the processes of this world that are `sleep SECONDS` by now. A shell has that in its script, and so has a
// child of it that is still to become one.
func (w *world) asleep(seconds string) []process {
	return slices.DeleteFunc(w.processes(), func(p process) bool { return p.Args != "sleep "+seconds })
}

// find returns the processes of this world whose command line holds a word.
func (w *world) find(word string) []process {
	var found []process
	for _, p := range w.processes() {
		if strings.Contains(p.Args, word) {
			found = append(found, p)
		}
	}
	return found
}
