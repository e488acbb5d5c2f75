package journal

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

// A clock that was set back between two hosts is no contradiction of a journal.
func TestCheckAfterAClockWasSetBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	clock := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return clock }
	j, err := Open(t.Context(), path, Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, j)
	g := Generation{ID: sessions.NewID(), Session: s.ID}
	update(t, j, func(tx *Tx) error { return tx.InsertGeneration(&g) })
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(-time.Hour)
	j = openAt(t, path, Options{Now: now})
	update(t, j, func(tx *Tx) error {
		_, err := tx.EndGeneration(g.ID, "confirmed", "boot")
		return err
	})
	if found, err := j.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// JO-02, second variant: the rows contradict each other although every page is whole.
func TestCheckFindsContradictions(t *testing.T) {
	path, id := closedJournal(t, 100)
	whole := load(t, path)
	for name, c := range map[string]struct{ sql, want string }{
		"event missing":               {"DELETE FROM events WHERE seq = 50", "counts its events wrong"},
		"event too many":              {"UPDATE heads SET last_seq = 99", "counts its events wrong"},
		"event of nobody":             {"UPDATE events SET session = 'x' WHERE seq = 7", "belongs to no session"},
		"event kind":                  {"UPDATE events SET kind = 'x' WHERE seq = 7", "unknown kind x"},
		"event body":                  {"UPDATE events SET body = '{' WHERE seq = 7", "event 7: cannot be read as what it is"},
		"event of JSON":               {"UPDATE events SET body = '{\"text\":1}' WHERE seq = 7", "event 7: cannot be read as what it is"},
		"event of the past":           {"UPDATE events SET generation = 99 WHERE seq = 7", "generation that does not exist: 99"},
		"head missing":                {"DELETE FROM heads", "counts its events wrong"},
		"head of nobody":              {"INSERT INTO heads VALUES (99, 0, 0)", "belongs to no session"},
		"session state":               {"UPDATE sessions SET state = 'x'", "unknown state x"},
		"session generation":          {"UPDATE sessions SET generation = 'x'", "does not exist"},
		"session JSON":                {"UPDATE sessions SET asked = '{'", "cannot be read as what it is"},
		"session spent":               {"UPDATE sessions SET spent = '[]'", "cannot be read as what it is"},
		"session acked":               {"UPDATE sessions SET acked = 101, unread = 0", "acknowledged more events than it has: last_seq 100, acked 101"},
		"session unread":              {"UPDATE sessions SET unread = 0", "not marked for what was not acknowledged"},
		"session purged":              {"UPDATE sessions SET purged = 1", "keeps events that it says are gone"},
		"event zero":                  {"UPDATE events SET seq = 0 WHERE seq = 1; UPDATE sessions SET first_seq = 2", "keeps events that it says are gone"},
		"session alone":               {"UPDATE sessions SET state = 'idle'", "lives without a live generation: idle"},
		"session of the past":         {insertGeneration("g1", 1, 9) + insertGeneration("g2", 2, 0) + "UPDATE sessions SET generation = 'g1'", "not its newest: g1"},
		"session that is left":        {"UPDATE sessions SET state = 'deleted', wiped = 1, unread = 0", "is deleted, and has rows left"},
		"event of another":            {otherSession + "UPDATE events SET generation = 1 WHERE seq = 7", "event 7: is of another session's generation"},
		"verdict":                     {insertGeneration("g1", 1, 9), "verdict that does not go with its end"},
		"verdict too early":           {insertGeneration("g1", 1, 0) + "UPDATE generations SET verdict = 'confirmed'", "verdict that does not go with its end"},
		"generation missing":          {insertGeneration("g2", 2, 0), "not counted right in its session: 1 of 2"},
		"generation revived":          {insertGeneration("g1", 1, 0) + insertGeneration("g2", 2, 9), "g1: is live before a later one"},
		"runs in an idle session":     {insertGeneration("g1", 1, 0) + insertCommand("a", "submitted", 0) + "UPDATE sessions SET state = 'idle'", "its session is idle"},
		"command of another":          {insertCommand("a", "queued", 0) + "UPDATE commands SET principal = 'x'", "another principal than its session x"},
		"command of another's life":   {otherSession + insertCommand("a", "queued", 0) + "UPDATE commands SET generation = 1", "a: is of another session's generation"},
		"command never submitted":     {insertCommand("a", "completed", 5) + "UPDATE commands SET submitted = 0", "time of submission"},
		"command steers nothing":      {insertCommand("a", "queued", 0) + "UPDATE commands SET steer = 'x'", "steers one that does not exist: x"},
		"command without an intent":   {insertGeneration("g1", 1, 0) + insertCommand("a", "submitted", 0), "submitted without an intent"},
		"command sent twice":          {insertGeneration("g1", 1, 0) + insertCommand("a", "submitted", 0) + insertInput("g1", "prompt", "a", "pending") + "UPDATE inputs SET row = 8, n = 2; " + insertInput("g1", "prompt", "a", "pending"), "a: was given to an agent more than once: 2 prompts"},
		"command sent in two lives":   {insertGeneration("g1", 1, 9) + insertGeneration("g2", 2, 0) + insertCommand("a", "submitted", 0) + insertInput("g1", "prompt", "a", "pending") + "UPDATE inputs SET row = 8; " + insertInput("g2", "prompt", "a", "pending"), "given to an agent more than once"},
		"command that was fenced":     {insertCommand("a", "queued", 0) + "INSERT INTO fences VALUES ('local', 'command', '$S', 'a', 1)", "a: was forbidden before it was there"},
		"session that was fenced":     {"INSERT INTO fences VALUES ('local', 'session', '', '$S', 1)", "forbids a session that is there"},
		"outcome that is not told":    {insertCommand("a", "completed", 5), "a: is not as its last event says: completed, the event says nothing"},
		"outcome that is another":     {insertCommand("a", "completed", 5) + settledEvent(7, "failed"), "completed, the event says failed"},
		"outcome that is told twice":  {insertCommand("a", "completed", 5) + settledEvent(7, "failed") + settledEvent(8, "completed"), "a: was settled more than once: 2 ends"},
		"end of what runs":            {insertCommand("a", "accepted", 0) + settledEvent(7, "completed"), "accepted, the event says completed"},
		"command JSON":                {insertCommand("a", "queued", 0) + "UPDATE commands SET overrides = '{'", "command a: cannot be read as what it is"},
		"request of no life":          {insertRequest("q", "g9", "expired"), "q: is of no generation of its session: g9"},
		"request of no command":       {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "pending") + "UPDATE requests SET command = 'x'", "about a command that does not exist: x"},
		"request without its answer":  {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "answered"), "an answer that does not go with its state: answered"},
		"request with an answer":      {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "pending") + "UPDATE requests SET answered = 1", "an answer that does not go with its state: pending"},
		"request not settled":         {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "withdrawn"), "time of settlement that does not go with its state: withdrawn"},
		"request without an intent":   {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "answering") + "UPDATE requests SET answered = 1", "q: was answered without an intent: answering"},
		"request answered twice":      {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "answering") + insertInput("g1", "answer", "q", "written") + "UPDATE inputs SET row = 8, n = 2; " + insertInput("g1", "answer", "q", "pending"), "q: was answered more than once: 2 answers"},
		"request JSON":                {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "pending") + "UPDATE requests SET body = '{'", "request q: cannot be read as what it is"},
		"input JSON":                  {insertGeneration("g1", 1, 0) + insertInput("g1", "close", "", "pending") + "UPDATE inputs SET payload = '{'", "no JSON"},
		"receipt of nothing":          {"INSERT INTO operations VALUES ('local','k','send','$S','m','done','',0,1,1)", "receipt of a command that does not exist"},
		"operation without a meaning": {"INSERT INTO operations VALUES ('local','k','close','$S','','done','',0,1,1)", "no meaning to be known again by"},
		"two running": {"DROP INDEX commands_running; " + insertCommand("a", "submitted", 0) + insertCommand("b", "accepted", 0) +
			"UPDATE sessions SET state = 'running'", "runs beside another"},
		"runs in a closed session":                             {insertCommand("a", "submitted", 0) + "UPDATE sessions SET state = 'closed'", "its session is closed"},
		"runs in a failed session, whose generation has ended": {insertCommand("a", "submitted", 0) + "UPDATE sessions SET state = 'failed'", "its session is failed"},
		"command state":                                        {insertCommand("a", "x", 1), "unknown state x"},
		"command of no generation":                             {insertCommand("a", "queued", 0) + "UPDATE commands SET generation = 99", "generation that does not exist: 99"},
		"progress missing":                                     {insertGeneration("g1", 1, 0) + "DELETE FROM progress", "holes"},
		"progress of nobody":                                   {"INSERT INTO progress VALUES (99, 0, 0, 0)", "belongs to no generation"},
		"unsettled":                                            {insertCommand("a", "completed", 0), "time of settlement"},
		"settled too early":                                    {insertCommand("a", "queued", 5), "time of settlement"},
		"two live":                                             {"DROP INDEX generations_live; " + insertGeneration("g1", 1, 0) + insertGeneration("g2", 2, 0), "live beside another"},
		"live in a closed session":                             {insertGeneration("g1", 1, 0) + "UPDATE sessions SET state = 'closed'", "its session is closed"},
		"request of the past":                                  {insertGeneration("g1", 1, 9) + insertRequest("q", "g1", "pending"), "generation is not live"},
		"request state":                                        {insertGeneration("g1", 1, 0) + insertRequest("q", "g1", "x"), "unknown state x"},
		"input missing":                                        {insertGeneration("g1", 1, 0) + "UPDATE progress SET last_input = 1", "holes"},
		"input of nothing":                                     {insertGeneration("g1", 1, 0) + insertInput("g1", "prompt", "none", "pending"), "does not exist: prompt none"},
		"input of no generation":                               {insertInput("none", "close", "", "pending"), "belongs to no generation"},
		"input state":                                          {insertGeneration("g1", 1, 0) + insertInput("g1", "close", "", "x"), "unknown state x"},
		"input that is not found":                              {insertGeneration("g1", 1, 0) + insertInput("g1", "close", "", "pending") + "UPDATE progress SET last_row = 6", "g1 1: is not found"},
		"input before it that is not found":                    {insertGeneration("g1", 1, 0) + insertInput("g1", "close", "", "pending") + "UPDATE inputs SET n = 2", "g1 1: is not found"},
		"operation of nothing":                                 {"INSERT INTO operations VALUES ('p','k','send','none','m','done','',0,1,1)", "does not exist: send"},
		"operation result":                                     {"INSERT INTO operations VALUES ('p','k','list','','m','done','{',0,1,1)", "no JSON"},
		"consumer":                                             {"INSERT INTO consumers VALUES ('inbox', 1000, 1)", "beyond the last event"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			store(t, path, whole)
			db, err := sqlite3.Open("file:" + path)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Exec(strings.ReplaceAll(c.sql, "$S", id)); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			j := openAt(t, path, Options{})
			problems, err := j.check(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(fmt.Sprint(problems), c.want) {
				t.Errorf("found %v, want %q", problems, c.want)
			}
		})
	}
}

