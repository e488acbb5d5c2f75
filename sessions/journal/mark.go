package journal

import "fmt"

// Mark names the present state of a principal's sessions: it is another after one was created, deleted or written, whatever
// else was. It stays what it is across hosts.
func (tx *Tx) Mark(principal string) (string, error) {
	var count, events, last, updated int64
	err := tx.query(func(r *row) error {
		count, events, last, updated = r.int(), r.int(), r.int(), r.int()
		return nil
	}, "SELECT count(*), coalesce(sum(last_seq), 0), coalesce(max(n), 0), coalesce(max(updated), 0) FROM sessions CROSS JOIN heads ON session = n WHERE principal = ? AND state <> 'deleted'", principal)
	return fmt.Sprintf("%d.%d.%d.%d", count, events, last, updated), err
}
