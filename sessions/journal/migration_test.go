package journal

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

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
	var told []string
	migrating := func(from, to string) { told = append(told, from+" to "+to) }
	j := checked(t, openAt(t, path, Options{Migrating: migrating}))
	if want := steps[2].name + " to " + steps[len(steps)-1].name; len(told) != 1 || told[0] != want {
		t.Errorf("told of %q, want %q once", told, want)
	}
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

// A journal of the fourth schema keeps everything, wherever the power goes while it is carried over.
func TestNumbersMigration(t *testing.T) {
	steps, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	d := newFakeDisk(t, 1)
	o := d.options()
	o.steps = steps[:4]
	j, err := Open(t.Context(), cutPath, o)
	if err != nil {
		t.Fatal(err)
	}
	const generation = `INSERT INTO generations VALUES ('%s', 'busy', %d, '/w', 'x', '["a"]', 'v', 'p', 'ad', 'pd', 'ed', 'r', '{"b":1}', 'so', 'sp', 'n', %d, %d, 5, %d, 've', 'pr');`
	const command = `INSERT INTO commands VALUES (%d, '%s', '%s', 'pp', '%s', '%s', 'o', 'r', 'tu', 'tx', '["i"]', '{"model":"m"}', 'queue', 9, '', 1, 1, '{"input_tokens":1}', 11, 12, %d);`
	const event = `INSERT INTO events VALUES (%d, '%s', %d, '%s', 'text', '%s', %d, '{"kind":"","text":"t%d"}');`
	update(t, j, func(tx *Tx) error {
		return tx.c.db.Exec(oldSession("quiet", "closed", 0) + oldSession("busy", "running", 0) + oldSession("gone", "deleted", 0) +
			"UPDATE sessions SET last_seq = 4, first_seq = 2, purged = 1, updated = 77, unread = 1 WHERE id = 'busy';" +
			"UPDATE sessions SET last_seq = 1, updated = 78, acked = 1 WHERE id = 'quiet';" +
			fmt.Sprintf(generation, "g1", 1, 3, 0, 6) + fmt.Sprintf(generation, "g2", 2, 8, 2, 0) +
			fmt.Sprintf(command, 5, "busy", "c1", "g2", "accepted", 0) + fmt.Sprintf(command, 9, "busy", "c2", "other", "queued", 0) +
			fmt.Sprintf(command, 7, "quiet", "c1", "", "completed", 13) +
			`INSERT INTO inputs VALUES ('g2', 1, 'prompt', 'c1', '{"a":1}', 'written', 'de', 21, 22), ('g2', 2, 'cancel', 'busy', '', 'pending', '', 23, 24);` +
			fmt.Sprintf(event, 3, "busy", 2, "g1", "c0", 31, 2) + fmt.Sprintf(event, 4, "quiet", 1, "", "", 32, 1) +
			fmt.Sprintf(event, 8, "busy", 3, "g2", "c1", 33, 3) + fmt.Sprintf(event, 9, "busy", 4, "other", "c1", 34, 4) +
			fmt.Sprintf(event, 40, "gone", 1, "", "", 1, 1) + "DELETE FROM events WHERE session = 'gone';" +
			`INSERT INTO operations VALUES ('local', 'k', 'send', 'busy', 'm', 'done', '{"r":1}', 2, 41, 42);`)
	})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	o.steps = nil
	for cut := 1; ; cut += 3 {
		c := d.crash(t)
		c.cut = cut
		o := c.options()
		if j, err := Open(t.Context(), cutPath, o); err == nil {
			if err := j.Close(); err != nil && !c.dead {
				t.Error(err)
			}
			if !c.dead {
				break
			}
		}
		j, err := Open(t.Context(), cutPath, c.reboot().options())
		if err != nil {
			t.Fatalf("after a cut at step %d: %v", cut, err)
		}
		sameAsFourth(t, j)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	o = d.options()
	j = checked(t, openAt(t, cutPath, o))
	sameAsFourth(t, j)
	// What is removed from the journal is not numbered anew.
	for range 3 {
		update(t, j, func(tx *Tx) error {
			_, err := tx.AppendEvents("busy", []sessions.Event{{Kind: sessions.EventWarning, Generation: "g2"}})
			return err
		})
		update(t, j, func(tx *Tx) error { _, err := tx.KeepEvents("busy", 0); return err })
		if _, err := j.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := j.Reopen(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	update(t, j, func(tx *Tx) error {
		if first, err := tx.AppendEvents("busy", []sessions.Event{{Kind: sessions.EventWarning}}); err != nil || first != 8 {
			t.Errorf("the next event of the session is %d, %v", first, err)
		}
		list, err := tx.ReadNode("", 10, 10, 0)
		if len(list) != 1 || list[0].ID != 44 {
			t.Errorf("the newest event of the node is %+v, want number 44", list)
		}
		return err
	})
}

// sameAsFourth finds what TestNumbersMigration put into the older journal.
func sameAsFourth(t *testing.T, j *Journal) {
	t.Helper()
	if problems, err := j.check(t.Context(), false); err != nil || len(problems) > 0 {
		t.Errorf("check: %v, %v", problems, err)
	}
	same := func(what string, got, want any) {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", what, got, want)
		}
	}
	at := func(n int64) time.Time { return time.Unix(0, n).UTC() }
	view(t, j, func(tx *Tx) error {
		for id, want := range map[string][4]int64{"busy": {2, 2, 4, 77}, "quiet": {1, 1, 1, 78}, "gone": {3, 1, 0, 1}} {
			s, _, err := tx.FindSession(id)
			same(id, [4]int64{s.N, s.FirstSeq, s.LastSeq, s.UpdatedAt.UnixNano()}, want)
			if err != nil {
				return err
			}
		}
		list, err := tx.ListGenerations("busy")
		want := Generation{ID: "g1", Session: "busy", N: 1, Cwd: "/w", Executable: "x", Argv: []string{"a"}, Version: "v", Profile: "p", AccountDigest: "ad",
			PolicyDigest: "pd", EnvDigest: "ed", Rung: "r", Record: json.RawMessage(`{"b":1}`), Socket: "so", Spill: "sp", NativeID: "n", LastFrame: 3,
			StartedAt: at(5), EndedAt: at(6), Verdict: "ve", Proof: "pr", number: 1}
		second := want
		second.ID, second.N, second.LastFrame, second.LastInput, second.EndedAt, second.number, second.lastRow = "g2", 2, 8, 2, time.Time{}, 2, 2
		same("generations", list, []Generation{want, second})
		if err != nil {
			return err
		}
		commands, err := tx.ListCommands("busy", 0, 10)
		c := Command{Command: sessions.Command{Session: "busy", CommandID: "c1", Generation: "g2", State: sessions.CommandAccepted, Outcome: "o", Reason: "r", Turn: "tu",
			CancelAsked: true, Acked: true, Usage: &sessions.Usage{Input: 1}, CreatedAt: at(11), SubmittedAt: at(12)}, Principal: "pp", Position: 5, Text: "tx",
			Images: []string{"i"}, Overrides: Overrides{Model: "m"}, WhenBusy: "queue", DeadlineSeconds: 9}
		queued := c
		queued.CommandID, queued.Generation, queued.State, queued.Position = "c2", "other", sessions.CommandQueued, 9
		same("commands", commands, []Command{c, queued})
		if err != nil {
			return err
		}
		last, _, err := tx.LastCommand("quiet")
		same("the last command", [3]any{last.Position, last.Generation, last.SettledAt}, [3]any{int64(7), "", at(13)})
		if err != nil {
			return err
		}
		inputs, err := tx.InputsAfter("g2", 0)
		same("inputs", inputs, []Input{{"g2", 1, InputPrompt, "c1", json.RawMessage(`{"a":1}`), InputWritten, "de", at(21), at(22)},
			{"g2", 2, InputCancel, "busy", nil, InputPending, "", at(23), at(24)}})
		if err != nil {
			return err
		}
		node, err := tx.ReadNode("", 0, 10, 0)
		text := func(id int64, session, generation, command string, seq, when int64) NodeEvent {
			return NodeEvent{id, sessions.Event{Session: session, Seq: seq, Generation: generation, Kind: sessions.EventText, Command: command, At: at(when), Text: fmt.Sprint("t", seq)}}
		}
		same("events", node, []NodeEvent{text(3, "busy", "g1", "c0", 2, 31), text(4, "quiet", "", "", 1, 32), text(8, "busy", "g2", "c1", 3, 33), text(9, "busy", "other", "c1", 4, 34)})
		if err != nil {
			return err
		}
		p, err := tx.ReadEvents("busy", 1, 10, nil, 0)
		same("the session's events", len(p.Events), 3)
		if err != nil {
			return err
		}
		operation, _, err := tx.FindOperation("local", "k")
		same("the operation", operation, Operation{"local", "k", "send", "busy", "m", "done", json.RawMessage(`{"r":1}`), 2, at(41), at(42)})
		return err
	})
}

// A journal of the fifth schema keeps the inputs of generations that came in turn, and its commands.
func TestTailsMigration(t *testing.T) {
	steps, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	path := olderJournal(t, steps[:5])
	const session = `INSERT INTO sessions (id, principal, runner, cwd, title, state, generation, native_id, had_turn, asked, settings, evidence,
		capability, lease, lease_term, workspace_id, node_id, origin, containment, error, usage, first_seq, created)
		VALUES ('%s', 'local', 'r', '/w', '', 'running', '', '', 0, '{}', '{}', '{}', '{}', '', 0, '', 'local', 'baton', '{}', '', '', 1, 1);
		INSERT INTO heads VALUES (last_insert_rowid(), 0, 1);`
	const command = `INSERT INTO commands VALUES (%d, %d, '%s', 'local', %d, '%s', '', '', '', 't', '', '{}', '', 0, '', 0, 0, '', 1, 1, %d);`
	sql := fmt.Sprintf(session, "a") + fmt.Sprintf(session, "b")
	for n, id := range []string{"a", "b"} {
		sql += fmt.Sprintf(`INSERT INTO generations VALUES (NULL, 'g%s', '%s', 1, '/w', '', '[]', '', '', '', '', '', '', '', '', '', '', 1, 0, '', '');`, id, id) +
			fmt.Sprintf(`INSERT INTO progress VALUES (%d, 0, %d);`, n+1, 3-n)
	}
	for i, generation := range []int{1, 2, 1, 2, 1} {
		sql += fmt.Sprintf(`INSERT INTO inputs VALUES (%d, %d, 'prompt', 'c%d', '"p%d"', 'pending', '', 1, 1);`, generation, i/2+1, i/2, i)
	}
	for i := range 3 {
		state, settled := "completed", 5-i
		if i == 2 {
			state, settled = "queued", 0
		}
		sql += fmt.Sprintf(command, 2*i+1, 1, fmt.Sprint("c", i), 1, state, settled) + fmt.Sprintf(command, 2*i+2, 2, fmt.Sprint("c", i), 2, state, settled)
	}
	spoilSQL(t, path, sql)
	j := checked(t, openAt(t, path, Options{}))
	look := func(tx *Tx) error {
		for generation, want := range map[string][]string{"ga": {`"p0"`, `"p2"`, `"p4"`}, "gb": {`"p1"`, `"p3"`}} {
			inputs, err := tx.InputsAfter(generation, 0)
			if err != nil {
				return err
			}
			var got []string
			for i, in := range inputs {
				if got = append(got, string(in.Payload)); in.N != int64(i+1) || in.Ref != fmt.Sprint("c", i) {
					t.Errorf("input %d of %s is %+v", i, generation, in)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("inputs of %s are %v, want %v", generation, got, want)
			}
			if later, err := tx.InputsAfter(generation, 1); err != nil || len(later) != len(want)-1 || later[0].N != 2 {
				t.Errorf("later inputs of %s are %+v, %v", generation, later, err)
			}
			if in, found, err := tx.FindInput(generation, 1); err != nil || !found || string(in.Payload) != want[0] {
				t.Errorf("the first input of %s is %+v, %v", generation, in, err)
			}
			if of, err := tx.InputsFor(generation, "c1"); err != nil || len(of) != 1 || of[0].N != 2 {
				t.Errorf("inputs of %s for c1 are %+v, %v", generation, of, err)
			}
		}
		for _, id := range []string{"a", "b"} {
			list, err := tx.ListCommands(id, 2, 10)
			if err != nil || len(list) != 2 || list[0].CommandID != "c1" || list[1].CommandID != "c2" {
				t.Errorf("commands of %s are %+v, %v", id, list, err)
			}
			open, err := tx.OpenCommands(id)
			if err != nil || len(open) != 1 || open[0].CommandID != "c2" {
				t.Errorf("open commands of %s are %+v, %v", id, open, err)
			}
			if last, found, err := tx.LastCommand(id); err != nil || !found || last.CommandID != "c0" {
				t.Errorf("the last command of %s is %+v, %v", id, last, err)
			}
		}
		return nil
	}
	view(t, j, look)
	update(t, j, look)
	update(t, j, func(tx *Tx) error {
		n, err := tx.AppendInput("gb", InputPrompt, "c2", "p5")
		if n != 3 {
			t.Errorf("the next input is %d", n)
		}
		if err == nil {
			err = tx.MarkInput("gb", 2, InputWritten, "d")
		}
		return err
	})
	view(t, j, func(tx *Tx) error {
		inputs, err := tx.InputsAfter("gb", 1)
		if len(inputs) != 2 || inputs[0].State != InputWritten || inputs[1].State != InputPending {
			t.Errorf("the inputs are %+v", inputs)
		}
		return err
	})
}
