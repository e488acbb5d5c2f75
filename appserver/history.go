package appserver

// history keeps the last turns that ended, for what comes late.
type history struct {
	turns map[string]pastTurn
	order []string
}

type pastTurn struct {
	command   string
	cancelled bool
}

const historySize = 64

func (h *history) add(id string, t pastTurn) {
	if id == "" {
		return
	}
	if h.turns == nil {
		h.turns = map[string]pastTurn{}
	}
	if _, ok := h.turns[id]; !ok {
		h.order = append(h.order, id)
	}
	h.turns[id] = t
	if len(h.order) > historySize {
		delete(h.turns, h.order[0])
		h.order = h.order[1:]
	}
}

func (h *history) has(id string) bool { _, ok := h.turns[id]; return ok }
