package acp

import "github.com/batonmcp/baton/sessions"

// pastSize bounds what is remembered of earlier turns.
const pastSize = 1024

// past knows the tools and messages of earlier turns, so that an update of theirs is not taken for the running turn's.
type past struct {
	tools    memory[pastTool]
	messages memory[string] // to the command
}

type pastTool struct {
	command string
	tool    sessions.Tool // without its output
	ended   bool          // by the agent
}

// keep remembers what a feed had.
func (p *past) keep(f *feed) {
	if f.agent != "" {
		return // sub-agents' ids are their own
	}
	for id, t := range f.tools {
		kept := pastTool{f.command, t.now, t.ended && !t.abandoned}
		kept.tool.Output, kept.tool.Detail = "", nil
		p.tools.put(id, kept)
	}
	for id := range f.ids {
		p.messages.put(id, f.command)
	}
}

// note remembers ids of a replay.
func (p *past) note(message, tool, command string) {
	if message != "" {
		p.messages.put(message, command)
	}
	if tool != "" {
		p.tools.put(tool, pastTool{command: command, tool: sessions.Tool{Name: "other"}, ended: true})
	}
}

// owner is the command that a message or a tool belongs to.
func (p *past) owner(message, tool string) (string, bool) {
	if t, ok := p.tools.get(tool); ok && tool != "" {
		return t.command, true
	}
	command, ok := p.messages.get(message)
	return command, ok && message != ""
}

// revive is the late feed that events of an earlier turn go to. It knows the tool, so that the tool does not start anew.
func (a *Agent) revive(command, id string) *feed {
	key := "\x00" + command // no session id; one feed for each command
	f := a.late[key]
	if f == nil {
		f = a.lateFeed(key)
		f.agent, f.command = "", command
	}
	if old, ok := a.past.tools.get(id); ok && id != "" && f.tools[id] == nil {
		// Not in order: its turn has closed it already, finish must not do so again.
		f.tools[id] = &tool{id: id, now: old.tool, ended: old.ended}
	}
	return f
}

// memory is a map that forgets its oldest entries.
type memory[V any] struct {
	entries map[string]V
	order   []string
}

func (m *memory[V]) get(key string) (V, bool) {
	v, ok := m.entries[key]
	return v, ok
}

func (m *memory[V]) put(key string, v V) {
	if m.entries == nil {
		m.entries = map[string]V{}
	}
	if _, known := m.entries[key]; !known {
		m.order = append(m.order, key)
	}
	m.entries[key] = v
	for len(m.entries) > pastSize && len(m.order) > 0 {
		delete(m.entries, m.order[0])
		m.order = m.order[1:]
	}
}
