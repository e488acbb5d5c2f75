package sandbox

import (
	"io"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// waitAll also reaps children whose end is not announced by SIGCHLD.
const waitAll = unix.WALL

// agentOOM is added to the bridge's own score for what it starts.
const agentOOM = 300

// raiseOOM raises our own oom_score_adj until restore is called, so that a child has it from its first instruction.
// Setting it from outside afterwards would miss what the child forks at once. Taking back a raise needs no privilege.
func (p place) raiseOOM() (restore func()) {
	if p.oom == nil {
		return func() {}
	}
	b := make([]byte, 16)
	n, err := p.oom.ReadAt(b, 0)
	own, convErr := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if (err != nil && err != io.EOF) || convErr != nil {
		return func() {}
	}
	set := func(v int) { p.oom.WriteAt([]byte(strconv.Itoa(v)), 0) }
	set(min(own+agentOOM, 1000))
	return func() { set(own) }
}
