package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// ErrNotLaunched tells that this process was not started by Start.
var ErrNotLaunched = errors.New("sandbox: this process was not launched as a bridge")

// Inside is what Enter reached.
type Inside struct {
	Rung           Rung
	MountNamespace bool
	Filesystem     string // the name of the policy that is in force, "" for none
}

// here is what this process entered; a process enters once, and everything of the bridge side depends on it.
var here atomic.Pointer[place]

type place struct {
	Inside
	marker string
	oom    *os.File       // our own oom_score_adj, opened while it could be; nil where there is none
	name   *os.File       // our own name, likewise
	empty  chan os.Signal // emptySignal, taken up before Start is told that it may be sent; nil but on rung subreaper
}

// Enter makes this process the bridge that Start asked for. It must come first: on Linux it executes the program again,
// because capabilities belong to threads and a new program is the only way to be sure that none kept any.
//
// When it returns without error: the namespace has its own /proc and hides what Launch.Mask named and holds to Launch.Filesystem (rung pid_namespace);
// no thread holds a capability or can gain one; the process is not dumpable, so that an agent of the same user cannot
// attach to it or read its memory; signals that others send are swallowed, SIGKILL excepted, for whoever does not take
// them up; no core is ever written; and
// of the descriptors only 0, 1, 2 and those of Launch.Files are open, the latter closing on exec.
//
// After an error the process must exit; Start has been told.
func Enter() (Inside, error) {
	text, launched := os.LookupEnv(setupEnv)
	if !launched {
		return Inside{}, ErrNotLaunched
	}
	var s setup
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Inside{}, fmt.Errorf("sandbox: %s: %w", setupEnv, err)
	}
	if s.Stage == stageParent || s.Stage == stageOrphan {
		return Inside{}, playKin(s) // returns only when it failed
	}
	report := os.NewFile(uintptr(3+s.Files), "report")
	p, err := enter(s)
	if err == nil {
		err = tell(report, nil)
	} else {
		tell(report, err)
	}
	if err != nil {
		return Inside{}, fmt.Errorf("sandbox: enter: %w", err)
	}
	if s.Trial {
		os.Exit(0)
	}
	os.Unsetenv(setupEnv)
	p.Inside = Inside{Rung: s.Rung, MountNamespace: s.Rung == PIDNamespace}
	if s.Plan != nil {
		p.Inside.Filesystem = s.Plan.Name
	}
	p.marker = os.Getenv(MarkerEnv)
	here.Store(&p)
	return p.Inside, nil
}
