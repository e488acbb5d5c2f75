package bridge

import "github.com/batonmcp/baton/sessions"

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
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = p.Files
	return nil
}

// withFiles adds to what an agent confirmed what the bridge does.
func (b *Bridge) withFiles(e sessions.Evidence) sessions.Evidence {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Files = b.files
	return e
}
