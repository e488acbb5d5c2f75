package host

import (
	"encoding/json"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// openPayload is the part of an open input that is journalled; the launch itself is not.
type openPayload struct {
	RunQueue bool `json:"run_queue,omitempty"`
}

// opened makes a session idle, with its evidence, and sends what waited for it.
func (a *applier) opened(tx *journal.Tx, c *changes, o sessions.Opened) error {
	s, err := tx.GetSession("", a.session)
	if err != nil {
		return err
	}
	if err := tx.MarkInput(a.generation, 1, journal.InputWritten, ""); err != nil {
		return err
	}
	g, err := tx.UpdateGeneration(a.generation, func(g *journal.Generation) { g.NativeID, g.Version = o.NativeID, o.Evidence.AgentVersion })
	if err != nil {
		return err
	}
	keep := func(s *journal.Session) {
		s.NativeID, s.Evidence, s.Capability, s.Error = o.NativeID, o.Evidence, o.Capability, nil
		if o.Recreated {
			s.HadTurn = false
		}
		by := o.Evidence.SandboxBy
		if by == "" {
			by = "none"
		}
		s.Containment = sessions.Containment{Rung: g.Rung, Policy: o.Evidence.Sandbox, By: by}
	}
	if s.State != sessions.SessionStarting { // closed while it was starting
		_, err := tx.UpdateSession(a.session, keep)
		return err
	}
	if _, err := tx.MoveSession(a.session, sessions.SessionOpened, keep); err != nil {
		return err
	}
	a.add(sessions.Event{Kind: sessions.EventSessionStarted, At: tx.Now(), Data: map[string]any{"native_id": o.NativeID, "rung": g.Rung, "resumed": g.N > 1,
		"adopted": s.Origin == sessions.OriginAdopted}})
	a.add(sessions.Event{Kind: sessions.EventSelectionConfirm, At: tx.Now(), Selection: &sessions.Selections{Asked: s.Asked, Evidence: o.Evidence}})
	if o.Recreated {
		a.add(sessions.Event{Kind: sessions.EventWarning, At: tx.Now(), Code: sessions.CodeIncomplete,
			Text: "the agent kept nothing of a conversation that never ran a turn; this is a new one under the same session"})
	}
	c.touch(a.session, true)
	a.holds = true // whether the queue runs is decided below
	defer func() { a.holds = false }()
	for _, st := range o.Settled {
		if err := a.settle(tx, c, st, sessions.Event{Kind: sessions.EventCommandSettled, At: tx.Now(), Command: st.Command}); err != nil {
			return err
		}
	}
	run := g.N == 1
	if in, found, err := tx.FindInput(a.generation, 1); err != nil {
		return err
	} else if found && len(in.Payload) > 0 {
		var p openPayload
		if err := json.Unmarshal(in.Payload, &p); err != nil {
			return err
		}
		run = run || p.RunQueue
	}
	if _, busy, err := tx.RunningCommand(a.session); err != nil || busy || !run {
		return err
	}
	return a.dispatch(tx, c)
}

// fail ends a session with the reason, unless it is being closed or ended before.
func (a *applier) fail(tx *journal.Tx, c *changes, cause *sessions.Error) error {
	s, err := tx.GetSession("", a.session)
	if err != nil {
		return err
	}
	switch s.State {
	case sessions.SessionClosing, sessions.SessionClosed, sessions.SessionFailed, sessions.SessionDeleted:
		return nil
	}
	cause = cause.Whole()
	if _, err := tx.MoveSession(a.session, sessions.SessionFail, func(s *journal.Session) { s.Error = cause }); err != nil {
		return err
	}
	c.touch(a.session, true)
	data := map[string]any{"action": cause.Action}
	for _, where := range []string{"stderr", "stdout"} {
		if said, ok := cause.Details[where].(string); ok && said != "" { // what the agent said last, out of its protocol
			data[where] = said
		}
	}
	a.add(sessions.Event{Kind: sessions.EventSessionFailed, At: tx.Now(), Code: cause.Code, Text: cause.Message, Data: data})
	return nil
}

// exited settles what the agent's end leaves open, by what is known, and never by guess.
func (a *applier) exited(tx *journal.Tx, c *changes, x bridge.Exit) error {
	a.holds = true
	for _, id := range x.Running { // what the bridge never gave to the agent ends otherwise
		if err := a.settle(tx, c, sessions.Settlement{Command: id, State: sessions.CommandUnknown, Outcome: "agent_lost",
			Reason: "the agent ended before it reported the end of the turn: " + x.Reason},
			sessions.Event{Kind: sessions.EventCommandSettled, At: tx.Now(), Command: id}); err != nil {
			return err
		}
	}
	if err := a.lose(tx, c, beyond(x.Taken)); err != nil {
		return err
	}
	cause := sessions.Errorf(sessions.CodeAgentExited, "%s", x.Reason).Do("resume the session; nothing is sent again by itself").
		With("exit", x.Code).With("signal", x.Signal)
	if x.Stderr != "" {
		cause = cause.With("stderr", x.Stderr)
	}
	if x.Stdout != "" {
		cause = cause.With("stdout", x.Stdout)
	}
	return a.fail(tx, c, cause)
}

// untaken ends the commands whose prompts the bridge did not come to give to the agent before it ended.
func (a *applier) untaken(tx *journal.Tx, c *changes, taken uint64) error {
	if taken == 0 {
		return nil // a bridge of before it was told
	}
	a.holds = true
	return a.loseCommands(tx, c, "", beyond(taken), true)
}

// beyond tells of which inputs a bridge has proven that the agent never got them: those after the last one that it took.
// 0: it has not told.
func beyond(taken uint64) func(n uint64) bool {
	if taken == 0 {
		return nil
	}
	return func(n uint64) bool { return n > taken }
}

// loseCommands ends the session's submitted and accepted commands: not delivered where neverSent proves it, else
// unknown, unless only what is proven is to be settled.
func (a *applier) loseCommands(tx *journal.Tx, c *changes, reason string, neverSent func(n uint64) bool, provenOnly bool) error {
	open, err := tx.SubmittedCommands(a.session)
	if err != nil {
		return err
	}
	for _, cmd := range open {
		s := sessions.Settlement{Command: cmd.CommandID, State: sessions.CommandUnknown, Outcome: "agent_lost", Reason: reason}
		unsent, err := a.unsent(tx, cmd, neverSent)
		if err != nil {
			return err
		}
		if provenOnly && !unsent {
			continue
		}
		if unsent {
			s = sessions.Settlement{Command: cmd.CommandID, State: sessions.CommandFailed, By: journalNotDelivered, Outcome: outcomeNotDelivered,
				Reason: "it was never given to the agent; nothing was sent"}
		}
		if err := a.settle(tx, c, s, sessions.Event{Kind: sessions.EventCommandSettled, At: tx.Now(), Command: cmd.CommandID}); err != nil {
			return err
		}
	}
	return nil
}

// unsent tells whether it is proven that no byte of the command left the host.
func (a *applier) unsent(tx *journal.Tx, cmd journal.Command, neverSent func(n uint64) bool) (bool, error) {
	if cmd.State != sessions.CommandSubmitted {
		return false, nil
	}
	return a.ungiven(tx, cmd.CommandID, bridge.InPrompt, neverSent)
}

// ungiven tells whether it is proven that the input of the kind about ref was not given to the agent.
func (a *applier) ungiven(tx *journal.Tx, ref string, kind bridge.Kind, neverSent func(n uint64) bool) (bool, error) {
	if neverSent == nil {
		return false, nil
	}
	inputs, err := tx.InputsFor(a.generation, ref)
	if err != nil {
		return false, err
	}
	for _, in := range inputs {
		if in.Kind == string(kind) {
			return in.State == journal.InputPending && neverSent(uint64(in.N)), nil
		}
	}
	return false, nil
}

// firstInput opens the agent; before it there is none.
const firstInput = 1

// ending is the end of a generation whose bridge is gone.
type ending struct {
	h          *Host
	session    string
	generation string
	verdict    sandbox.Verdict
	cause      *sessions.Error // why, where the host knows
	farewell   bool            // the bridge handed everything over before it ended
	neverSent  func(n uint64) bool
}

// hadAgent tells whether there may have been an agent, whose words can be missing.
func (e *ending) hadAgent(tx *journal.Tx) (bool, error) {
	if e.verdict.Proof == sandbox.ProofNeverStarted {
		return false, nil
	}
	in, found, err := tx.FindInput(e.generation, firstInput)
	return !found || in.State != journal.InputPending || e.neverSent == nil || !e.neverSent(firstInput), err
}

func (e *ending) apply(tx *journal.Tx, c *changes) error {
	a := applier{h: e.h, session: e.session, generation: e.generation, holds: true}
	g, err := tx.GetGeneration(e.generation)
	if err != nil {
		return err
	}
	if !g.EndedAt.IsZero() {
		return nil
	}
	if err := a.loseCommands(tx, c, "the session's bridge ended before the end of the turn was known", e.neverSent, false); err != nil {
		return err
	}
	if err := a.lose(tx, c, e.neverSent); err != nil {
		return err
	}
	agent, err := e.hadAgent(tx)
	if err != nil {
		return err
	}
	if !e.farewell && agent {
		a.add(sessions.Event{Kind: sessions.EventGap, At: tx.Now(), Gap: &sessions.Gap{Reason: "the session's bridge ended without handing everything over; what the agent said last may be missing here"}})
	}
	if _, err := tx.EndGeneration(e.generation, string(e.verdict.State), proofOf(e.verdict)); err != nil {
		return err
	}
	s, err := tx.GetSession("", e.session)
	if err != nil {
		return err
	}
	c.touch(e.session, true)
	if s.State == sessions.SessionClosing {
		if _, err := tx.MoveSession(e.session, sessions.SessionStop); err != nil {
			return err
		}
		a.add(sessions.Event{Kind: sessions.EventSessionClosed, At: tx.Now(), Data: map[string]any{"stopped": string(e.verdict.State), "proof": string(e.verdict.Proof)}})
		return a.flush(tx, c)
	}
	cause := e.cause
	if cause == nil {
		cause = sessions.Errorf(sessions.CodeAgentExited, "the session's bridge ended without a word, and the agent with it").
			Do("resume the session; nothing is sent again by itself")
	}
	if err := a.fail(tx, c, cause); err != nil {
		return err
	}
	return a.flush(tx, c)
}

// proofOf is what a verdict rests on, in words: what proves it, or why nothing does.
func proofOf(v sandbox.Verdict) string {
	if v.Detail == "" {
		return string(v.Proof)
	}
	return string(v.Proof) + ": " + v.Detail
}
