package host

import (
	"slices"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// tell puts together, within the transaction that holds it, what those are told who wait for the end of a command: a look of
// their own takes seven queries, which they began to make only after the commit. What is not at hand is left to that look.
func (h *Host) tell(tx *journal.Tx, c *changes) {
	for id, notable := range c.sessions {
		if !notable || !h.hub.waitedFor(id, "") || !tx.AtHand(id) {
			continue
		}
		v, err := viewAtHand(tx, id)
		if err != nil || v.Last == nil || !h.hub.waitedFor(id, v.Last.CommandID) {
			continue
		}
		text, ok := wholeText(c.evs[id], v.Last.CommandID)
		if !ok {
			continue
		}
		if c.told == nil {
			c.told = map[string]*told{}
		}
		c.told[id] = &told{v, text}
	}
}

// viewAtHand is viewOf for a session that is at hand.
func viewAtHand(tx *journal.Tx, id string) (sessions.Session, error) {
	s, err := tx.GetSession("", id)
	if err != nil {
		return sessions.Session{}, err
	}
	return viewOf(tx, s)
}

// wholeText is the final message of a command by the newest of its events, where they say it: an agent gives it whole
// before it ends the turn. ok is false where only the journal can tell.
func wholeText(evs []sessions.Event, command string) (text string, ok bool) {
	for _, e := range slices.Backward(evs) {
		if e.Kind == sessions.EventText && e.Command == command && e.Agent == "" {
			return e.Text, e.Final && !e.Abandoned
		}
	}
	return "", false
}
