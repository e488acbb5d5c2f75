package journal

import "github.com/batonmcp/baton/sessions"

// known is what the writer remembers of rows from one update to the next. Nobody else changes them, and each update of a
// session at work needs its row and its generation's: to read and decode them took a third of such an update's time.
// Whatever takes a change back forgets everything, and a statement that changes a row by another way forgets that row.
type known struct {
	sessions    map[string]*Session
	generations map[string]*Generation
}

// knownLimit bounds the rows of one kind, well above the sessions that a host has live. What grows beyond begins anew.
const knownLimit = 512

func (k *known) forgetAll() { k.sessions, k.generations = nil, nil }

// remember keeps one row in one of the maps.
func remember[T any](rows *map[string]*T, id string, row T) {
	if *rows == nil || len(*rows) >= knownLimit {
		*rows = map[string]*T{}
	}
	(*rows)[id] = &row
}

// knownSession is a session as this update has left it, without a read when it is remembered.
func (tx *Tx) knownSession(id string) (s Session, found bool, err error) {
	if !tx.writable {
		return tx.readSession(id)
	}
	if err := tx.usable(); err != nil {
		return s, false, err
	}
	if k := tx.j.known.sessions[id]; k != nil {
		return *k, true, nil
	}
	if s, found, err = tx.readSession(id); found {
		remember(&tx.j.known.sessions, id, s)
	}
	return s, found, err
}

// knownGeneration is the same for a generation.
func (tx *Tx) knownGeneration(id string) (g Generation, found bool, err error) {
	if !tx.writable {
		return tx.generation("WHERE id = ?", id)
	}
	if err := tx.usable(); err != nil {
		return g, false, err
	}
	if k := tx.j.known.generations[id]; k != nil {
		return *k, true, nil
	}
	if g, found, err = tx.generation("WHERE id = ?", id); found {
		remember(&tx.j.known.generations, id, g)
	}
	return g, found, err
}

// forgetSession is called before a statement that changes a session by another way than what is remembered of it, and
// remembered anew after it where the row is at hand.
func (tx *Tx) forgetSession(id string) {
	if tx.writable { // a view has none of it, and runs on another goroutine
		delete(tx.j.known.sessions, id)
	}
}

func (tx *Tx) forgetGeneration(id string) {
	if tx.writable {
		delete(tx.j.known.generations, id)
	}
}

func (tx *Tx) forgetRows() {
	if tx.writable {
		tx.j.known.forgetAll()
	}
}

// usable refuses a transaction that is over, or that a fault of the storage has spoilt.
func (tx *Tx) usable() error {
	if tx.c == nil {
		return sessions.Errorf(sessions.CodeInternal, "a journal transaction was used after its end")
	}
	return tx.fault
}
