package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
)

// Each machine is told what holds, why not more, and what to do.
func TestDoctorSaysWhatHolds(t *testing.T) {
	whole := sandbox.Capability{Rung: sandbox.PIDNamespace, MountNamespace: true, Filesystem: true}
	masks := sandbox.Capability{Rung: sandbox.PIDNamespace, MountNamespace: true, Reasons: []string{"mount_setattr: function not implemented"}}
	middle := sandbox.Capability{Rung: sandbox.Subreaper, Reasons: []string{"pid_namespace: clone: operation not permitted"}}
	group := sandbox.Capability{Rung: sandbox.ProcessGroup, Reasons: []string{"clone: operation not permitted"}}
	mac := sandbox.Capability{Rung: sandbox.ProcessGroup, Filesystem: true, Reasons: []string{"there is no rung subreaper on darwin"}}
	for _, tt := range []struct {
		name  string
		can   sandbox.Capability
		files map[string]string
		says  string
		fix   string
	}{
		{"everything", whole, nil, "proven", ""},
		{"an old kernel", masks, nil, "not implemented", "5.12"},
		{"the middle rung", middle, map[string]string{"/proc/sys/user/max_user_namespaces": "0"}, "while its bridge lives, and not once that was killed (pid_namespace: clone: operation not permitted)", "max_user_namespaces"},
		{"AppArmor", group, map[string]string{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, "not permitted", "userns,"},
		{"sysctl", group, map[string]string{"/proc/sys/kernel/unprivileged_userns_clone": "0"}, "not permitted", "unprivileged_userns_clone=1"},
		{"none allowed", group, map[string]string{"/proc/sys/user/max_user_namespaces": "0"}, "not permitted", "max_user_namespaces"},
		{"a container", group, map[string]string{"/proc/1/cgroup": "0::/docker/abc"}, "not permitted", "seccomp"},
		{"Seatbelt", mac, nil, "by Seatbelt; nothing can be hidden from the others", "namespaces"},
		{"unknown", group, nil, "not permitted", "namespaces"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS != "linux" && tt.can.Rung != sandbox.PIDNamespace {
				t.Skip("NOT TESTED: remedies are Linux's")
			}
			found := containment(tt.can, "", func(file string) string { return tt.files[file] })
			text, fix := "", ""
			for _, f := range found {
				text += f.Says + "\n"
				fix += f.Fix + "\n"
				if !f.OK {
					t.Errorf("%+v is called a fault", f)
				}
			}
			if !strings.Contains(text, tt.says) || tt.fix == "" != (strings.TrimSpace(fix) == "") || !strings.Contains(fix, tt.fix) {
				t.Errorf("%+v", found)
			}
		})
	}
}

// Whoever forces a rung is told what that costs, and that nothing can start where it cannot be had.
func TestDoctorOfAForcedRung(t *testing.T) {
	whole := sandbox.Capability{Rung: sandbox.PIDNamespace, MountNamespace: true, Filesystem: true}
	middle := sandbox.Capability{Rung: sandbox.Subreaper, Reasons: []string{"pid_namespace: clone: operation not permitted"}}
	for _, tt := range []struct {
		can       sandbox.Capability
		forced    sandbox.Rung
		ok        bool
		says, fix string
	}{
		{whole, sandbox.Subreaper, true, "subreaper: the end of a session's processes can be proven while", "unset BATON_SANDBOX_RUNG: pid_namespace can be had"},
		{whole, sandbox.ProcessGroup, true, "process_group: the end of a session's processes cannot", "pid_namespace can be had"},
		{whole, sandbox.PIDNamespace, true, "after any crash", ""},
		{middle, sandbox.PIDNamespace, false, "the best here is subreaper (pid_namespace: clone: operation not permitted)", "unset BATON_SANDBOX_RUNG"},
		{whole, "cage", false, "BATON_SANDBOX_RUNG=cage", `["pid_namespace" "subreaper" "process_group"]`},
	} {
		found := containment(tt.can, tt.forced, func(string) string { return "" })
		if f := found[0]; f.OK != tt.ok || !strings.Contains(f.Says, tt.says) || !strings.Contains(f.Fix, tt.fix) || (f.Fix == "") != (tt.fix == "") {
			t.Errorf("%s of %s: %+v", tt.forced, tt.can.Rung, f)
		}
	}
}
