package bridge

import (
	"time"

	"github.com/batonmcp/baton/sandbox"
)

// noteBegun notes that turns have begun, also where the agent began the first one by itself.
func (b *Bridge) noteBegun() {
	p := b.running()
	if p == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
}

// helpers gives a function that tells the agent's own helpers from what its turns started: those that the adapter knows,
// and what such a one, or one that is older than every turn, has put in its own place. An MCP server is often run by a
// launcher (npx, uvx, a script) that is there at once, while the server itself comes seconds later, in the first turn, under
// a name that nobody can know. What gives it away is that it goes on with its launcher's conversation, on the very pipes.
// What a server starts for a tool call has other ones, and is the turn's.
func (b *Bridge) helpers(p *agentProcess) func(sandbox.Proc) bool {
	b.mu.Lock()
	begun := p.begun
	b.mu.Unlock()
	all, young := map[int]sandbox.Proc{}, map[int]bool{}
	for _, proc := range b.o.Reaper.Born(time.Time{}) {
		all[proc.PID] = proc
	}
	for _, proc := range b.o.Reaper.Born(begun) {
		young[proc.PID] = true
	}
	return func(proc sandbox.Proc) bool {
		for range len(all) {
			if p.agent.Standing(proc.Argv) {
				return true
			}
			parent, known := all[proc.PPID]
			if !known || parent.PID == p.child.PID() {
				return false
			}
			if speaks := proc.Speaks(); speaks == "" || parent.Speaks() != speaks {
				return false
			}
			if !young[parent.PID] {
				return true
			}
			proc = parent
		}
		return false
	}
}
