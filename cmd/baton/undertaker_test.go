package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A host outlives whoever started it for as long as it has a session, and so it would outlive a test process that dies.
// The undertaker is a process that is told of every world, and closes those that are open when the test process is gone.
const undertakerRole = "undertaker"

// estate is one line to the undertaker.
type estate struct {
	Dir    string   `json:"dir"`
	Env    []string `json:"env,omitempty"`
	Closed bool     `json:"closed,omitempty"`
}

var undertaker struct {
	sync.Mutex
	will *os.File // ends with this process
}

// bequeath tells the undertaker of a world, or that it has ended.
func (w *world) bequeath(closed bool) {
	w.t.Helper()
	undertaker.Lock()
	defer undertaker.Unlock()
	if undertaker.will == nil {
		r, will, err := os.Pipe()
		if err != nil {
			w.t.Fatal(err)
		}
		defer r.Close()
		exe, err := os.Executable()
		if err != nil {
			w.t.Fatal(err)
		}
		cmd := exec.Command(exe, undertakerRole)
		cmd.Dir, cmd.Env, cmd.Stdin = "/", []string{"PATH=" + os.Getenv("PATH")}, r
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends the tests from a terminal does not end it
		if err := cmd.Start(); err != nil {
			w.t.Fatal(err)
		}
		undertaker.will = will // nobody waits for cmd: it ends after this process
	}
	if err := json.NewEncoder(undertaker.will).Encode(estate{Dir: w.dir, Env: w.env, Closed: closed}); err != nil {
		w.t.Fatal(err)
	}
}

// undertake is the undertaker's life.
func undertake() int {
	open := map[string]estate{}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e estate
		if json.Unmarshal(line, &e) != nil {
			return 1
		}
		if open[e.Dir] = e; e.Closed {
			delete(open, e.Dir)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, e := range open {
		for _, argv := range [][]string{{"stop", "--all"}, {"host", "stop"}} {
			cmd := exec.CommandContext(ctx, exe, argv...)
			cmd.Env = e.Env
			cmd.Run() // whatever it can end is ended
		}
	}
	return 0
}

// TestTheDeadLeaveNothing: a test process that is killed in the middle leaves neither host nor session.
func TestTheDeadLeaveNothing(t *testing.T) {
	const dying = "BATON_TEST_DYING"
	if os.Getenv(dying) != "" {
		w := newWorld(t)
		f := w.open()
		w.create(f, "codexlike", nil)
		os.WriteFile(os.Getenv(dying), []byte(w.dir), 0o600)
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	tmp, err := os.MkdirTemp("", "dead") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	note := filepath.Join(tmp, "note")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run", "^TestTheDeadLeaveNothing$")
	cmd.Env = append(os.Environ(), dying+"="+note, "TMPDIR="+tmp)
	out, err := cmd.CombinedOutput()
	dir, readErr := os.ReadFile(note)
	if err == nil || readErr != nil || !strings.HasPrefix(string(dir), tmp) {
		t.Fatalf("it did not die in the middle: %v, %v\n%s", err, readErr, out)
	}
	await(t, "the end of what it left", func() bool {
		for _, p := range allProcesses(t) {
			environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "environ"))
			if p.PID != os.Getpid() && bytes.Contains(environ, dir) {
				return false
			}
		}
		return true
	})
}
