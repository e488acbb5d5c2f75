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
	group := sandbox.Capability{Rung: sandbox.ProcessGroup, Reasons: []string{"clone: operation not permitted"}}
	for _, tt := range []struct {
		name  string
		can   sandbox.Capability
		files map[string]string
		says  string
		fix   string
	}{
		{"everything", whole, nil, "proven", ""},
		{"an old kernel", masks, nil, "not implemented", "5.12"},
		{"AppArmor", group, map[string]string{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, "not permitted", "userns,"},
		{"sysctl", group, map[string]string{"/proc/sys/kernel/unprivileged_userns_clone": "0"}, "not permitted", "unprivileged_userns_clone=1"},
		{"none allowed", group, map[string]string{"/proc/sys/user/max_user_namespaces": "0"}, "not permitted", "max_user_namespaces"},
		{"a container", group, map[string]string{"/proc/1/cgroup": "0::/docker/abc"}, "not permitted", "seccomp"},
		{"unknown", group, nil, "not permitted", "namespaces"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS != "linux" && tt.can.Rung != sandbox.PIDNamespace {
				t.Skip("NOT TESTED: remedies are Linux's")
			}
			found := containment(tt.can, func(file string) string { return tt.files[file] })
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
