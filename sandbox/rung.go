package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Rung names how a session's processes are held.
type Rung string

const (
	PIDNamespace Rung = "pid_namespace"
	Subreaper    Rung = "subreaper"
	ProcessGroup Rung = "process_group"
)

// Rungs are all of them, the strongest first.
var Rungs = []Rung{PIDNamespace, Subreaper, ProcessGroup}

// Capability is the best that this machine offers to this user.
type Capability struct {
	Rung           Rung     `json:"rung"`
	MountNamespace bool     `json:"mount_namespace"`
	Filesystem     bool     `json:"filesystem"`        // a Filesystem can be enforced
	Reasons        []string `json:"reasons,omitempty"` // why it is not more
}

// Offers tells whether the rung can be had.
func (c Capability) Offers(r Rung) bool {
	i := slices.Index(Rungs, r)
	return i >= 0 && i >= slices.Index(Rungs, c.Rung)
}

// Forced is what is left of the capability on a rung that was asked for; "" asks for none. A rung that cannot be had
// stays what was asked, and no launch will succeed.
func (c Capability) Forced(r Rung) Capability {
	if r == "" || r == c.Rung {
		return c
	}
	return Capability{Rung: r, Reasons: append([]string{fmt.Sprintf("rung %s is forced by %s", r, ForceEnv)}, c.Reasons...)}
}

// ForceEnv is the variable by which a user forces a rung.
const ForceEnv = "BATON_SANDBOX_RUNG"

// probeLimit bounds the throw-away launch. It takes about 20 ms on an idle machine.
const probeLimit = 10 * time.Second

var probed struct {
	sync.Mutex
	known *Capability
}

// Probe finds out by doing it: it launches a throw-away process 1 that maps its ids, mounts a fresh /proc and a mask,
// drops its capabilities and executes itself, which is everything a session needs. Where that fails it launches a
// throw-away subreaper, which an orphan has to come back to. The answer is kept for the life of this process, unless it
// came from a timeout or from the end of ctx.
func Probe(ctx context.Context) Capability {
	probed.Lock()
	defer probed.Unlock()
	if probed.known == nil {
		c, final := probe(ctx)
		if !final {
			return c
		}
		probed.known = &c
	}
	return *probed.known
}

func probe(ctx context.Context) (c Capability, final bool) {
	limited, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	// First with everything, then without what an old kernel (mount_setattr came with 5.12) or an odd root file system lacks.
	whole := &Filesystem{ReadOnly: true}
	if real, err := filepath.EvalSymlinks("/tmp"); err == nil && real != "/" {
		whole.Rules = []Rule{{Path: real, Access: Private}}
	}
	c, final = try(limited, Launch{Args: []string{Command}, Filesystem: whole})
	if c.MountNamespace {
		c.Filesystem = true
		return c, final
	}
	why := c.Reasons
	c, final = try(limited, Launch{Args: []string{Command}})
	if c.MountNamespace {
		c.Reasons = why
		return c, final
	}
	reasons, err := trial(limited, Launch{Args: []string{Command}}, Subreaper)
	if err == nil {
		c.Rung = Subreaper
		return c, final
	}
	c.Reasons = append(c.Reasons, reasons...)
	if hasSeatbelt {
		if reasons, err := trialOfSeatbelt(limited); err != nil {
			c.Reasons = append(c.Reasons, reasons...)
		} else {
			c.Filesystem = true
		}
	}
	return c, final && limited.Err() == nil
}

// trialOfSeatbelt looks whether a profile is taken and hides what it is to hide.
func trialOfSeatbelt(limited context.Context) (reasons []string, err error) {
	dir, err := os.MkdirTemp("", "baton")
	if err != nil {
		return []string{err.Error()}, err
	}
	defer os.Remove(dir)
	return trial(limited, Launch{Args: []string{Command}, Mask: []string{dir}, Filesystem: &Filesystem{ReadOnly: true}}, ProcessGroup)
}

// try looks whether a launch on the first rung works.
func try(limited context.Context, l Launch) (c Capability, final bool) {
	reasons, err := trial(limited, l, PIDNamespace)
	if err != nil {
		return Capability{Rung: ProcessGroup, Reasons: append(reasons, hints()...)}, limited.Err() == nil && !errors.Is(err, errStayed)
	}
	return Capability{Rung: PIDNamespace, MountNamespace: true}, true
}

var errStayed = errors.New("the trial did not end")

// trials is how often a rung must refuse: a host lives for long on what its first minute said, and a launch can fail by
// chance where processes or memory are short for a moment.
const trials = 3

// trial launches a bridge that ends as soon as its rung is known to hold.
func trial(limited context.Context, l Launch, rung Rung) (reasons []string, err error) {
	for range trials {
		if reasons, err = trialOnce(limited, l, rung); err == nil || limited.Err() != nil {
			break
		}
	}
	return reasons, err
}

func trialOnce(limited context.Context, l Launch, rung Rung) (reasons []string, err error) {
	p, err := launch(limited, l, rung, true)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", rung, err)}, err
	}
	defer p.Release()
	if rung == PIDNamespace {
		if v := p.Stop(limited); v.State != Confirmed {
			return []string{fmt.Sprintf("%s: %v: %s", rung, errStayed, v.Detail)}, errStayed
		}
		return nil, nil
	}
	select { // it ends by itself
	case <-p.Done():
		return nil, nil
	case <-limited.Done():
		return []string{fmt.Sprintf("%s: %v", rung, errStayed)}, errStayed
	}
}

// choose settles the rung of a launch.
func choose(ctx context.Context, asked Rung) (Rung, error) {
	switch asked {
	case "":
		c := Probe(ctx)
		if err := context.Cause(ctx); err != nil { // what Probe said then may be about ctx, not about the machine
			return "", err
		}
		return c.Rung, nil
	case PIDNamespace, Subreaper, ProcessGroup:
		return asked, nil
	}
	return "", fmt.Errorf("rung %q is none of %q: %w", asked, Rungs, errors.ErrUnsupported)
}
