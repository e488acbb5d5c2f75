package journal

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Generation is one life of a session's agent process.
type Generation struct {
	ID            string          `json:"id,omitempty"`
	Session       string          `json:"session,omitempty"`
	N             int64           `json:"n,omitempty"` // 1 for the session's first; given by InsertGeneration
	Cwd           string          `json:"cwd,omitempty"`
	Executable    string          `json:"executable,omitempty"`
	Argv          []string        `json:"argv,omitempty"`
	Version       string          `json:"version,omitempty"`
	Profile       string          `json:"profile,omitempty"`
	AccountDigest string          `json:"account_digest,omitempty"` // digests are the caller's; secrets in them are keyed
	PolicyDigest  string          `json:"policy_digest,omitempty"`
	EnvDigest     string          `json:"env_digest,omitempty"`
	Rung          string          `json:"rung,omitempty"`
	Record        json.RawMessage `json:"record,omitempty"` // the containment's durable identity of the process
	Socket        string          `json:"socket,omitempty"`
	Spill         string          `json:"spill,omitempty"`
	NativeID      string          `json:"native_id,omitempty"`
	LastFrame     int64           `json:"last_frame,omitempty"` // moved by SetFrame alone
	LastInput     int64           `json:"last_input,omitempty"` // moved by AppendInput alone
	StartedAt     time.Time       `json:"started_at,omitzero"`
	EndedAt       time.Time       `json:"ended_at,omitzero"` // zero: live
	Verdict       string          `json:"verdict,omitempty"` // confirmed, unconfirmed
	Proof         string          `json:"proof,omitempty"`

	number  int64 // by which other rows name it; given by InsertGeneration
	lastRow int64 // of inputs, that of LastInput
}

const generationRow = `id, session, n, cwd, executable, argv, version, profile, account_digest, policy_digest, env_digest, rung,
	record, socket, spill, native_id, %s, started, ended, verdict, proof, number`

var (
	generationColumns = fmt.Sprintf(generationRow, `(SELECT last_frame FROM progress WHERE generation = number),
	(SELECT last_input FROM progress WHERE generation = number), (SELECT last_row FROM progress WHERE generation = number)`)
	withoutProgress = fmt.Sprintf(generationRow, "0, 0, 0")
)

func scanGeneration(r *row) Generation {
	g := Generation{ID: r.text(), Session: r.text(), N: r.int(), Cwd: r.text(), Executable: r.text()}
	if json.Unmarshal(r.raw(), &g.Argv) != nil {
		g.Argv = nil // shown and never acted upon: damage of it must not keep a host from any of its sessions
	}
	g.Version, g.Profile, g.AccountDigest, g.PolicyDigest, g.EnvDigest, g.Rung = r.text(), r.text(), r.text(), r.text(), r.text(), r.text()
	g.Record, g.Socket, g.Spill, g.NativeID = r.raw(), r.text(), r.text(), r.text()
	g.LastFrame, g.LastInput, g.lastRow, g.StartedAt, g.EndedAt, g.Verdict, g.Proof = r.int(), r.int(), r.int(), r.time(), r.time(), r.text(), r.text()
	g.number = r.int()
	return g
}

