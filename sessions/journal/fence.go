package journal

// PutFence forbids for good what kind, scope and id name (a command id in the scope of a session, a session id with no
// scope), and tells whether it was not forbidden before.
func (tx *Tx) PutFence(principal, kind, scope, id string) (fresh bool, err error) {
	n, err := tx.exec("INSERT INTO fences VALUES (?,?,?,?,?) ON CONFLICT DO NOTHING", principal, kind, scope, id, tx.now)
	return n > 0, err
}

// HasFence tells whether it is forbidden.
func (tx *Tx) HasFence(principal, kind, scope, id string) (bool, error) {
	n, err := tx.number("SELECT count(*) FROM fences WHERE principal = ? AND kind = ? AND scope = ? AND id = ?", principal, kind, scope, id)
	return n > 0, err
}