// otherSession inserts a session with a generation, whose number is 1.
const otherSession = `INSERT INTO sessions (id, principal, runner, cwd, title, state, generation, native_id, had_turn, asked, settings, evidence, capability,
		lease, lease_term, workspace_id, node_id, origin, containment, error, usage, first_seq, created)
		SELECT 'other', principal, runner, cwd, title, 'reserved', '', '', 0, asked, settings, evidence, capability, '', 0, '', 'local', 'baton', containment, '', '', 1, 1 FROM sessions;
	INSERT INTO heads VALUES (last_insert_rowid(), 0, 0);
	INSERT INTO generations VALUES (1,'g0','other',1,'','','','','','','','','','','','','',1,0,'','');
	INSERT INTO progress VALUES (1, 0, 0, 0);`

// settledEvent makes one of the events the end of command a.
func settledEvent(seq int, state string) string {
	return fmt.Sprintf(`UPDATE events SET kind = 'command.settled', command = 'a', body = '{"kind":"","settled":{"state":"%s"}}' WHERE seq = %d;`, state, seq)
}

func insertCommand(id, state string, settled int) string {
	return fmt.Sprintf(`INSERT INTO commands (session, id, principal, generation, state, outcome, reason, turn, text, images, overrides,
		when_busy, deadline, steer, cancel_asked, acked, usage, created, submitted, settled)
		VALUES ((SELECT n FROM sessions WHERE id = '$S'),'%s','p','','%s','','','','','','','',0,'',0,0,'',1,1,%d);`, id, state, settled)
}

func insertGeneration(id string, n, ended int) string {
	return fmt.Sprintf(`INSERT INTO generations VALUES (NULL,'%s','$S',%d,'','','','','','','','','','','','','',1,%d,'','');
		INSERT INTO progress VALUES (last_insert_rowid(), 0, 0, 0);`, id, n, ended)
}

func insertRequest(id, generation, state string) string {
	return fmt.Sprintf(`INSERT INTO requests (id, session, generation, command, handle, kind, state, body, answer, answered_by, reason,
		asked, answered, settled) VALUES ('%s','$S','%s','','h','approval','%s','','','','',1,0,0);`, id, generation, state)
}

func insertInput(generation, kind, ref, state string) string {
	return fmt.Sprintf(`INSERT INTO inputs VALUES (7,coalesce((SELECT number FROM generations WHERE id = '%s'), 99),1,0,'%s','%s','','%s','',1,1);
		UPDATE progress SET last_input = 1, last_row = 7;`, generation, kind, ref, state)
}
