package journal

import (
	"cmp"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// settled is the command of a session that settled last, as callers see it, without the text that it sent; none when there
// is none.
type settled struct {
	sessions.Command
	position int64
	none     bool
}

// Recall reads what the view of a session is made of, where the writer does not remember it. From then on later updates have
// it AtHand.
func (tx *Tx) Recall(session string) error {
	_, _, err := tx.FindSession(session)
	if err == nil {
		_, err = tx.knownWork(session)
	}
	if err == nil {
		_, err = tx.knownAsked(session)
	}
	if err == nil {
		_, err = tx.knownSettled(session)
	}
	return err
}

// AtHand tells whether SessionView would read nothing, because the writer remembers all that it is made of: then the update
// that changes a session can show it as well, and needs no more of the file for it.
func (tx *Tx) AtHand(session string) bool {
	if !tx.writable || tx.usable() != nil {
		return false
	}
	k := &tx.j.known
	s := k.sessions[session]
	return s != nil && s.State.Live() && k.work[session] != nil && k.asked[session] != nil && k.settled[session] != nil
}

// knownSettled is the command that settled last, without a read when it is remembered.
func (tx *Tx) knownSettled(session string) (settled, error) {
	if err := tx.usable(); err != nil {
		return settled{}, err
	}
	if tx.writable { // a view has none of it, and runs on another goroutine
		if k := tx.j.known.settled[session]; k != nil {
			return *k, nil
		}
	}
	c, found, err := tx.LastCommand(session)
	if err != nil {
		return settled{}, err
	}
	k := settled{c.Command, c.Position, !found}
	if tx.writable {
		remember(&tx.j.known.settled, session, k)
	}
	return k, nil
}

// noteSettled takes a command that was written over into what is remembered, when anything is.
func (tx *Tx) noteSettled(c Command) {
	k := tx.j.known.settled[c.Session]
	if k == nil {
		return
	}
	order := cmp.Or(c.SettledAt.Compare(k.SettledAt), cmp.Compare(c.Position, k.position))
	switch {
	case k.none && c.SettledAt.IsZero():
	case k.none, order > 0:
		remember(&tx.j.known.settled, c.Session, settled{c.Command, c.Position, false})
	case c.Position == k.position && order == 0:
		k.Command = c.Command
	case c.Position == k.position:
		delete(tx.j.known.settled, c.Session)
	}
}

// knownAsked is what waits for an answer or for its delivery, oldest first. What it returns is not to be changed.
func (tx *Tx) knownAsked(session string) ([]Request, error) {
	if err := tx.usable(); err != nil {
		return nil, err
	}
	if k := tx.j.known.asked[session]; k != nil {
		return *k, nil
	}
	list, err := tx.requests(waitingRequests, session)
	if err == nil {
		remember(&tx.j.known.asked, session, list)
	}
	return list, err
}

// noteRequest takes a request that was written over into what is remembered, when anything is.
func (tx *Tx) noteRequest(q Request) {
	k := tx.j.known.asked[q.Session]
	if k == nil {
		return
	}
	list := slices.DeleteFunc(slices.Clone(*k), func(e Request) bool { return e.N == q.N })
	if q.State == sessions.RequestPending || q.State == sessions.RequestAnswering {
		i, _ := slices.BinarySearchFunc(list, q.N, func(e Request, n int64) int { return cmp.Compare(e.N, n) })
		list = slices.Insert(list, i, q)
	}
	tx.j.known.asked[q.Session] = &list
}