// InsertGeneration adds the next generation of its session and fills N and StartedAt. While another one is live it is
// refused.
func (tx *Tx) InsertGeneration(g *Generation) error {
	if live, found, err := tx.LiveGeneration(g.Session); err != nil {
		return err
	} else if found {
		return sessions.Errorf(sessions.CodeBusy, "generation %s of session %s is live", live.ID, g.Session).Do("close the session first")
	}
	n, err := tx.number("SELECT max(n) FROM generations WHERE session = ?", g.Session)
	if err != nil {
		return err
	}
	g.N = n + 1
	if g.StartedAt.IsZero() {
		g.StartedAt = tx.now
	}
	j, err := encodeAll(g.Argv, g.Record)
	if err != nil {
		return err
	}
	tx.Touch(g.Session)
	_, err = tx.exec(`INSERT INTO generations (id, session, n, cwd, executable, argv, version, profile, account_digest, policy_digest, env_digest,
		rung, record, socket, spill, native_id, started, ended, verdict, proof) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		g.ID, g.Session, g.N, g.Cwd, g.Executable, j[0], g.Version, g.Profile, g.AccountDigest, g.PolicyDigest, g.EnvDigest, g.Rung,
		j[1], g.Socket, g.Spill, g.NativeID, g.StartedAt, g.EndedAt, g.Verdict, g.Proof)
	if err != nil {
		return err
	}
	g.number = tx.c.db.LastInsertRowID()
	return tx.putProgress(g)
}

// GetGeneration returns a generation; CodeNotFound when there is none.
func (tx *Tx) GetGeneration(id string) (Generation, error) {
	var g Generation
	var found bool
	var err error
	if !tx.writable {
		g, found, err = tx.generation("WHERE id = ?", id)
	} else if k, kerr := tx.knownGeneration(id); k != nil {
		g, found = *k, true
	} else {
		err = kerr
	}
	if err == nil && !found {
		err = notFound("generation", id)
	}
	return g, err
}

// LiveGeneration returns the session's live generation, if it has one.
func (tx *Tx) LiveGeneration(session string) (Generation, bool, error) {
	return tx.generation("WHERE session = ? AND ended = 0", session)
}

// LastGeneration returns the session's newest generation, live or not.
func (tx *Tx) LastGeneration(session string) (Generation, bool, error) {
	return tx.generation("WHERE session = ? ORDER BY n DESC LIMIT 1", session)
}

// LiveGenerations returns every generation that has not ended. Where damage is in the way it returns those that can be read,
// and tells in damage what is missing: one that cannot must not keep a host from the others.
func (tx *Tx) LiveGenerations() (live []Generation, damage []error, err error) {
	live, err = tx.generations("WHERE ended = 0 ORDER BY session")
	if err == nil || !tx.mend(err) {
		return live, nil, err
	}
	damage = append(damage, err)
	live = nil
	// An index holds the numbers of live ones alone; without it the numbers of all are gone through, which others hold too.
	var numbers []int64
	for _, sql := range []string{"SELECT number FROM generations WHERE ended = 0", "SELECT generation FROM progress"} {
		numbers = nil
		err = tx.query(func(r *row) error { numbers = append(numbers, r.int()); return nil }, sql)
		if err == nil || !tx.mend(err) {
			break
		}
		damage = append(damage, err)
	}
	if err != nil && !damaged(err) {
		return nil, damage, err
	}
	for _, number := range numbers {
		g, found, err := tx.generation("WHERE number = ? AND +ended = 0", number)
		switch {
		case err == nil && found:
			live = append(live, g)
		case err != nil && !tx.mend(err):
			return nil, damage, err
		case err != nil:
			damage = append(damage, fmt.Errorf("generation number %d: %w", number, err))
		}
	}
	return live, damage, nil
}

// UnprovenGenerations returns those that ended lately without a proof, the newest first, and no more than n.
func (tx *Tx) UnprovenGenerations(since time.Time, n int) ([]Generation, error) {
	return tx.generations("WHERE verdict = 'unconfirmed' AND ended > ? ORDER BY ended DESC LIMIT ?", since, n)
}

// ListGenerations returns the session's generations, oldest first.
func (tx *Tx) ListGenerations(session string) ([]Generation, error) {
	return tx.generations("WHERE session = ? ORDER BY n", session)
}

// UpdateGeneration lets change alter a generation; its identity, counters and end stay what they are.
func (tx *Tx) UpdateGeneration(id string, change func(*Generation)) (Generation, error) {
	return tx.changeGeneration(id, false, change)
}

// EndGeneration marks a generation as ended, with the containment's verdict and its proof. Ending it again changes
// nothing, except that an unconfirmed end may become a confirmed one.
func (tx *Tx) EndGeneration(id, verdict, proof string) (Generation, error) {
	return tx.changeGeneration(id, true, func(g *Generation) {
		if g.EndedAt.IsZero() {
			g.EndedAt = tx.now
		} else if g.Verdict == "confirmed" || verdict != "confirmed" {
			return
		}
		g.Verdict, g.Proof = verdict, proof
	})
}

func (tx *Tx) changeGeneration(id string, end bool, change func(*Generation)) (Generation, error) {
	g, err := tx.GetGeneration(id)
	if err != nil {
		return g, err
	}
	was := g
	change(&g)
	g.ID, g.Session, g.N, g.LastFrame, g.LastInput, g.StartedAt = was.ID, was.Session, was.N, was.LastFrame, was.LastInput, was.StartedAt
	g.number, g.lastRow = was.number, was.lastRow
	if !end {
		g.EndedAt, g.Verdict, g.Proof = was.EndedAt, was.Verdict, was.Proof
	}
	j, err := encodeAll(g.Argv, g.Record)
	if err != nil {
		return g, err
	}
	tx.Touch(g.Session)
	tx.forgetGeneration(id)
	_, err = tx.exec(`UPDATE generations SET cwd=?, executable=?, argv=?, version=?, profile=?, account_digest=?, policy_digest=?,
		env_digest=?, rung=?, record=?, socket=?, spill=?, native_id=?, ended=?, verdict=?, proof=? WHERE id = ?`,
		g.Cwd, g.Executable, j[0], g.Version, g.Profile, g.AccountDigest, g.PolicyDigest, g.EnvDigest, g.Rung, j[1], g.Socket, g.Spill,
		g.NativeID, g.EndedAt, g.Verdict, g.Proof, g.ID)
	if err == nil {
		remember(&tx.j.known.generations, id, g)
	}
	return g, err
}

// SetFrame records that the bridge's frames up to n are journalled, and tells whether n is new: a frame that is not was
// journalled before and must not be again.
func (tx *Tx) SetFrame(generation string, n int64) (fresh bool, err error) {
	if err := tx.mayWrite(); err != nil {
		return false, err
	}
	g, err := tx.knownGeneration(generation)
	switch {
	case err != nil:
		return false, err
	case g == nil:
		return false, notFound("generation", generation)
	case n <= g.LastFrame:
		return false, nil
	}
	g.LastFrame = n
	return true, tx.putProgress(g)
}

func (tx *Tx) generation(where string, args ...any) (g Generation, found bool, err error) {
	found, err = tx.one(func(r *row) { g = scanGeneration(r) }, "SELECT "+generationColumns+" FROM generations "+where, args...)
	return g, found, err
}

func (tx *Tx) generations(where string, args ...any) ([]Generation, error) {
	var list []Generation
	err := tx.query(func(r *row) error {
		list = append(list, scanGeneration(r))
		return nil
	}, "SELECT "+generationColumns+" FROM generations "+where, args...)
	return list, err
}
