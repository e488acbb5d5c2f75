package host

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// workspace is where a session works: paths without symbolic links, so that none can lead elsewhere later, and the
// directories that lay there when they were looked at.
type workspace struct {
	cwd   string
	roots []string
	pins  []sandbox.Pin
}

// workspaceOf finds where a new session is to work.
func (h *Host) workspaceOf(who sessions.Caller, cwd string, roots []string) (workspace, error) {
	var w workspace
	var err error
	if w.cwd, err = h.directory(&w, who, "cwd", cwd); err != nil {
		return w, err
	}
	return w, h.addRoots(&w, who, roots)
}

// workspaceAgain finds where a session works that was made before. Its paths led to themselves then, and still must.
func (h *Host) workspaceAgain(who sessions.Caller, cwd string, roots, was []string) (workspace, error) {
	var w workspace
	for i, path := range append([]string{cwd}, was...) {
		if i > 0 && !slices.Contains(roots, path) {
			continue // the caller asks for others now
		}
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
			return w, sessions.Errorf(sessions.CodeInvalidParams, "the session was made for %.200q, which leads to %.200q now", path, real).
				Do("put the directory back, or create a session in the other one")
		}
	}
	var err error
	if w.cwd, err = h.directory(&w, who, "cwd", cwd); err != nil {
		return w, err
	}
	return w, h.addRoots(&w, who, roots)
}

func (h *Host) addRoots(w *workspace, who sessions.Caller, roots []string) error {
	for _, root := range roots {
		real, err := h.directory(w, who, "writable_roots", root)
		if err != nil {
			return err
		}
		w.roots = append(w.roots, real)
	}
	return nil
}

// narrow refuses writable roots that would make the workspace of a read-only session writable as well.
func (w workspace) narrow(sandboxName string) error {
	if sandboxName != sessions.SandboxReadOnly {
		return nil
	}
	for _, root := range w.roots {
		if inside(w.cwd, root) {
			return sessions.Errorf(sessions.CodeInvalidParams, "writable_roots has %.200q, which holds the cwd, and sandbox %s was asked", root, sandboxName).
				Do("ask for sandbox %s, or name folders below or beside %.200q", sessions.SandboxWorkspaceWrite, w.cwd)
		}
	}
	return nil
}

// directory resolves one directory and adds it to w. Baton's own, which are masked for agents, are none to work in; a caller
// who is bound to folders gets none outside of them.
func (h *Host) directory(w *workspace, who sessions.Caller, name, path string) (string, error) {
	if err := checkDir(name, path); err != nil {
		return "", err
	}
	refuse := func(err error) (string, error) {
		return "", sessions.Errorf(sessions.CodeInvalidParams, "%s %.200q cannot be resolved: %w", name, path, err).
			Do("see that you may look into it, or name another directory")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return refuse(err)
	}
	for _, own := range h.masks() {
		if o, err := filepath.EvalSymlinks(own); err == nil && inside(real, o) {
			return "", sessions.Errorf(sessions.CodeInvalidParams, "%s %.200q lies in Baton's own directory %s", name, path, own).
				Do("work in another directory")
		}
	}
	if len(who.Folders) > 0 && !slices.ContainsFunc(who.Folders, func(f string) bool { return inside(real, f) }) {
		return "", sessions.Errorf(sessions.CodeInvalidParams, "%s %.200q leads out of the folders that the session is bound to", name, path).
			Do("use one of: %s; for more, create a session without that bound", strings.Join(who.Folders, ", "))
	}
	pin, err := sandbox.PinDir(real)
	if err != nil {
		return refuse(err)
	}
	w.pins = append(w.pins, pin)
	return real, nil
}

// boundTo are the folders that a session stays bound to: those of whoever made it, or those of the first who was bound.
func boundTo(was, now []string) []string {
	if len(was) > 0 {
		return was
	}
	return now
}

// stillBound are the folders for the next start of a session: what bound it when it was made binds whoever resumes it,
// its owner too, and what binds the caller binds it as well.
func stillBound(s journal.Session, folders []string) ([]string, error) {
	was := s.Settings.Folders
	if len(was) == 0 || len(folders) == 0 {
		return boundTo(was, folders), nil
	}
	var both []string
	for _, a := range was {
		for _, b := range folders {
			switch {
			case inside(a, b):
				both = append(both, a)
			case inside(b, a):
				both = append(both, b)
			}
		}
	}
	if len(both) == 0 {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "session %s was made in other folders (%s) than the caller is bound to", s.ID, strings.Join(was, ", ")).
			Do("create a session in one of: %s", strings.Join(folders, ", "))
	}
	slices.Sort(both)
	return slices.Compact(both), nil
}

// inside tells whether path is dir or lies in it.
func inside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// unmoved fails when a directory of the launch was replaced since the session was planned. The bridge looks again, at the
// moment in which the agent starts; here it is seen before anything runs, and before rules are made of what is there now.
func (l *launch) unmoved() error {
	for _, p := range l.spec.Pins {
		if err := p.Check(); err != nil {
			return bridge.Replaced(p, err)
		}
	}
	return nil
}
