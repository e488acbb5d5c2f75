package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// demoProcesses reads /proc: small images have no ps.
func demoProcesses() ([]demoProcess, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []demoProcess
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // gone by now
		}
		// The second field is the name in parentheses, and may hold anything.
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(f) < 20 {
			return nil, fmt.Errorf("/proc/%s/stat has %d fields", name, len(f)+2)
		}
		ppid, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("/proc/%s/stat: %w", name, err)
		}
		started, err := strconv.ParseInt(f[19], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/%s/stat: %w", name, err)
		}
		argv, _ := os.ReadFile("/proc/" + name + "/cmdline")
		all = append(all, demoProcess{pid: pid, ppid: ppid, started: started, ended: (f[0] == "Z" || f[0] == "X") && f[17] <= "1", // no thread but the first
			argv: strings.ReplaceAll(strings.Trim(string(argv), "\x00"), "\x00", " ")})
	}
	return all, nil
}

// demoEnviron is the initial environment of a process, as far as this user may read it.
func demoEnviron(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return string(b)
}

// demoHidden tells whether /proc hides processes from this user.
func demoHidden() bool {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "/proc" {
			return strings.Contains(f[3], "hidepid=") && !strings.Contains(f[3], "hidepid=0") && os.Getuid() != 0
		}
	}
	return false
}
