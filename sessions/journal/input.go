package journal

import (
	"encoding/json"
	"fmt"
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
	row, err := tx.after(&tx.j.known.input, "SELECT max(row) FROM inputs")
	if err != nil {
		return 0, err
	}
	in := inputRow{row: row, generation: g.number, n: g.LastInput + 1, before: g.lastRow, kind: kind, ref: ref, payload: p, at: nanos(tx.now)}
	g.LastInput, g.lastRow = in.n, in.row
	tx.Touch(g.Session)
	if err = tx.addInput(in); err == nil {
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
	at, err := tx.inputRow(generation, n)
	if err != nil {
		return err
	}
	was, next := 0, slices.Index(inputOrder, state)
	if next >= firstEnd { // the usual report is the first end
		marked, err := tx.exec("UPDATE inputs SET state = ?, detail = ?, updated = ? WHERE row = ? AND state IN ('pending', 'received')",
			state, detail, tx.now, at)
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
	_, err = tx.exec("UPDATE inputs SET state = ?, detail = ?, updated = ? WHERE row = ?", state, detail, tx.now, at)
	return err
}

// FindInput returns an input and whether there is one.
func (tx *Tx) FindInput(generation string, n int64) (in Input, found bool, err error) {
	at, err := tx.inputRow(generation, n)
	if err != nil || at == 0 {
		return in, false, err
	}
	found, err = tx.one(func(r *row) { in = scanInput(generation, r) }, "SELECT "+inputColumns+" FROM inputs WHERE row = ?", at)
	return in, found, err
}

// InputsAfter returns the generation's inputs with higher numbers, in order.
func (tx *Tx) InputsAfter(generation string, n int64) ([]Input, error) {
	rows, err := tx.inputRows(generation, n)
	if err != nil {
		return nil, err
	}
	return tx.inputs(generation, rows, "")
}

// InputsFor returns the generation's inputs of a command or request, in order.
func (tx *Tx) InputsFor(generation, ref string) ([]Input, error) {
	rows, err := tx.inputRows(generation, 0)
	if err != nil {
		return nil, err
	}
	return tx.inputs(generation, rows, " AND ref = ?", ref)
}

// chain finds inputs from the newest of a generation on. SQLite numbers rows anew when the last ones were removed: one of
// another generation is none of these.
const chain = `WITH RECURSIVE chain (row, n, before, generation) AS (
	SELECT i.row, i.n, i.before, i.generation FROM %s p CROSS JOIN inputs i ON i.row = p.last_row AND i.generation = p.generation
	UNION ALL SELECT i.row, i.n, i.before, i.generation FROM chain c CROSS JOIN inputs i ON i.row = c.before AND i.generation = c.generation AND i.n < c.n %s)
	`

// inputRows are the rows of the generation's inputs with higher numbers, in order.
func (tx *Tx) inputRows(generation string, n int64) ([]int64, error) {
	g, err := tx.reference(generation)
	if err != nil {
		return nil, err
	}
	var rows []int64
	err = tx.query(func(r *row) error {
		rows = append(rows, r.int())
		return nil
	}, laterInputs, g, n, n)
	slices.Reverse(rows)
	return rows, err
}

var laterInputs = fmt.Sprintf(chain, "(SELECT generation, last_row FROM progress WHERE generation = ?)", "AND i.n > ?") + "SELECT row FROM chain WHERE n > ?"

// inputRow is the row of an input; 0 when there is none. Most that are asked for are the newest of their generation.
func (tx *Tx) inputRow(generation string, n int64) (int64, error) {
	if n < 1 {
		return 0, tx.usable()
	}
	if g := tx.known().generations[generation]; g != nil && g.LastInput == n {
		return g.lastRow, tx.usable()
	}
	rows, err := tx.inputRows(generation, n-1)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return rows[0], nil
}

// inputs are those of a generation in some rows that also meet a condition.
func (tx *Tx) inputs(generation string, rows []int64, and string, args ...any) ([]Input, error) {
	var list []Input
	for _, at := range rows {
		_, err := tx.one(func(r *row) { list = append(list, scanInput(generation, r)) },
			"SELECT "+inputColumns+" FROM inputs WHERE row = ?"+and, append([]any{at}, args...)...)
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
