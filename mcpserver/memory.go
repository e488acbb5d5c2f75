package mcpserver

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/batonmcp/baton/sessions"
)

// Bounds of what is remembered for a connection.
const (
	maxRemembered      = 64
	maxRememberedBytes = 4 << 20
)

// memory are results that the client of a connection was given and that the API says are still true, as they were written:
// assistants ask the same again and again while nothing happens. It is safe for concurrent use.
type memory struct {
	mu      sync.Mutex
	results map[string]remembered
	size    int
}

type remembered struct {
	result []byte
	still  func() bool
}

// question names a call whose result may be remembered: "" where that is none. What the client says of the call itself,
// its progress token and its id, changes nothing; rounds and versions do.
func question(m message) string {
	if m.method != "tools/call" {
		return ""
	}
	var p map[string]json.RawMessage
	if json.Unmarshal(m.params, &p) != nil {
		return ""
	}
	for name := range p {
		if name != "name" && name != "arguments" && name != "_meta" {
			return ""
		}
	}
	tool := string(p["name"])
	if tool != `"session_list"` && tool != `"session_wait"` {
		return ""
	}
	if meta := p["_meta"]; len(meta) > 0 {
		var names map[string]json.RawMessage
		if json.Unmarshal(meta, &names) != nil {
			return ""
		}
		for name := range names {
			if strings.HasPrefix(name, "io.modelcontextprotocol/") {
				return ""
			}
		}
	}
	return tool + string(p["arguments"])
}

// find returns the result of a question that is still true, nil when there is none.
func (m *memory) find(question string) []byte {
	m.mu.Lock()
	r, ok := m.results[question]
	m.mu.Unlock()
	if !ok {
		return nil
	}
	if r.still() {
		return r.result
	}
	m.forget(question)
	return nil
}

func (m *memory) forget(question string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(question)
}

func (m *memory) drop(question string) {
	if r, ok := m.results[question]; ok {
		m.size -= len(question) + len(r.result)
		delete(m.results, question)
	}
}

// keep remembers a result. Where there is no room for it all others are forgotten.
func (m *memory) keep(question string, result []byte, still func() bool) {
	size := len(question) + len(result)
	if size > maxRememberedBytes {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(question)
	if m.results == nil || len(m.results) >= maxRemembered || m.size+size > maxRememberedBytes {
		m.results, m.size = map[string]remembered{}, 0
	}
	m.results[question] = remembered{result, still}
	m.size += size
}

// again answers a request as before where that is still true, and else by handle.
func (c *stdio) again(k *call, m message) answer {
	q := question(m)
	if q == "" {
		return c.handle(k.ctx, m)
	}
	if result := c.memory.find(q); result != nil {
		return answer{line: written(m.id, "result", result)}
	}
	ctx, lasting := sessions.WithLasting(k.ctx)
	a := c.handle(ctx, m)
	if still := lasting.Still(); still != nil && a.result != nil {
		c.memory.keep(q, a.result, still)
	}
	return a
}

// onlyNow has a result of this call not remembered: it says what was asked of the user, or would ask again.
func onlyNow(l *sessions.Lasting) {
	if l != nil {
		l.Set(nil)
	}
}
