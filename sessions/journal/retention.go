package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonmcp/baton/sessions"
)

// purgeBatch bounds the rows that one commit of a purge removes, so that it holds up nobody for long.
const purgeBatch = 500

// DeleteSession forgets a closed or failed session: from this commit on no read gives anything of it. Its id stays
// taken. Its rows leave the file with the next Purge.
func (tx *Tx) DeleteSession(id string) error {
	_, err := tx.MoveSession(id, sessions.SessionDelete, func(s *Session) {
		s.Cwd, s.Title, s.NativeID, s.Generation, s.Asked, s.Settings = "", "", "", "", sessions.Selection{}, Settings{}
		s.Evidence, s.Capability, s.Containment = sessions.Evidence{}, sessions.Capabilities{}, sessions.Containment{}
		s.Error, s.Usage, s.Spent, s.WorkspaceID = nil, nil, nil, ""
	})
	if err != nil {
		return err
	}
	tx.forgetSession(id)
	_, err = tx.exec("UPDATE sessions SET first_seq = (SELECT last_seq FROM heads WHERE session = n) + 1, unread = 0 WHERE id = ?", id)
	return err
}

// KeepEvents cuts all but the last n events of a session; reads show what is missing as a gap. It returns how many were
// cut. The space comes back with the next Purge.
func (tx *Tx) KeepEvents(session string, n int64) (int64, error) {
	s, err := tx.GetSession("", session)
	if err != nil {
		return 0, err
	}
	first := max(s.FirstSeq, s.LastSeq-max(n, 0)+1)
	if first == s.FirstSeq {
		return 0, nil
	}
	tx.forgetSession(session)
	_, err = tx.exec("UPDATE sessions SET first_seq = ? WHERE n = ?", first, s.N)
	return first - s.FirstSeq, err
}

// KeepEventsOfAll is KeepEvents for every session, and tells how many sessions lost some.
func (tx *Tx) KeepEventsOfAll(n int64) (int64, error) {
	n = max(n, 0)
	tx.forgetRows()
	return tx.exec("UPDATE sessions SET first_seq = last_seq - ? + 1 FROM heads WHERE session = n AND last_seq - first_seq + 1 > ?", n, n)
}

// Purge removes from the file what DeleteSession and KeepEvents cut, in small commits between which others go on, and
// gives the space back to the disk. It returns how many rows went. An interrupted purge goes on with the next one.
func (j *Journal) Purge(ctx context.Context) (int64, error) {
	total := int64(0)
	for {
		n := int64(0)
		err := j.Update(ctx, func(tx *Tx) (err error) {
			n, err = tx.purge()
			return err
		})
		if err != nil {
			return total, err
		}
		if n == 0 {
			break
		}
		total += n
	}
	if total == 0 {
		return 0, nil
	}
	return total, j.shrink(ctx)
}

// purge removes one batch.
func (tx *Tx) purge() (int64, error) {
	var id string
	var session, first, last int64
	found, err := tx.one(func(r *row) { session, first, last = r.int(), r.int(), r.int() },
		"SELECT n, first_seq, (SELECT last_seq FROM heads WHERE session = n) FROM sessions "+cutSessions)
	if err != nil {
		return 0, err
	}
	if found {
		if err := tx.keepLastEvent(); err != nil {
			return 0, err
		}
		n, err := tx.exec(`DELETE FROM events WHERE id IN (SELECT id FROM events WHERE session = ? AND seq < ? ORDER BY seq LIMIT ?)`,
			session, first, purgeBatch)
		tx.j.known.lastEvent = 0 // the highest may be gone
		if err != nil || n == purgeBatch {
			return n, err
		}
		_, err = tx.exec("UPDATE sessions SET purged = ? WHERE n = ?", min(first-1, last), session)
		return max(n, 1), err
	}
	found, err = tx.one(func(r *row) { session, id = r.int(), r.text() }, "SELECT n, id FROM sessions WHERE state = 'deleted' AND wiped = 0 ORDER BY n LIMIT 1")
	if err != nil || !found {
		return 0, err
	}
	tx.forgetRows()
	for _, c := range []struct {
		sql     string
		session any
	}{
		{deleteInputs, id},
		{`DELETE FROM requests WHERE n IN (SELECT n FROM requests WHERE session = ? LIMIT ?)`, id},
		{`DELETE FROM commands WHERE position IN (SELECT position FROM commands WHERE session = ? AND settled = 0 LIMIT ?)`, session},
		{`DELETE FROM commands WHERE position IN (SELECT position FROM commands WHERE session = ? AND settled > 0 LIMIT ?)`, session},
		{`DELETE FROM progress WHERE generation IN (SELECT number FROM generations WHERE session = ? ORDER BY number LIMIT ?)`, id},
		{`DELETE FROM generations WHERE number IN (SELECT number FROM generations WHERE session = ? ORDER BY number LIMIT ?)`, id},
	} {
		n, err := tx.exec(c.sql, c.session, purgeBatch)
		if err != nil || n > 0 {
			return n, err
		}
	}
	_, err = tx.exec("UPDATE sessions SET wiped = 1 WHERE n = ?", session)
	return 1, err
}

// deleteInputs removes inputs of a session, the oldest first: the others are found from the newest one on.
var deleteInputs = "DELETE FROM inputs WHERE row IN (" +
	fmt.Sprintf(chain, "(SELECT generation, last_row FROM generations CROSS JOIN progress ON generation = number WHERE session = ?)", "") +
	"SELECT row FROM chain ORDER BY row LIMIT ?)"

// cutSessions is a session with events that were cut and are still in the file.
const cutSessions = "WHERE first_seq > purged + 1 ORDER BY n LIMIT 1"

// keepLastEvent notes the node-wide number that was given last before the newest events may go, so that it never comes again.
func (tx *Tx) keepLastEvent() error {
	n, err := tx.lastEvent()
	if err == nil {
		_, err = tx.exec(`INSERT INTO meta VALUES ('last_event', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
			WHERE CAST(value AS INTEGER) < CAST(excluded.value AS INTEGER)`, n)
	}
	return err
}

// shrink gives free pages back to the disk, a few at a time, and empties the log, which still holds what was deleted.
func (j *Journal) shrink(ctx context.Context) error {
	for free := int64(1); free > 0; {
		err := j.Update(ctx, func(tx *Tx) (err error) {
			if err = tx.query(func(*row) error { return nil }, "PRAGMA incremental_vacuum(200)"); err != nil {
				return err
			}
			free, err = tx.number("PRAGMA freelist_count")
			return err
		})
		if err != nil {
			return err
		}
	}
	// A reader that is at work for long must not hold up the writer. The next purge tries again.
	patience, cancel := context.WithTimeout(ctx, j.o.patience)
	defer cancel()
	if err := j.Trim(patience); err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	// What was deleted is still in the pages that the writer holds, between the rows, and would come back with them.
	return j.onWriter(ctx, func() error {
		if err := j.refusal(); err != nil {
			return err
		}
		return refuse(j.path, "release memory", j.writer.db.ReleaseMemory())
	})
}

// Size is the room that the journal takes on the disk.
func (j *Journal) Size() (int64, error) {
	total := int64(0)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		n, _, err := j.o.disk.size(j.path + suffix)
		if err != nil {
			return 0, refuse(j.path, "size", err)
		}
		total += n
	}
	return total, nil
}
