package journal

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Kinds of inputs.
const (
	InputPrompt = "prompt" // ref: a command
	InputAnswer = "answer" // ref: a request
	InputCancel = "cancel" // ref: a command, or the session when its agent's own turn is meant
)

// InputState is how far an input got on its way to the agent.
type InputState string

const (
	InputPending  InputState = "pending"  // durable; whether the bridge has it is not known
	InputReceived InputState = "received" // the bridge has it
	InputWritten  InputState = "written"  // written to the agent whole
	InputRefused  InputState = "refused"  // no byte left
	InputBroken   InputState = "broken"   // bytes may have left
)

// Input is one thing given to a bridge, numbered from 1 in its generation.
type Input struct {
	Generation string          `json:"generation,omitempty"`
	N          int64           `json:"n,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Ref        string          `json:"ref,omitempty"` // command or request id
	Payload    json.RawMessage `json:"payload,omitempty"`
	State      InputState      `json:"state,omitempty"`
	Detail     string          `json:"detail,omitempty"`
	CreatedAt  time.Time       `json:"created_at,omitzero"`
	UpdatedAt  time.Time       `json:"updated_at,omitzero"`
}

const inputColumns = "n, kind, ref, payload, state, detail, created, updated"

func scanInput(generation string, r *row) Input {
	return Input{Generation: generation, N: r.int(), Kind: r.text(), Ref: r.text(), Payload: r.raw(), State: InputState(r.text()),
		Detail: r.text(), CreatedAt: r.time(), UpdatedAt: r.time()}
}

// AppendInput adds the generation's next input and returns its number.
func (tx *Tx) AppendInput(generation, kind, ref string, payload any) (int64, error) {
	p, err := encode(payload)
	if err != nil {
		return 0, err
	}
	if err := tx.mayWrite(); err != nil {
		return 0, err
	}
	g, err := tx.knownGeneration(generation)
	if err != nil {
		return 0, err
	}
	if g == nil {
		return 0, notFound("generation", generation)
	}
	if !g.EndedAt.IsZero() {
		return 0, sessions.Errorf(sessions.CodeStaleGeneration, "generation %s ended", generation).Do("resume the session")
	}
	g.LastInput++
	tx.Touch(g.Session)
	err = tx.addInput(inputRow{generation: g.number, n: g.LastInput, kind: kind, ref: ref, payload: p, at: nanos(tx.now)})
	if err == nil {
		err = tx.putProgress(g)
	}
	if err != nil {
		tx.forgetGeneration(generation)
		return 0, err
	}
	return g.LastInput, nil
}

// inputOrder lists the states in the order that an input goes through; the last three are ends.
var inputOrder = []InputState{InputPending, InputReceived, InputWritten, InputRefused, InputBroken}

// firstEnd is where the ends begin in inputOrder.
const firstEnd = 2

// MarkInput records how far an input got. A report that says less than what is known is ignored; one end after another
// is a *sessions.ImpossibleError.
func (tx *Tx) MarkInput(generation string, n int64, state InputState, detail string) error {
	g, err := tx.reference(generation)
	if err != nil {
		return err
	}
	was, next := 0, slices.Index(inputOrder, state)
	if next >= firstEnd { // the usual report is the first end
		marked, err := tx.exec("UPDATE inputs SET state = ?, detail = ?, updated = ? WHERE generation = ? AND n = ? AND state IN ('pending', 'received')",
			state, detail, tx.now, g, n)
		if err != nil || marked > 0 {
			return err
		}
	}
	in, found, err := tx.FindInput(generation, n)
	if err != nil {
		return err
	}
	if !found {
		return sessions.Errorf(sessions.CodeNotFound, "generation %s has no input %d", generation, n).Do("look at the journal with `baton journal check`")
	}
	was = slices.Index(inputOrder, in.State)
	switch {
	case next < 0 || (was >= firstEnd && next >= firstEnd && was != next):
		g, err := tx.GetGeneration(generation)
		if err != nil {
			return err
		}
		return tx.impossible(g.Session, &sessions.ImpossibleError{Machine: "input", State: string(in.State), Event: string(state)})
	case next <= was:
		return nil
	}
	_, err = tx.exec("UPDATE inputs SET state = ?, detail = ?, updated = ? WHERE generation = ? AND n = ?", state, detail, tx.now, g, n)
	return err
}

// FindInput returns an input and whether there is one.
func (tx *Tx) FindInput(generation string, n int64) (Input, bool, error) {
	list, err := tx.inputs(generation, "AND n = ?", n)
	if err != nil || len(list) == 0 {
		return Input{}, false, err
	}
	return list[0], true, nil
}

// InputsAfter returns the generation's inputs with higher numbers, in order.
func (tx *Tx) InputsAfter(generation string, n int64) ([]Input, error) {
	return tx.inputs(generation, "AND n > ? ORDER BY n", n)
}

// InputsFor returns the generation's inputs of a command or request, in order.
func (tx *Tx) InputsFor(generation, ref string) ([]Input, error) {
	return tx.inputs(generation, "AND ref = ? ORDER BY n", ref)
}

// inputs are those of a generation that also meet a condition.
func (tx *Tx) inputs(generation, and string, args ...any) ([]Input, error) {
	g, err := tx.reference(generation)
	if err != nil {
		return nil, err
	}
	var list []Input
	err = tx.query(func(r *row) error {
		list = append(list, scanInput(generation, r))
		return nil
	}, "SELECT "+inputColumns+" FROM inputs WHERE generation = ? "+and, append([]any{g}, args...)...)
	return list, err
}
