package journal

import (
	"cmp"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// known is what the writer remembers of rows from one update to the next. Nobody else changes them, and each update of a
// session at work needs its row and its generation's: to read and decode them took a third of such an update's time.
// Whatever takes a change back forgets everything, and a statement that changes a row by another way forgets that row.
type known struct {
	sessions    map[string]*Session
	generations map[string]*Generation
	work        map[string]*work
	asked       map[string]*[]Request
	settled     map[string]*settled
	lastEvent   int64 // the node-wide number that was given last; 0: not known
	highest     int64 // the highest of them that is in the journal
	position    int64 // the highest of a command; 0: not known
	input       int64 // the highest row of an input; 0: not known
}

// work is what a session has to do or to clear up: its commands that have not ended, and those whose outcome is unknown and
// was not acknowledged, each in their order.
type work struct{ open, unknown []Command }

// knownLimit bounds the rows of one kind, well above the sessions that a host has live. What grows beyond begins anew.
const knownLimit = 512

func (k *known) forgetAll() { *k = known{} }

// remember keeps one row in one of the maps.
func remember[T any](rows *map[string]*T, id string, row T) *T {
	if *rows == nil || len(*rows) >= knownLimit {
		*rows = map[string]*T{}
	}
	(*rows)[id] = &row
	return &row
}

// knownSession is what the writer remembers of a session, as this update has left it, read when it is not remembered; nil
// when there is none. Whoever alters it forgets it when that comes to nothing.
func (tx *Tx) knownSession(id string) (*Session, error) {
	if err := tx.usable(); err != nil {
		return nil, err
	}
	if k := tx.j.known.sessions[id]; k != nil {
		return k, nil
	}
	s, found, err := tx.readSession(id)
	if err != nil || !found {
		return nil, err
	}
	return remember(&tx.j.known.sessions, id, s), nil
}

// knownGeneration is the same for a generation.
func (tx *Tx) knownGeneration(id string) (*Generation, error) {
	if err := tx.usable(); err != nil {
		return nil, err
	}
	if k := tx.j.known.generations[id]; k != nil {
		return k, nil
	}
	g, found, err := tx.generation("WHERE id = ?", id)
	if err != nil || !found {
		return nil, err
	}
	return remember(&tx.j.known.generations, id, g), nil
}

// knownWork is a session's commands that are not over. What it returns is not to be changed.
func (tx *Tx) knownWork(session string) (*work, error) {
	if err := tx.usable(); err != nil {
		return nil, err
	}
	if w := tx.j.known.work[session]; w != nil {
		return w, nil
	}
	var w work
	var err error
	if w.open, err = tx.commands(session, openCommands+" ORDER BY position"); err != nil {
		return nil, err
	}
	if w.unknown, err = tx.commands(session, unknownCommands, false); err != nil {
		return nil, err
	}
	remember(&tx.j.known.work, session, w)
	return &w, nil
}

// noteCommand takes a command that was written over into what is remembered of its session's work, when anything is.
func (tx *Tx) noteCommand(c Command) {
	tx.noteSettled(c)
	w := tx.j.known.work[c.Session]
	if w == nil {
		return
	}
	tx.j.known.work[c.Session] = &work{open: noted(w.open, c, c.SettledAt.IsZero()),
		unknown: noted(w.unknown, c, c.State == sessions.CommandUnknown && !c.Acked)}
}

// noted is a list with a command in its place, or without it.
func noted(list []Command, c Command, in bool) []Command {
	i, found := slices.BinarySearchFunc(list, c.Position, func(e Command, position int64) int { return cmp.Compare(e.Position, position) })
	switch {
	case !found && !in:
		return list
	case !found && i == len(list):
		return append(list, c) // whoever holds the list as it was does not see it
	case !found:
		return slices.Insert(slices.Clone(list), i, c)
	case !in:
		return slices.Delete(slices.Clone(list), i, i+1)
	}
	list = slices.Clone(list)
	list[i] = c
	return list
}

// forgetSession is called before a statement that changes a session by another way than what is remembered of it, and
// remembered anew after it where the row is at hand.
func (tx *Tx) forgetSession(id string) {
	if tx.writable { // a view has none of it, and runs on another goroutine
		delete(tx.j.known.sessions, id)
	}
}

func (tx *Tx) forgetWork(session string) {
	if tx.writable {
		delete(tx.j.known.work, session)
		delete(tx.j.known.settled, session)
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
