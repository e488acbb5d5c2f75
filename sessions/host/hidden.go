package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/sessions"
)

// hidden are the paths of the user's own list that are there, as they are masked: without symbolic links. They are refused
// where nothing can be masked, and where the agent needs what they would hide. ~ is the caller's home folder and the host's.
func (h *Host) hidden(cfg *config.Config, who sessions.Caller, runner config.Runner, dirs ...string) ([]string, error) {
	var out []string
	for _, path := range cfg.HiddenPaths(lookup(who.Env)("HOME"), os.Getenv("HOME")) {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // there is nothing to be seen
		}
		refuse := func(format string, args ...any) ([]string, error) {
			return nil, sessions.Errorf(sessions.CodeInvalidParams, format+", and %s is hidden from every agent", append(args, path)...).
				Do("name something else, or take it off the list hidden under [sandbox] in %s", h.o.Places.Config)
		}
		if err != nil {
			return refuse("whether the list hides what it should cannot be told: %v", err)
		}
		if !h.can.MountNamespace {
			return nil, sessions.Errorf(sessions.CodeSandboxUnavailable, "%s is on the list of what no agent may see, and nothing can be hidden here (%s)", path, strings.Join(h.can.Reasons, "; ")).
				Do("see what `baton doctor` says about containment, or take the list hidden under [sandbox] out of %s", h.o.Places.Config)
		}
		if home, err := filepath.EvalSymlinks(lookup(who.Env)("HOME")); err == nil && inside(home, real) {
			return refuse("the agent's home folder is %s", home)
		}
		for _, dir := range dirs {
			if inside(dir, real) {
				return refuse("the session is to work in %.200q", dir)
			}
		}
		for _, program := range []string{runner.Executable, slices.Concat(runner.Argv, []string{""})[0]} {
			if p, err := filepath.EvalSymlinks(program); err == nil && inside(p, real) {
				return refuse("the program of runner %s is %s", runner.Name, p)
			}
		}
		out = append(out, real)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
