package journal

import "fmt"

// Mark names the present state of a principal's sessions: it is another after one was created, deleted or written, whatever
// else was. It stays what it is across hosts.
func (tx *Tx) Mark(principal string) (string, error) {
	var count, events, last, updated int64
	var err error
	for _, from := range []struct{ lastSeq, updated, heads string }{
		{"last_seq", "updated", " CROSS JOIN heads ON session = n"}, {lastSeqByEvents, updatedByEvents, ""},
	} {
		_, err = tx.one(func(r *row) { count, events, last, updated = r.int(), r.int(), r.int(), r.int() },
			"SELECT count(*), coalesce(sum("+from.lastSeq+"), 0), coalesce(max(n), 0), coalesce(max("+from.updated+"), 0) FROM sessions"+from.heads+
				" WHERE principal = ? AND state <> 'deleted'", principal)
		if err == nil || !tx.mend(err) {
			break
		}
	}
	return fmt.Sprintf("%d.%d.%d.%d", count, events, last, updated), err
}
