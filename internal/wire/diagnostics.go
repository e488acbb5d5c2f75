package wire

import "sync"

const ringSize = 64 << 10

// Diagnostics is what came from the agent and was no message, since the link began.
type Diagnostics struct {
	Noise     int // lines that are no JSON object
	Malformed int // JSON objects that are no JSON-RPC message
	Unmatched int // responses to none of our open calls
	Unnamed   int // errors without an id: the agent could not read something of ours
	// Last holds the newest of those lines, at most 64 KiB together; the oldest may have lost its beginning.
	Last []byte
}

// Skipped is the number of all skipped lines.
func (d Diagnostics) Skipped() int { return d.Noise + d.Malformed + d.Unmatched + d.Unnamed }

type diagnostics struct {
	mu sync.Mutex
	d  Diagnostics
}

func (g *diagnostics) add(count func(*Diagnostics), line []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count(&g.d)
	if over := len(line) - (ringSize - 1); over > 0 {
		line = line[over:]
	}
	if over := len(g.d.Last) + len(line) + 1 - ringSize; over > 0 {
		g.d.Last = append(g.d.Last[:0], g.d.Last[over:]...)
	}
	g.d.Last = append(append(g.d.Last, line...), '\n')
}

func (g *diagnostics) snapshot() Diagnostics {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.d
	d.Last = append([]byte(nil), d.Last...)
	return d
}
