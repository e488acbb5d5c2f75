package host

import (
	"slices"

	"context"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sandbox/policy"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// maxProcesses caps the processes and threads of one session, so that what starts others without end stops at its own
// bound and not at the machine's.
const maxProcesses = 4096

// enforces tells whether a session can be held to a policy for files here: in a mount namespace, or, around an agent
// without a sandbox of its own, by Seatbelt, which cannot be nested.
func (h *Host) enforces(around bool) bool {
	return h.can.Filesystem && (h.can.MountNamespace || around)
}

// files makes the rules for the files of a session and puts down in spec what is to be confirmed of them. Around an agent
// without a sandbox that could be confirmed they are the whole sandbox. Codex has its own, out of which a single command
// is let by an approval; around it they hide what no session needs. It goes by the path of its directory, which another
// session of that caller's may have made a link meanwhile: of a caller who is bound to folders the whole sandbox is around
// Codex too, where that can be. nil where nothing can be enforced, and with full access.
func (h *Host) files(runner config.Runner, spec *bridge.Spec, folders []string) (*sandbox.Filesystem, error) {
	if !h.enforces(runner.Protocol == protocolACP) {
		return nil, nil
	}
	open := &spec.Open
	a := policy.Ask{Sandbox: open.Selection.Sandbox, Around: runner.Protocol == protocolACP || len(folders) > 0, Runner: runner.Name, Argv: spec.Argv, Cwd: spec.Dir,
		Roots: open.WritableRoots, Env: spec.Env, Own: h.masks(), Config: h.o.Places.Config, Bound: folders}
	if runner.Protocol == protocolAppServer {
		a.Runner = "codex" // whatever the configuration calls it: it keeps its state, and its login, where Codex does
	}
	if !runner.Embedded {
		a.Executable = runner.Executable
	}
	p, err := policy.Compile(a)
	if err != nil || p.Filesystem == nil {
		return nil, err
	}
	if !h.can.MountNamespace {
		p = shared(p)
	}
	f := &sessions.FilePolicy{Name: p.Filesystem.Name, Writable: p.Writable, Private: p.Private, Holes: p.Holes, Watched: p.Watched}
	for _, r := range p.Filesystem.Rules {
		switch r.Access {
		case sandbox.ReadOnly:
			f.ReadOnly++
		case sandbox.Hidden:
			f.Hidden++
		}
	}
	spec.Env, open.Files = p.Env, f
	if runner.Protocol == protocolACP {
		open.BridgeSandbox = a.Sandbox
	}
	return p.Filesystem, nil
}

// shared is a policy as Seatbelt can hold it, which has no private folders and no hold on what others do for an agent.
func shared(p policy.Policy) policy.Policy {
	p.Holes = slices.Clone(p.Holes)
	for _, dir := range p.Private {
		p.Holes = append(p.Holes, dir+" is shared with every other program, and writable")
	}
	p.Holes = append(p.Holes, "what other programs can be made to do, launchd above all, is not held to the policy")
	p.Writable = slices.Sorted(slices.Values(slices.Concat(p.Writable, p.Private)))
	p.Private = nil
	return p
}

// files is the policy that the bridge of a launch is to enter.
func (t *tender) files() *sandbox.Filesystem {
	if l := t.launch(); l != nil {
		return l.files
	}
	return nil // and should that not be what the session was planned with, its bridge refuses to open it
}

// unplant removes what a bridge that is gone could not, and notes it as the reason of the session's end.
func (t *tender) unplant() {
	f := t.policy
	if f == nil { // another host launched it
		if err := t.h.j.View(context.WithoutCancel(t.h.life), func(tx *journal.Tx) error {
			s, err := tx.GetSession("", t.session)
			f = s.Evidence.Files
			return err
		}); err != nil {
			t.h.o.Log.Warn().Err(err).Str("session", t.session).Msg("whether files were planted is not known")
		}
	}
	if found := bridge.Unplant(f); len(found) > 0 && t.cause == nil {
		t.cause = bridge.Planted(found)
	}
}
