package host

import "github.com/batonmcp/baton/sessions/bridge"

// handed is a prompt on its way from its commit to its tender. The journal has it too; a tender that missed it, or that finds
// that others come before it, looks there.
type handed struct {
	session, generation string
	n                   uint64
	prompt              bridge.PromptInput
}

// hand gives a prompt that is durable to the tender of its session.
func (h *Host) hand(in handed) {
	h.mu.Lock()
	t := h.tenders[in.session]
	if t != nil && t.generation == in.generation {
		t.handed = append(t.handed, in)
	} else if t != nil {
		t.look = true
	}
	h.mu.Unlock()
	t.wake()
}

// wake has a tender look for inputs to give; nil is none.
func (t *tender) wake() {
	if t == nil {
		return
	}
	select {
	case t.kicked <- struct{}{}:
	default:
	}
}

// takeHanded returns the prompts that are next for the bridge, when they are all that it lacks. Nothing is returned when
// the journal has to be looked at.
func (t *tender) takeHanded() []handed {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	list, look := t.handed, t.look
	t.handed, t.look = nil, false
	next := t.sentIn + 1
	for _, in := range list {
		if look || in.n != next {
			return nil
		}
		next++
	}
	return list
}
