package journal

import (
	"fmt"

	"github.com/batonmcp/baton/sessions"
)

// SessionView assembles a session as front ends show it; CodeNotFound for a deleted or missing one.
func (tx *Tx) SessionView(id string) (sessions.Session, error) {
	s, err := tx.GetSession("", id)
	if err != nil {
		return sessions.Session{}, err
	}
	return tx.ViewOf(s)
}

// ofRow is what the row of a session says by itself.
func ofRow(s Session) sessions.Session {
	return sessions.Session{
		SessionID: s.ID, Principal: s.Principal, Runner: s.Runner, Cwd: s.Cwd, Title: s.Title, State: s.State,
		Generation: s.Generation, NativeID: s.NativeID, Selections: sessions.Selections{Asked: s.Asked, Evidence: s.Evidence},
		Capability: s.Capability, Requests: []sessions.Request{}, Queued: []sessions.Command{}, Lease: s.Lease,
		WorkspaceID: s.WorkspaceID, NodeID: s.NodeID, Origin: s.Origin, Containment: s.Containment,
		Cursor: sessions.EncodeCursor(s.ID, s.LastSeq), Error: s.Error, Usage: s.Usage, Spent: s.Spent, Options: s.Settings.RunnerOptions,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
}

// Impaired is what can be shown of a session when damage, which is err, has taken a part of its record; ok is false where err
// is nothing of the kind.
func (tx *Tx) Impaired(s Session, err error) (v sessions.Session, ok bool) {
	if !tx.mend(err) {
		return v, false
	}
	v = ofRow(s)
	v.Recovery = "A part of its record is damaged: `baton journal check` shows which; what else there is can be read, and it can be closed."
	return v, true
}

// ViewOf is SessionView for a row that was read in this transaction.
func (tx *Tx) ViewOf(s Session) (sessions.Session, error) {
	v := ofRow(s)
	tx.names.session, tx.names.n = s.ID, s.N
	requests, err := tx.PendingRequests(s.ID)
	if err != nil {
		return sessions.Session{}, err
	}
	waiting := ""
	for _, q := range requests {
		v.Requests = append(v.Requests, q.Request)
		if q.State == sessions.RequestPending && s.State == sessions.SessionRunning && waiting == "" {
			v.NeedsInput, waiting = true, q.RequestID
		}
	}
	open, err := tx.OpenCommands(s.ID)
	if err != nil {
		return sessions.Session{}, err
	}
	for _, c := range open {
		switch {
		case c.State == sessions.CommandQueued:
			v.Queued = append(v.Queued, c.Command)
		case c.Steer == "":
			running := c.Command
			v.Running = &running
		}
	}
	last, err := tx.knownSettled(s.ID)
	if err != nil {
		return sessions.Session{}, err
	}
	if !last.none {
		v.Last = &last.Command
	}
	unknown, err := tx.UnknownCommands(s.ID, false)
	if err != nil {
		return sessions.Session{}, err
	}
	verdict := ""
	if s.State.Live() { // a session that goes on has no end to be proven
	} else if _, err := tx.one(func(r *row) { verdict = r.text() },
		"SELECT verdict FROM generations WHERE session = ? ORDER BY n DESC LIMIT 1", s.ID); err != nil {
		return sessions.Session{}, err
	}
	v.Recovery = recovery(&v, waiting, unknown, verdict == "unconfirmed", s.HadTurn)
	return v, nil
}

// recovery says in one sentence what the user can do next; nothing when the session just waits for work.
func recovery(v *sessions.Session, waiting string, unknown []Command, unproven, hadTurn bool) string {
	switch v.State {
	case sessions.SessionReserved:
		return "It has not been started: create it again with the same session_id, or cancel it."
	case sessions.SessionStarting:
		return "It is starting: wait for it, or close it."
	case sessions.SessionClosing:
		return "It is being stopped: wait for it."
	case sessions.SessionRunning:
		if waiting != "" {
			return fmt.Sprintf("It waits for you: answer request %s, or cancel the command.", waiting)
		}
		return "It is working: wait for it, or cancel the command."
	case sessions.SessionIdle:
		if len(unknown) > 0 {
			return fmt.Sprintf("Whether command %s ran is not known: look at its work, then resume with acknowledge_unknown to go on.", unknown[0].CommandID)
		}
		if len(v.Queued) > 0 {
			return "Its queue is paused: resume with run_queue to send what waits, or cancel it."
		}
		return ""
	case sessions.SessionClosed, sessions.SessionFailed:
		switch {
		case unproven:
			return "The end of its old processes is not proven: see that they are gone, then resume with accept_unconfirmed."
		case len(unknown) > 0:
			return fmt.Sprintf("Whether command %s ran is not known: resume the session to find out, or look at its work and resume with acknowledge_unknown.", unknown[0].CommandID)
		case v.State == sessions.SessionFailed && v.Error != nil && v.Error.Action != "":
			return "It failed: " + v.Error.Action + "; then resume it, or delete it."
		case len(v.Queued) > 0:
			return "Resume it to go on (with run_queue to send what was queued), or delete it."
		case hadTurn && !v.Capability.Resume:
			return "This runner cannot go on with it: create a new session, and delete this one when you no longer need its record."
		}
		return "Resume it to go on, or delete it."
	}
	return ""
}
