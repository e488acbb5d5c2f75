package host

import (
	"fmt"
	"slices"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// applier turns a batch of a bridge's frames into rows. One applier serves one transaction at a time; what it learned
// for its tender stays after the commit.
type applier struct {
	h          *Host
	session    string
	generation string

	// holds keeps the queue where it is, whatever settles: the generation ends, or a resume was not asked to run it.
	holds bool

	events  []sessions.Event
	stopped bool            // the bridge's last frame was in the batch
	failed  *sessions.Error // the open failed
}

func (a *applier) reset() { a.holds, a.events, a.stopped, a.failed = false, nil, false, nil }

// flush appends the collected events in their order.
func (a *applier) flush(tx *journal.Tx, c *changes) error {
	evs := a.events
	a.events = nil
	return c.events(tx, a.session, evs...)
}

func (a *applier) add(e sessions.Event) {
	e.Session, e.Generation = a.session, a.generation
	a.events = append(a.events, e)
}

func decode[T any](f bridge.Frame) (v T, err error) {
	if err = own.Unmarshal(f.Body, &v); err != nil {
		err = fmt.Errorf("frame %d (%s): %w", f.N, f.Kind, err)
	}
	return v, err
}

func (a *applier) apply(tx *journal.Tx, c *changes, f bridge.Frame) error {
	switch f.Kind {
	case bridge.OutEvent:
		if f.Event != nil {
			return a.event(tx, c, *f.Event)
		}
		e, err := decode[sessions.Event](f)
		if err != nil {
			return err
		}
		return a.event(tx, c, e)
	case bridge.OutInput:
		r, err := decode[bridge.InputResult](f)
		if err != nil {
			return err
		}
		return a.input(tx, c, r)
	case bridge.OutOpened:
		o, err := decode[sessions.Opened](f)
		if err != nil {
			return err
		}
		return a.opened(tx, c, o)
	case bridge.OutFailed:
		e, err := decode[bridge.Failure](f)
		if err != nil {
			return err
		}
		a.failed = e.Error
		return a.fail(tx, c, e.Error)
	case bridge.OutExited:
		x, err := decode[bridge.Exit](f)
		if err != nil {
			return err
		}
		return a.exited(tx, c, x)
	case bridge.OutStopped:
		s, err := decode[bridge.Stopped](f)
		if err != nil {
			return err
		}
		a.stopped = true
		// A socket of which nothing more is to be expected is forgotten: so the next host knows, too.
		if _, err := tx.UpdateGeneration(a.generation, func(g *journal.Generation) { g.Socket = "" }); err != nil {
			return err
		}
		return a.untaken(tx, c, s.Taken)
	}
	a.h.o.Log.Warn().Str("session", a.session).Str("kind", string(f.Kind)).Msg("a bridge sent a frame of an unknown kind")
	return nil
}

// event acts on what an event means, and keeps it.
func (a *applier) event(tx *journal.Tx, c *changes, e sessions.Event) error {
	if e.Spent != nil { // the next generation goes on from it
		if _, err := tx.UpdateSession(a.session, func(s *journal.Session) { s.Spent = e.Spent }); err != nil {
			return err
		}
	}
	switch e.Kind {
	case sessions.EventTurnStarted:
		if e.Command == "" && e.Agent == "" {
			if err := a.begun(tx); err != nil {
				return err
			}
		}
	case sessions.EventTurnCompleted:
		if e.Command == "" && e.Agent == "" {
			a.add(e)
			return a.ended(tx, c, e.Settled)
		}
	case sessions.EventCommandAccepted:
		cmd, found, err := tx.FindCommand(a.session, e.Command)
		if err != nil || !found || cmd.State != sessions.CommandSubmitted {
			return err // a steered or settled command: its acceptance is no news
		}
		if _, err := tx.MoveCommand(a.session, e.Command, sessions.CommandAccept, func(cmd *journal.Command) { cmd.Turn = e.Turn }); err != nil {
			return err
		}
		if err := a.ran(tx); err != nil {
			return err
		}
	case sessions.EventCommandSettled:
		if e.Settled == nil {
			break
		}
		s := *e.Settled
		if s.Command == "" {
			s.Command = e.Command
		}
		e.Command = s.Command
		return a.settle(tx, c, s, e)
	case sessions.EventApprovalRequested, sessions.EventQuestionRequested:
		return a.request(tx, c, e)
	case sessions.EventRequestResolved:
		return a.withdrawn(tx, c, e)
	case sessions.EventSelectionChanged, sessions.EventSelectionConfirm:
		if e.Selection != nil {
			if _, err := tx.UpdateSession(a.session, func(s *journal.Session) {
				s.Evidence = e.Selection.Evidence
				if e.Kind == sessions.EventSelectionConfirm {
					s.Asked = e.Selection.Asked
				}
			}); err != nil {
				return err
			}
		}
	case sessions.EventUsage:
		if e.Usage != nil && e.Agent == "" { // a sub-agent's count is its own
			if err := a.usage(tx, e); err != nil {
				return err
			}
		}
	}
	a.add(e)
	return nil
}

// ran notes that the conversation ran a turn: from now on it is one that a resume finds, or that is missing, and no new one
// takes its place.
func (a *applier) ran(tx *journal.Tx) error {
	s, err := tx.GetSession("", a.session)
	if err != nil || s.HadTurn {
		return err
	}
	_, err = tx.UpdateSession(a.session, func(s *journal.Session) { s.HadTurn = true })
	return err
}

// begun notes a turn that the agent began by itself: nothing can be sent until its end. A queue that was paused before
// stays so.
func (a *applier) begun(tx *journal.Tx) error {
	s, err := tx.GetSession("", a.session)
	if err != nil || s.State != sessions.SessionIdle {
		return err
	}
	if err := holdQueue(tx, a.session); err != nil {
		return err
	}
	_, err = tx.MoveSession(a.session, sessions.SessionBusy, func(s *journal.Session) { s.HadTurn = true })
	return err
}

// ended frees the session of a turn that the agent began by itself.
func (a *applier) ended(tx *journal.Tx, c *changes, how *sessions.Settlement) error {
	s, err := tx.GetSession("", a.session)
	if err != nil || s.State != sessions.SessionRunning {
		return err
	}
	return a.free(tx, c, !a.holds && how != nil && goesOn(how.State))
}

// input records what became of an input, and moves what it was for.
func (a *applier) input(tx *journal.Tx, c *changes, r bridge.InputResult) error {
	detail := ""
	if r.Error != nil {
		detail = r.Error.Error()
	}
	state := map[bridge.InputState]journal.InputState{bridge.InputWritten: journal.InputWritten,
		bridge.InputRefused: journal.InputRefused, bridge.InputBroken: journal.InputBroken}[r.State]
	if err := tx.MarkInput(a.generation, int64(r.N), state, detail); err != nil {
		return err
	}
	switch r.Kind {
	case bridge.InPrompt:
		return a.promptInput(tx, c, r)
	case bridge.InAnswer:
		return a.answerInput(tx, c, r)
	case bridge.InCancel:
		if r.State != bridge.InputWritten {
			a.add(sessions.Event{Kind: sessions.EventWarning, At: tx.Now(), Command: r.Ref, Code: sessions.CodeOf(r.Error),
				Text: "the cancel could not be given to the agent: " + detail})
		}
	}
	return nil
}

// holding are refusals of one prompt that the next would meet as well, or that say that somebody has to look: no command of
// the queue shall be spent on an agent that is gone or at work, or that no longer is what was confirmed.
var holding = []sessions.Code{sessions.CodeNotRunning, sessions.CodeAgentExited, sessions.CodeBusy, sessions.CodeSelectionUnconfirmed, sessions.CodeFenced}

func (a *applier) promptInput(tx *journal.Tx, c *changes, r bridge.InputResult) error {
	if r.State == bridge.InputWritten {
		return nil
	}
	cmd, found, err := tx.FindCommand(a.session, r.Ref)
	if err != nil || !found || (cmd.State != sessions.CommandSubmitted && cmd.State != sessions.CommandUnknown) {
		return err
	}
	if e := r.Error; e != nil && slices.Contains(holding, e.Code) {
		held := a.holds
		a.holds = true
		defer func() { a.holds = held }()
	}
	s := sessions.Settlement{Command: r.Ref, State: sessions.CommandUnknown, Outcome: "write_broken",
		Reason: "the prompt may have reached the agent in part"}
	if r.State == bridge.InputRefused {
		s = sessions.Settlement{Command: r.Ref, State: sessions.CommandFailed, By: journalNotDelivered, Outcome: outcomeNotDelivered,
			Reason: "nothing was sent"}
	}
	if r.Error != nil {
		if r.State == bridge.InputRefused && r.Error.Code != sessions.CodeInternal {
			s.Outcome = string(r.Error.Code)
		}
		s.Reason = r.Error.Message
		if r.State == bridge.InputRefused {
			s.Reason += "; nothing was sent"
		}
	}
	return a.settle(tx, c, s, sessions.Event{Kind: sessions.EventCommandSettled, At: tx.Now(), Command: r.Ref})
}
