package host

import (
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sandbox/policy"
	"github.com/batonmcp/baton/sessions"
)

// Where Seatbelt takes the place of a mount namespace, it is put around agents that have no sandbox of their own and no
// others, and what it cannot hold is said.
func TestWhatSeatbeltHolds(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		name          string
		can           sandbox.Capability
		around, other bool
	}{
		{"a mount namespace", sandbox.Capability{Rung: sandbox.PIDNamespace, MountNamespace: true, Filesystem: true}, true, true},
		{"an old kernel", sandbox.Capability{Rung: sandbox.PIDNamespace, MountNamespace: true}, false, false},
		{"a subreaper", sandbox.Capability{Rung: sandbox.Subreaper}, false, false},
		{"Seatbelt", sandbox.Capability{Rung: sandbox.ProcessGroup, Filesystem: true}, true, false},
	} {
		r.can = tt.can
		if a, o := r.enforces(true), r.enforces(false); a != tt.around || o != tt.other {
			t.Errorf("%s: around an agent without a sandbox %v, around another %v", tt.name, a, o)
		}
	}
	was := policy.Policy{Writable: []string{"/w"}, Private: []string{"/private/tmp"}, Holes: []string{"h"}}
	p := shared(was)
	if !slices.Equal(p.Writable, []string{"/private/tmp", "/w"}) || len(p.Private) != 0 || len(p.Holes) != 3 || p.Holes[0] != "h" ||
		!strings.Contains(p.Holes[1], "/private/tmp is shared") || !strings.Contains(p.Holes[2], "launchd") {
		t.Errorf("%+v", p)
	}
	r.can = sandbox.Capability{Rung: sandbox.ProcessGroup, Filesystem: true}
	if _, err := r.Create(t.Context(), r.who, r.args(func(a *sessions.CreateArgs) { a.Sandbox = sessions.SandboxFullAccess })); sessions.CodeOf(err) != sessions.CodeSandboxUnavailable {
		t.Errorf("full access, without a mount namespace: %v", err)
	}
}
