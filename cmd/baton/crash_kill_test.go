package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// env is what a front end of the plan's case is started with, so that the named kills reach it and what it starts.
func (p plan) env(dir string) []string {
	var at []string
	for _, k := range p.kills {
		if k.point != "" {
			at = append(at, k.point)
		}
	}
	if at == nil {
		return nil
	}
	return []string{"BATON_FAILPOINT=" + strings.Join(at, ","), "BATON_FAILPOINT_DIR=" + dir}
}

// assassin makes the kills of a plan that are bound to a time.
type assassin struct {
	w     *world
	m     *mortal
	p     plan
	begun []chan struct{} // by step
	over  chan struct{}
	wg    sync.WaitGroup

	mu   sync.Mutex
	done []kill
}

func newAssassin(w *world, m *mortal, p plan) *assassin {
	a := &assassin{w: w, m: m, p: p, over: make(chan struct{})}
	for range p.steps {
		a.begun = append(a.begun, make(chan struct{}))
	}
	for _, k := range p.kills {
		if k.point == "" {
			a.wg.Go(func() { a.wait(k) })
		}
	}
	return a
}

func (a *assassin) begin(step int) { close(a.begun[step]) }

// end returns the kills that were made, the named ones too.
func (a *assassin) end() []kill {
	if err := os.WriteFile(a.w.path("points/over"), nil, 0o600); err != nil {
		a.w.t.Error(err)
	}
	close(a.over)
	a.wg.Wait()
	for _, k := range a.p.kills {
		if k.point != "" && exists(filepath.Join(a.w.path("points"), strings.Replace(k.point, ":", ".", 1))) {
			a.done = append(a.done, k)
		}
	}
	return a.done
}

// wait waits for the moment, then for the victim to exist, and kills it.
func (a *assassin) wait(k kill) {
	select {
	case <-a.begun[k.step]:
	case <-a.over:
		return
	}
	for wait := k.after; ; wait = 2 * time.Millisecond {
		select {
		case <-time.After(wait): // a random moment is what this is about
		case <-a.over:
			return
		}
		pid := a.find(k.victim)
		if pid == 0 {
			continue
		}
		a.mu.Lock()
		a.done = append(a.done, k)
		a.mu.Unlock()
		if a.p.away {
			kill9(a.m.frontPID())
		}
		kill9(pid)
		return
	}
}

func (a *assassin) find(v victim) int {
	if v == victimFront {
		return a.m.frontPID()
	}
	for _, p := range a.w.find(map[victim]string{victimHost: " host run", victimBridge: "baton bridge", victimAgent: " agent "}[v]) {
		// A host tries once what the machine can do with a bridge that has no session.
		if environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID)); err == nil && !bytes.Contains(environ, []byte(`"trial":true`)) {
			return p.PID
		}
	}
	return 0
}

// mourn lets nobody come back after a host that stays away, before its bridge has ended.
func (a *assassin) mourn() {
	a.mu.Lock()
	killed := len(a.done) > 0
	a.mu.Unlock()
	if a.p.away && killed {
		within(6*time.Second, func() bool { return len(a.w.find("baton bridge")) == 0 })
	}
}

// say runs a verb and returns what it said.
func (w *world) say(argv ...string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(exe, argv...)
	cmd.Env = w.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func kill9(pid int) {
	if pid > 1 {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// tally counts the kills of a run.
type tally struct {
	mu    sync.Mutex
	cases int
	made  map[string]int
	never int // cases in which nobody was killed: the moment did not come
}

func (c *tally) add(p plan, done []kill) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cases++
	if len(done) == 0 {
		c.never++
	}
	if c.made == nil {
		c.made = map[string]int{}
	}
	for _, k := range done {
		name, _, named := strings.Cut(k.point, ":")
		if !named {
			name = string(k.victim) + " at a random moment"
		}
		if p.away {
			name += ", and nobody came back"
		}
		c.made[name]++
	}
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := fmt.Sprintf("%d cases, %d of them without a kill", c.cases, c.never)
	for _, name := range slices.Sorted(maps.Keys(c.made)) {
		s += fmt.Sprintf("\n%4d %s", c.made[name], name)
	}
	return s
}
