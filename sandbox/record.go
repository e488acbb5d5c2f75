package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// ErrGone tells that the process of a record does not exist any more.
var ErrGone = errors.New("the recorded process is gone")

// Record is the durable identity of a bridge. Whoever holds it can say later, after any crash, whether that very process
// still lives; a pid alone says nothing, because pids are used again.
type Record struct {
	BootID     string `json:"boot_id"`
	PID        int    `json:"pid"`
	Start      uint64 `json:"start"`                 // Linux: clock ticks since boot; elsewhere: microseconds since 1970
	PidfdInode uint64 `json:"pidfd_inode,omitempty"` // never used twice within a boot; 0 before Linux 6.9
	// PIDScope is the pid namespace in which PID counts. Where it is not ours, the record cannot be decided here: the
	// process may live on in another container. An equal number means the same namespace, or that the recorded one has
	// ended and its number went to ours.
	PIDScope       uint64 `json:"pid_scope,omitempty"`
	Rung           Rung   `json:"rung"`
	MountNamespace bool   `json:"mount_namespace"`
	// Marker is in the environment of everything spawned (MarkerEnv), to find what outlived its bridge.
	Marker string `json:"marker"`
}

// MarkerEnv is the environment variable that carries Record.Marker.
const MarkerEnv = "BATON_MARK"

type presence int

const (
	unsure presence = iota
	alive
	gone
)

// find looks for the process of r, whose boot is the present one. The handle comes with alive only.
//
// A pidfd is opened first and everything else is compared through the pid afterwards: as long as the pidfd shows a living
// process, its pid cannot have passed to another one.
func find(r Record) (h *handle, p presence, why string) {
	if r.PID <= 1 || (r.Start == 0 && r.PidfdInode == 0) || !slices.Contains(Rungs, r.Rung) {
		return nil, unsure, "the record is incomplete"
	}
	if scope := pidScope(); scope != r.PIDScope {
		return nil, unsure, fmt.Sprintf("the record counts pids in namespace %d, this process lives in %d", r.PIDScope, scope)
	}
	h, err := openHandle(r.PID)
	if errors.Is(err, ErrGone) {
		return nil, gone, ""
	}
	if err != nil {
		return nil, unsure, fmt.Sprintf("process %d cannot be looked at: %v", r.PID, err)
	}
	defer func() {
		if p != alive {
			h.close()
			h = nil
		}
	}()
	info, infoErr := lookup(r.PID)
	if h.gone() { // a zombie, or it ended meanwhile: what was read may be about a successor
		return h, gone, ""
	}
	sameInode := r.PidfdInode != 0 && h.inode == r.PidfdInode
	if !sameInode && r.PidfdInode != 0 && h.inode != 0 {
		return h, gone, ""
	}
	switch {
	case infoErr != nil && sameInode:
		return h, alive, "" // /proc mounted with hidepid shows nothing of a process that is not dumpable
	case infoErr != nil:
		return h, unsure, fmt.Sprintf("process %d cannot be compared: %v", r.PID, infoErr)
	case info.uid != os.Geteuid(): // a bridge never changes its user
		return h, gone, ""
	case info.start == r.Start:
		return h, alive, ""
	case sameInode && r.Start != 0:
		return h, unsure, fmt.Sprintf("process %d has the recorded pidfd but not the recorded start time", r.PID)
	case sameInode:
		return h, alive, ""
	}
	return h, gone, ""
}
