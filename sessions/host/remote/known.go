package remote

import "sync"

// Bounds of what is remembered: a page of sessions fits, a page of events does not.
const (
	maxKnown      = 64
	maxKnownBytes = 64 << 10
)

// known are answers to calls that change nothing, by the body of the call. They hold until the next change of what they
// were read from: assistants ask the same again and again while nothing happens.
type known struct {
	changes *Changes // nil: nothing is remembered

	mu      sync.Mutex
	at      uint64
	answers map[string][]byte
}

// find returns the answer to a call, and where the changes stood when it was looked for.
func (k *known) find(call []byte) (answer []byte, at uint64) {
	if k.changes == nil {
		return nil, 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if at = k.changes.n.Load(); at != k.at {
		k.at, k.answers = at, nil
	}
	return k.answers[string(call)], at
}

// keep remembers an answer that was read after find had returned, unless something has changed since then.
func (k *known) keep(call, answer []byte, at uint64) {
	if k.changes == nil || len(call)+len(answer) > maxKnownBytes {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if at != k.at || !k.lasts(at) {
		return
	}
	if k.answers == nil || len(k.answers) >= maxKnown {
		k.answers = map[string][]byte{}
	}
	k.answers[string(call)] = answer
}

// lasts tells whether what was read after find is still so: nothing changed meanwhile, and nothing was about to.
func (k *known) lasts(at uint64) bool {
	return k.changes != nil && at%2 == 0 && at == k.changes.n.Load()
}
