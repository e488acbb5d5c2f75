package journal

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// olderJournal is a closed journal of the first steps, without a row.
func olderJournal(t *testing.T, steps []migration) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := Open(t.Context(), path, Options{steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// oldSession is the SQL of a session of local's with some events, in the columns of the first schema.
func oldSession(id, state string, events int) string {
	sql := fmt.Sprintf(`INSERT INTO sessions (id, principal, runner, cwd, title, state, generation, native_id, had_turn, asked, settings, evidence,
		capability, lease, lease_term, workspace_id, node_id, origin, containment, error, usage, first_seq, last_seq, created, updated)
		VALUES ('%s', 'local', 'r', '/w', '', '%s', '', '', 0, '{}', '{}', '{}', '{}', '', 0, '', 'local', 'baton', '{}', '', '', 1, %d, 1, 1);`, id, state, events)
	for n := range events {
		sql += fmt.Sprintf("INSERT INTO events (session, seq, generation, kind, command, at, body) VALUES ('%s', %d, '', 'warning', '', 1, '{}');", id, n+1)
	}
	return sql
}

// A journal of the third schema keeps its inputs, its open commands, its live sessions and its inbox.
func TestFewerPagesMigration(t *testing.T) {
	steps, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	path := olderJournal(t, steps[:3])
	const generation = `INSERT INTO generations VALUES ('g', 'live', 1, '/w', '', '[]', '', '', '', '', '', '', '', '', '', '', 0, 2, 1, 0, '', '');`
	const command = `INSERT INTO commands (session, id, principal, generation, state, outcome, reason, turn, text, images, overrides, when_busy, deadline,
		steer, cancel_asked, acked, usage, created, submitted, settled) VALUES ('live', '%s', 'local', 'g', '%s', '', '', '', 't', '', '{}', '', 0, '', 0, 0, '', 1, 1, %d);`
	spoilSQL(t, path, oldSession("live", "running", 2)+oldSession("read", "closed", 2)+oldSession("gone", "deleted", 0)+
		"UPDATE sessions SET acked = 2 WHERE id = 'read';"+generation+
		fmt.Sprintf(command, "c1", "completed", 5)+fmt.Sprintf(command, "c2", "accepted", 0)+fmt.Sprintf(command, "c3", "queued", 0)+
		`INSERT INTO inputs VALUES ('g', 1, 'prompt', 'c1', '{"command_id":"c1"}', 'written', 'd', 3, 4), ('g', 2, 'prompt', 'c2', '{}', 'pending', '', 5, 6);`)
	j := checked(t, openAt(t, path, Options{}))
	if got, _ := inboxOf(t, j, "local", 0, 10); !slices.Equal(got, []string{"live"}) {
		t.Errorf("not acknowledged: %v, want live", got)
	}
	view(t, j, func(tx *Tx) error {
		first, found, err := tx.FindInput("g", 1)
		if err != nil || !found || first.Kind != InputPrompt || first.Ref != "c1" || string(first.Payload) != `{"command_id":"c1"}` ||
			first.State != InputWritten || first.Detail != "d" || first.CreatedAt.UnixNano() != 3 || first.UpdatedAt.UnixNano() != 4 {
			t.Errorf("the first input is %+v, %v, %v", first, found, err)
		}
		later, err := tx.InputsAfter("g", 1)
		if err != nil || len(later) != 1 || later[0].Ref != "c2" {
			t.Errorf("later inputs are %+v, %v", later, err)
		}
		open, err := tx.OpenCommands("live")
		if err != nil || len(open) != 2 || open[0].CommandID != "c2" || open[1].CommandID != "c3" {
			t.Errorf("open commands are %+v, %v", open, err)
		}
		live, err := tx.LiveSessions()
		if err != nil || len(live) != 1 || live[0].ID != "live" {
			t.Errorf("live sessions are %+v, %v", live, err)
		}
		return err
	})
	// The next event of an acknowledged session brings it back.
	update(t, j, func(tx *Tx) error {
		_, err := tx.AppendEvents("read", []sessions.Event{{Kind: sessions.EventWarning}})
		return err
	})
	if got, _ := inboxOf(t, j, "local", 0, 10); !slices.Equal(got, []string{"read", "live"}) {
		t.Errorf("not acknowledged after an event: %v", got)
	}
}
