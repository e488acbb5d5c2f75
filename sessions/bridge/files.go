package bridge

import (
	"errors"
	"os"

	"github.com/batonmcp/baton/sessions"
)

// confirmFiles compares the policy for files that the host means with the one that this process entered, which alone is
// evidence: without it a session that was asked for with a sandbox never starts.
func (b *Bridge) confirmFiles(p *sessions.OpenParams) *sessions.Error {
	asked := ""
	if p.Files != nil {
		asked = p.Files.Name
	}
	if in := b.o.Inside.Filesystem; in != asked || p.BridgeSandbox != "" && p.BridgeSandbox != in {
		return sessions.Errorf(sessions.CodeSandboxUnavailable, "the policy %q for files was asked of the session's bridge, and %q is in force", asked, in).
			Do("see what `baton doctor` says about containment, then create the session again")
	}
	for _, path := range p.Hidden {
		if !closed(path) {
			return sessions.Errorf(sessions.CodeSandboxUnavailable, "%s was to be hidden, and is to be seen", path).
				Do("see what `baton doctor` says about containment, then create the session again")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files, b.hidden = p.Files, p.Hidden
	return nil
}

// closed tells whether nothing is to be seen of a path: a mask is an empty folder without permissions, or no file but a
// device; and where something above it is hidden, or empty, there is nothing.
func closed(path string) bool {
	fi, err := os.Lstat(path)
	switch {
	case err != nil:
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)
	case fi.IsDir():
		return fi.Mode().Perm() == 0
	}
	return fi.Mode()&os.ModeCharDevice != 0
}

// withFiles adds to what an agent confirmed what the bridge does.
func (b *Bridge) withFiles(e sessions.Evidence) sessions.Evidence {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Files, e.Hidden = b.files, b.hidden
	return e
}
