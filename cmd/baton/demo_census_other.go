//go:build !linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// demoProcesses asks ps.
func demoProcesses() ([]demoProcess, error) {
	cmd := exec.Command("ps", "-axww", "-o", "pid=,ppid=,stat=,lstart=,command=")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var all []demoProcess
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line) // lstart has five words, as in "Mon Nov 30 21:04:25 2026"
		if len(f) < 8 {
			continue
		}
		pid, err := strconv.Atoi(f[0])
		if err != nil {
			return nil, fmt.Errorf("ps printed %q", line)
		}
		ppid, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("ps printed %q", line)
		}
		if pid == cmd.Process.Pid {
			continue
		}
		started, err := time.ParseInLocation("Mon Jan 2 15:04:05 2006", strings.Join(f[3:8], " "), time.Local)
		if err != nil {
			return nil, fmt.Errorf("ps printed %q: %w", line, err)
		}
		all = append(all, demoProcess{pid: pid, ppid: ppid, started: started.Unix(), ended: strings.HasPrefix(f[2], "Z"),
			argv: strings.Join(f[8:], " ")})
	}
	return all, nil
}

// demoEnviron: there is no way to read it here.
func demoEnviron(int) string { return "" }

func demoHidden() bool { return false }
