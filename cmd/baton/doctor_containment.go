package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sandbox"
)

// containment says how sessions are held here, whether a sandbox can be put around an agent, why no more than that, and
// what to do about it. Less than everything is no fault: what cannot be held to is refused when it is asked for.
func containment(can sandbox.Capability, forced sandbox.Rung, read func(file string) string) []finding {
	if forced != "" && !can.Offers(forced) {
		return []finding{{Part: "containment", Says: fmt.Sprintf("no session can start: %s=%s, and the best here is %s (%s)", sandbox.ForceEnv, forced, can.Rung, strings.Join(can.Reasons, "; ")),
			Fix: fmt.Sprintf("unset %s, or set it to one of %q that is no better than the best", sandbox.ForceEnv, sandbox.Rungs)}}
	}
	free := can.Rung
	can = can.Forced(forced)
	why := strings.Join(can.Reasons, "; ")
	held := finding{Part: "containment", OK: true, Says: string(can.Rung) + ": the end of a session's processes can be proven, after any crash"}
	switch can.Rung {
	case sandbox.PIDNamespace:
	case sandbox.Subreaper:
		held.Says = string(can.Rung) + ": the end of a session's processes can be proven while its bridge lives, and not once that was killed (" + why + ")"
	default:
		held.Says = string(can.Rung) + ": the end of a session's processes cannot be proven here (" + why + ")"
	}
	switch {
	case can.Rung != free:
		held.Fix = "unset " + sandbox.ForceEnv + ": " + string(free) + " can be had here"
	case can.Rung != sandbox.PIDNamespace:
		held.Fix = remedy(read)
	}
	files := finding{Part: "sandbox", OK: true,
		Says: "a sandbox can be put around agents that have none, and credentials can be hidden from all"}
	switch {
	case can.Filesystem && can.MountNamespace:
	case can.Filesystem:
		files.Says = "a sandbox can be put around agents that have none, by Seatbelt; nothing can be hidden from the others, and danger-full-access needs allow_unconfined_full_access"
	case can.MountNamespace:
		files.Says = "only Baton's own folders can be hidden from agents; those without a sandbox of their own need danger-full-access (" + why + ")"
		files.Fix = "use Linux 5.12 or later, and a root file system that is no initial RAM disk"
	default:
		files.Says = "nothing can be hidden from agents, Baton's own folders neither; danger-full-access needs allow_unconfined_full_access, and the other sandboxes an agent that has them itself"
		files.Fix = held.Fix
	}
	return []finding{held, files}
}

// hiding says what of the user's own list is hidden from agents.
func hiding(p place.Places, can sandbox.Capability) finding {
	f := finding{Part: "hidden", OK: true, Says: "nothing beside credentials and Baton's own folders; more with hidden under [sandbox] in " + p.Config}
	cfg, err := config.Load(p.Config)
	if err != nil {
		return finding{Part: "hidden", Says: "the list cannot be read", Fix: "correct the configuration file"}
	}
	var there, missing []string
	for _, path := range cfg.HiddenPaths(os.Getenv("HOME")) {
		switch _, err := os.Stat(path); {
		case errors.Is(err, os.ErrNotExist):
			missing = append(missing, path)
		case err != nil:
			return finding{Part: "hidden", Says: err.Error(), Fix: "see that you may look there, or take it off the list hidden under [sandbox] in " + p.Config}
		default:
			there = append(there, path)
		}
	}
	if len(there) > 0 {
		f.Says = strings.Join(there, ", ") + ": hidden from every agent"
	}
	if len(missing) > 0 {
		f.Says += "; not there, so not hidden should it come while a session runs: " + strings.Join(missing, ", ")
	}
	if len(there) > 0 && !can.MountNamespace {
		return finding{Part: "hidden", Says: "nothing can be hidden here, so no session starts: " + strings.Join(there, ", ") + " is on the list of what no agent may see",
			Fix: "take hidden under [sandbox] out of " + p.Config + ", or see above"}
	}
	return f
}

func readHere(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// remedy is what lets this program have namespaces, by what is known to forbid them.
func remedy(read func(file string) string) string {
	switch {
	case runtime.GOOS != "linux":
		return "there are no namespaces on " + runtime.GOOS + "; nothing can be done"
	case read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return appArmor()
	case read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "allow user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1"
	case read("/proc/sys/user/max_user_namespaces") == "0":
		return "allow user namespaces: sudo sysctl -w user.max_user_namespaces=10000"
	case read("/run/.containerenv") != "" || read("/proc/1/cgroup") != "" && strings.Contains(read("/proc/1/cgroup"), "docker"):
		return "start this container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, or run Baton outside of it"
	}
	return "allow unprivileged user namespaces, and mounting /proc in them, for this program"
}

// appArmor is a profile that allows this program namespaces and else confines nothing, as Ubuntu 24.04 and later ask for.
func appArmor() string {
	self, err := os.Executable()
	if err != nil {
		self = "/usr/local/bin/baton"
	}
	return fmt.Sprintf(`AppArmor lets no program without a profile have namespaces. Write this to /etc/apparmor.d/baton:
  abi <abi/4.0>,
  include <tunables/global>
  profile baton %q flags=(unconfined) {
    userns,
  }
then run: sudo apparmor_parser -r /etc/apparmor.d/baton`, self)
}
