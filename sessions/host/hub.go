package host

import (
	"sync"

	"github.com/batonmcp/baton/sessions"
)

// hub wakes whoever waits for sessions. A wake-up only says "look again"; the journal says what is so.
type hub struct {
	mu       sync.Mutex
	sessions map[string]map[*waiter]struct{}
	any      map[*waiter]struct{} // those that wait for any session
}

// waiter is one waiting call. ch holds at most one wake-up.
type waiter struct {
	ch     chan struct{}
	every  bool     // woken by every event, not only by what settles or asks
	ids    []string // nil: any session
	remove func()

	// Guarded by the hub's lock.
	command string // whose end is what it waits for; "": not one command's
	told    *told  // its end, once that is durable
}

// told is the end of a command and how it left its session, as the transaction had it at hand that holds both.
type told struct {
	session sessions.Session
	text    string // the command's final message
}

// waitFor tells what a waiter waits for.
func (h *hub) waitFor(w *waiter, command string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.command = command
}

// waitedFor tells whether somebody waits for the end of a command of a session.
func (h *hub) waitedFor(session, command string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.sessions[session] {
		if w.command != "" && (command == "" || w.command == command) {
			return true
		}
	}
	return false
}

// toldOf is what a waiter was told, nil when it has to look.
func (h *hub) toldOf(w *waiter) *told {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.told
}

func newHub() *hub {
	return &hub{sessions: map[string]map[*waiter]struct{}{}, any: map[*waiter]struct{}{}}
}

// add registers a waiter for the sessions, or for any session when ids is empty. Call remove when done.
func (h *hub) add(ids []string, every bool) *waiter {
	w := &waiter{ch: make(chan struct{}, 1), every: every, ids: ids}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(ids) == 0 {
		h.any[w] = struct{}{}
	}
	for _, id := range ids {
		if h.sessions[id] == nil {
			h.sessions[id] = map[*waiter]struct{}{}
		}
		h.sessions[id][w] = struct{}{}
	}
	w.remove = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.any, w)
		for _, id := range ids {
			delete(h.sessions[id], w)
			if len(h.sessions[id]) == 0 {
				delete(h.sessions, id)
			}
		}
	}
	return w
}

// notify wakes the waiters of a session; notable tells that it settled, asked, or changed its state. end is what those are
// told that wait for the command which settled last; nil: they look.
func (h *hub) notify(session string, notable bool, end *told) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.sessions[session] {
		if end != nil && w.command == end.session.Last.CommandID && w.told == nil {
			w.told = end
		}
		w.wake(notable)
	}
	for w := range h.any {
		w.wake(notable)
	}
}

// wakeAll has everybody look again.
func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, waiters := range h.sessions {
		for w := range waiters {
			w.wake(true)
		}
	}
	for w := range h.any {
		w.wake(true)
	}
}

func (w *waiter) wake(notable bool) {
	if !notable && !w.every {
		return
	}
	select {
	case w.ch <- struct{}{}:
	default:
	}
}
