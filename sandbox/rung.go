package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// Rung names how a session's processes are held.
type Rung string

const (
	PIDNamespace Rung = "pid_namespace"
	ProcessGroup Rung = "process_group"
)

// Capability is the best that this machine offers to this user.
type Capability struct {
	Rung           Rung     `json:"rung"`
	MountNamespace bool     `json:"mount_namespace"`
	Filesystem     bool     `json:"filesystem"`        // a Filesystem can be enforced
	Reasons        []string `json:"reasons,omitempty"` // why it is not more
}

// probeLimit bounds the throw-away launch. It takes about 20 ms on an idle machine.
const probeLimit = 10 * time.Second

var probed struct {
	sync.Mutex
	known *Capability
}

// Probe finds out by doing it: it launches a throw-away process 1 that maps its ids, mounts a fresh /proc and a mask,
// drops its capabilities and executes itself, which is everything a session needs. The answer is kept for the life of
// this process, unless it came from a timeout or from the end of ctx.
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
	}
	return c, final
}

func try(limited context.Context, l Launch) (c Capability, final bool) {
	p, err := launch(limited, l, PIDNamespace, true)
	if err != nil {
		reasons := append([]string{err.Error()}, hints()...)
		return Capability{Rung: ProcessGroup, Reasons: reasons}, limited.Err() == nil
	}
	defer p.Release()
	if v := p.Stop(limited); v.State != Confirmed {
		return Capability{Rung: ProcessGroup, Reasons: []string{"the trial namespace did not end: " + v.Detail}}, false
	}
	return Capability{Rung: PIDNamespace, MountNamespace: true}, true
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
	case PIDNamespace, ProcessGroup:
		return asked, nil
	}
	return "", fmt.Errorf("rung %q: %w", asked, errors.ErrUnsupported)
}
