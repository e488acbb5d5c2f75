package host

import (
	"fmt"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// overtaken is called when a bridge has taken inputs that no host gave it by this journal: an older copy of the journal was put
// back while the session lived. What bears such a number would be a repetition to the bridge, and never be given. So the
// numbers go on behind those that it has, and what this host meant to give under one of them is told as not given, or is
// given under the next.
func (t *tender) overtaken(taken uint64) error {
	a := applier{h: t.h, session: t.session, generation: t.generation}
	return t.h.update(t.h.life, func(tx *journal.Tx, c *changes) error {
		a.reset()
		a.holds = true
		mine, err := tx.InputsAfter(t.generation, int64(t.sentIn))
		if err != nil {
			return err
		}
		g, err := tx.GetGeneration(t.generation)
		if err != nil || !g.EndedAt.IsZero() || len(mine) > 0 && mine[0].Kind == string(bridge.InVoid) {
			return err // an earlier run of this very update was recorded
		}
		for n := g.LastInput; n < int64(taken); {
			if n, err = tx.AppendInput(t.generation, string(bridge.InVoid), t.session, nil); err != nil {
				return err
			}
			if err := tx.MarkInput(t.generation, n, journal.InputReceived, "the bridge has another under this number"); err != nil {
				return err
			}
		}
		a.add(sessions.Event{Kind: sessions.EventGap, At: tx.Now(), Gap: &sessions.Gap{
			Reason: fmt.Sprintf("the journal is older than the session's bridge: of what that was given, up to number %d, it has %d", taken, t.sentIn)}})
		for _, in := range mine {
			if in.N > int64(taken) || in.State != journal.InputPending {
				continue
			}
			if err := t.renumber(tx, c, &a, in); err != nil {
				return err
			}
		}
		return a.flush(tx, c)
	})
}

// renumber takes back an input that was never given.
func (t *tender) renumber(tx *journal.Tx, c *changes, a *applier, in journal.Input) error {
	refused := bridge.InputResult{N: uint64(in.N), Kind: bridge.Kind(in.Kind), Ref: in.Ref, State: bridge.InputRefused,
		Error: sessions.Errorf(sessions.CodeInternal, "the journal is older than the session's bridge").Do("send it again as a new command")}
	switch refused.Kind {
	case bridge.InPrompt:
		return a.input(tx, c, refused)
	case bridge.InAnswer:
		q, found, err := tx.FindRequest(in.Ref)
		if err != nil || !found {
			return err
		}
		refused.Ref = q.Handle
		return a.input(tx, c, refused)
	}
	if err := tx.MarkInput(t.generation, in.N, journal.InputRefused, refused.Error.Message); err != nil {
		return err
	}
	_, err := tx.AppendInput(t.generation, in.Kind, in.Ref, in.Payload)
	return err
}
