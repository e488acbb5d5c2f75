package journal

import (
	"encoding/json"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Operation is one keyed mutation: what was asked under the key, and what came of it.
type Operation struct {
	Principal string          `json:"principal,omitempty"`
	Key       string          `json:"key,omitempty"`
	Verb      string          `json:"verb,omitempty"`
	Scope     string          `json:"scope,omitempty"`   // the session it is about
	Meaning   string          `json:"meaning,omitempty"` // digest of what was asked
	State     string          `json:"state,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	LeaseTerm int64           `json:"lease_term,omitempty"`
	CreatedAt time.Time       `json:"created_at,omitzero"`
	UpdatedAt time.Time       `json:"updated_at,omitzero"`
}

const operationColumns = "principal, key, verb, scope, meaning, state, result, lease_term, created, updated"

// FindOperation returns the operation of a key and whether there is one.
func (tx *Tx) FindOperation(principal, key string) (o Operation, found bool, err error) {
	found, err = tx.one(func(r *row) {
		o = Operation{Principal: r.text(), Key: r.text(), Verb: r.text(), Scope: r.text(), Meaning: r.text(), State: r.text(),
			Result: r.raw(), LeaseTerm: r.int(), CreatedAt: r.time(), UpdatedAt: r.time()}
	}, "SELECT "+operationColumns+" FROM operations WHERE principal = ? AND key = ?", principal, key)
	return o, found, err
}

// PutOperation adds an operation, or writes state, result and lease term of one that has the same meaning. Another
// verb or meaning under the key is CodeKeyConflict.
func (tx *Tx) PutOperation(o Operation) error {
	if o.CreatedAt.IsZero() {
		o.CreatedAt = tx.now
	}
	tx.Touch(o.Scope)
	fresh, err := tx.exec("INSERT INTO operations ("+operationColumns+") VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT (principal, key) DO NOTHING",
		o.Principal, o.Key, o.Verb, o.Scope, o.Meaning, o.State, o.Result, o.LeaseTerm, o.CreatedAt, tx.now)
	if err != nil || fresh > 0 {
		return err
	}
	was, _, err := tx.FindOperation(o.Principal, o.Key)
	if err != nil {
		return err
	}
	if was.Verb != o.Verb || was.Meaning != o.Meaning {
		return KeyConflict(was)
	}
	_, err = tx.exec("UPDATE operations SET scope = ?, state = ?, result = ?, lease_term = ?, updated = ? WHERE principal = ? AND key = ?",
		o.Scope, o.State, o.Result, o.LeaseTerm, tx.now, o.Principal, o.Key)
	return err
}

// KeyConflict is the refusal of a key that was used with another meaning.
func KeyConflict(was Operation) error {
	return sessions.Errorf(sessions.CodeKeyConflict, "key %q was used for another %s at %s", was.Key, was.Verb, was.CreatedAt.Format(time.RFC3339)).
		Do("take a new key, or repeat exactly what was asked under this one")
}
