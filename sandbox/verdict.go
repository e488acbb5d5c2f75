package sandbox

import (
	"context"
	"fmt"
	"time"
)

// State is what can be said about the processes of a launch.
type State string

const (
	Confirmed   State = "confirmed"   // none exists; Proof tells how that is known
	Unconfirmed State = "unconfirmed" // some may exist
	Running     State = "running"     // the bridge lives
)

// Proof is what a confirmation rests on.
type Proof string

const (
	ProofPIDNamespace Proof = "pid_namespace"
	ProofSubreaper    Proof = "subreaper" // the living bridge had no descendant left, and started none afterwards
	ProofReboot       Proof = "reboot"
	ProofNeverStarted Proof = "never_started"
	ProofNone         Proof = "none"
)

// Verdict is the answer to "does anything of this launch still run". Only this file makes confirmed ones.
type Verdict struct {
	State    State         `json:"state"`
	Proof    Proof         `json:"proof"`
	Detail   string        `json:"detail,omitempty"`
	Suspects []int         `json:"suspects,omitempty"` // processes that carry the launch's marker and could not be ended
	Took     time.Duration `json:"took"`
}

func confirmed(p Proof, began time.Time) Verdict {
	return Verdict{State: Confirmed, Proof: p, Took: time.Since(began)}
}

func unconfirmed(began time.Time, format string, args ...any) Verdict {
	return Verdict{State: Unconfirmed, Proof: ProofNone, Detail: fmt.Sprintf(format, args...), Took: time.Since(began)}
}

// ended is the verdict on a bridge that is seen to be gone.
func ended(r Record, began time.Time) Verdict {
	if r.Rung == PIDNamespace {
		return confirmed(ProofPIDNamespace, began)
	}
	if r.Rung == Subreaper {
		return unconfirmed(began, "the bridge ended before it was seen to be without descendants, and nobody can prove that nothing else is left")
	}
	return unconfirmed(began, "the bridge is gone; rung %s cannot prove that nothing else is left", r.Rung)
}

// emptied is the verdict on a bridge that was seen to be without descendants for good, and is seen to be gone.
func emptied(r Record, began time.Time) Verdict {
	if r.Rung != Subreaper {
		return ended(r, began)
	}
	return confirmed(ProofSubreaper, began)
}

// Settle says what became of a recorded launch, after any crash and with no Process at hand. A living bridge is left
// alone and reported as Running: to end it, Open the record and Stop it. Where the bridge is gone and its rung proves
// nothing, what carries the marker of the launch is killed, within ctx, and the verdict stays unconfirmed.
//
// A record without a PID is a launch of which no process was registered. Since an agent is executed only after its
// bridge was registered, nothing ran.
func Settle(ctx context.Context, r Record) Verdict {
	began := time.Now()
	if r.PID == 0 {
		return confirmed(ProofNeverStarted, began)
	}
	switch now, err := bootID(); {
	case err != nil:
		return unconfirmed(began, "the boot id cannot be read: %v", err)
	case r.BootID == "":
		return unconfirmed(began, "the record names no boot")
	case r.BootID != now:
		return confirmed(ProofReboot, began)
	}
	h, presence, why := find(r)
	switch presence {
	case alive:
		h.close()
		return Verdict{State: Running, Proof: ProofNone, Took: time.Since(began)}
	case unsure:
		return unconfirmed(began, "%s", why)
	}
	if r.Rung == PIDNamespace {
		return ended(r, began)
	}
	return remains(ctx, r, nil, began)
}

// remains kills what the dead bridge of a weak rung left behind.
func remains(ctx context.Context, r Record, known []Proc, began time.Time) Verdict {
	found, left := killRemains(ctx, r.Marker, known)
	v := ended(r, began)
	if found > 0 {
		v.Detail += fmt.Sprintf("; %d left behind were found, %d still live", found, len(left))
	}
	v.Suspects = left
	v.Took = time.Since(began)
	return v
}

// Sweep ends what is left of launches that ended without a proof: whatever still carries the marker of one of them, if it
// is of this boot, its bridge is gone, and its pids count here. Everything else, a living bridge's session above all, is
// left alone. It returns how many it met, and proves nothing.
func Sweep(ctx context.Context, records []Record) (met int) {
	boot, err := bootID()
	if err != nil {
		return 0
	}
	markers := map[string]bool{}
	for _, r := range records {
		if r.Marker == "" || r.BootID != boot || r.Rung == PIDNamespace {
			continue
		}
		h, presence, _ := find(r)
		if h != nil && presence == alive {
			h.close()
		}
		if presence == gone {
			markers[r.Marker] = true
		}
	}
	if len(markers) == 0 || len(carriers(markers)) == 0 {
		return 0
	}
	for m := range markers {
		n, _ := killRemains(ctx, m, nil)
		met += n
	}
	return met
}
