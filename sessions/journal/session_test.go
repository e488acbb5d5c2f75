package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// live makes a session with a live generation, in the state given.
func live(t testing.TB, j *Journal, events ...sessions.SessionEvent) (Session, Generation) {
	t.Helper()
	s := Session{ID: sessions.NewID(), Principal: "local", Runner: "codex", Cwd: "/w"}
	g := Generation{ID: sessions.NewID(), Session: s.ID}
	update(t, j, func(tx *Tx) error {
		if err := tx.InsertSession(&s); err != nil {
			return err
		}
		for _, e := range events {
			if _, err := tx.MoveSession(s.ID, e); err != nil {
				return err
			}
		}
		return tx.InsertGeneration(&g)
	})
	return s, g
}

func toRunning() []sessions.SessionEvent {
	return []sessions.SessionEvent{sessions.SessionStart, sessions.SessionOpened, sessions.SessionBusy}
}

func openFakeAt(t *testing.T, now time.Time) *Journal {
	t.Helper()
	o := newFakeDisk(t, 1).options()
	o.Now = func() time.Time { return now }
	return checked(t, openAt(t, cutPath, o))
}

func TestSessionRow(t *testing.T) {
	now := time.Unix(1700000000, 123456789).UTC()
	j := openFakeAt(t, now)
	s := Session{ID: sessions.NewID(), Principal: "p", Runner: "codex", Cwd: "/w", Title: "Zoë\x00 <&>", NativeID: "n", HadTurn: true,
		Asked:      sessions.Selection{Model: "m", Sandbox: sessions.SandboxReadOnly},
		Settings:   Settings{AutoAnswer: "none", WritableRoots: []string{"/x"}, EnvNames: []string{"A"}, EnvUnset: []string{"B"}, MCPServers: []string{"s"}, RunnerOptions: map[string]any{"k": "v"}},
		Evidence:   sessions.Evidence{Model: "m", Raw: json.RawMessage(`{"a":1}`)},
		Capability: sessions.Capabilities{Resume: true, Modes: []string{"plan"}}, Lease: "l", LeaseTerm: 3, WorkspaceID: "w",
		Containment: sessions.Containment{Rung: "pid_namespace"}, Error: &sessions.Error{Code: sessions.CodeTimeout, Message: "m", Action: "a"},
		Usage: &sessions.Usage{Input: 1}}
	update(t, j, func(tx *Tx) error { return tx.InsertSession(&s) })
	want := s
	if s.N == 0 || s.State != sessions.SessionReserved || s.NodeID != "local" || s.Origin != "baton" || s.CreatedAt != now || s.FirstSeq != 1 {
		t.Errorf("inserted as %+v", s)
	}
	view(t, j, func(tx *Tx) error {
		got, err := tx.GetSession("p", s.ID)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read\n%+v, want\n%+v", got, want)
		}
		_, e := tx.GetSession("someone else", s.ID)
		refused(t, e, sessions.CodeNotFound, s.ID)
		_, e = tx.GetSession("p", "none")
		refused(t, e, sessions.CodeNotFound, "none")
		return err
	})
	update(t, j, func(tx *Tx) error {
		_, err := tx.UpdateSession(s.ID, func(s *Session) {
			s.ID, s.N, s.Principal, s.State, s.LastSeq, s.FirstSeq, s.CreatedAt = "x", 99, "x", sessions.SessionFailed, 99, 99, time.Time{}
			s.Title, s.Error = "new", nil
		})
		return err
	})
	want.Title, want.Error = "new", nil
	view(t, j, func(tx *Tx) error {
		got, err := tx.GetSession("p", s.ID)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("after an update\n%+v, want\n%+v", got, want)
		}
		return err
	})
	err := j.Update(t.Context(), func(tx *Tx) error { return tx.InsertSession(&Session{ID: s.ID, Principal: "other"}) })
	refused(t, err, sessions.CodeKeyConflict, s.ID)
}

func TestMoveSessionAsksTheMachine(t *testing.T) {
	var told []string
	o := newFakeDisk(t, 1).options()
	o.Impossible = func(id string, e *sessions.ImpossibleError) { told = append(told, id+" "+e.Error()) }
	j := openAt(t, cutPath, o)
	s := newSession(t, j)
	update(t, j, func(tx *Tx) error {
		state, err := tx.MoveSession(s.ID, sessions.SessionStart, func(s *Session) { s.Title = "t"; s.State = "nonsense" })
		if state != sessions.SessionStarting || err != nil {
			t.Errorf("%s, %v", state, err)
		}
		state, err = tx.MoveSession(s.ID, sessions.SessionFree)
		var impossible *sessions.ImpossibleError
		if state != sessions.SessionStarting || !errors.As(err, &impossible) {
			t.Errorf("%s, %v", state, err)
		}
		got, err := tx.GetSession("", s.ID)
		if got.State != sessions.SessionStarting || got.Title != "t" {
			t.Errorf("stored %+v", got)
		}
		_, e := tx.MoveSession("none", sessions.SessionStart)
		refused(t, e, sessions.CodeNotFound)
		return err
	})
	if len(told) != 1 || !strings.HasPrefix(told[0], s.ID) {
		t.Errorf("told %v", told)
	}
}

func TestListSessions(t *testing.T) {
	j := openFake(t, newFakeDisk(t, 1))
	for i := range 10 {
		s := Session{ID: fmt.Sprint("s", i), Principal: []string{"a", "b"}[i%2], Runner: []string{"codex", "cursor", "codex"}[i%3], Cwd: fmt.Sprint("/", i%4)}
		update(t, j, func(tx *Tx) error { return tx.InsertSession(&s) })
	}
	end := func(id string, events ...sessions.SessionEvent) {
		update(t, j, func(tx *Tx) error {
			for _, e := range events {
				if _, err := tx.MoveSession(id, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	end("s2", sessions.SessionFail)
	end("s4", sessions.SessionStart, sessions.SessionClose, sessions.SessionStop)
	end("s5", sessions.SessionStart)
	end("s6", sessions.SessionFail)
	update(t, j, func(tx *Tx) error { return tx.DeleteSession("s6") })

	page := func(f SessionFilter, after int64, limit int) (got []string, last int64, more bool) {
		view(t, j, func(tx *Tx) error {
			list, m, err := tx.ListSessions(f, after, limit)
			for _, s := range list {
				got, last = append(got, s.ID), s.N
			}
			more = m
			return err
		})
		return got, last, more
	}
	for name, c := range map[string]struct {
		f    SessionFilter
		want string
	}{
		"live":      {SessionFilter{}, "s0 s1 s3 s5 s7 s8 s9"},
		"newest":    {SessionFilter{Newest: true}, "s9 s8 s7 s5 s3 s1 s0"},
		"all":       {SessionFilter{All: true}, "s0 s1 s2 s3 s4 s5 s7 s8 s9"},
		"principal": {SessionFilter{All: true, Principal: "a"}, "s0 s2 s4 s8"},
		"runner":    {SessionFilter{Runner: "cursor"}, "s1 s7"},
		"cwd":       {SessionFilter{Cwd: "/1"}, "s1 s5 s9"},
		"state":     {SessionFilter{State: sessions.SessionClosed}, "s4"},
		"starting":  {SessionFilter{State: sessions.SessionStarting}, "s5"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int{1, 2, 3, 100} {
				var all []string
				for after, more := int64(0), true; more; {
					var got []string
					got, after, more = page(c.f, after, limit)
					all = append(all, got...)
				}
				if got := strings.Join(all, " "); got != c.want {
					t.Errorf("in pages of %d: %s, want %s", limit, got, c.want)
				}
			}
		})
	}
	view(t, j, func(tx *Tx) error {
		list, err := tx.LiveSessions()
		var got []string
		for _, s := range list {
			got = append(got, s.ID)
		}
		if want := []string{"s0", "s1", "s3", "s5", "s7", "s8", "s9"}; !slices.Equal(got, want) {
			t.Errorf("live: %v", got)
		}
		return err
	})
}

// I-14: what a starting host looks for is found by an index, whatever the history.
func TestI14_StartReadsLiveSessionsOnly(t *testing.T) {
	j := openFake(t, newFakeDisk(t, 1))
	view(t, j, func(tx *Tx) error {
		for what, c := range map[string]struct{ sql, index string }{
			"live sessions": {"SELECT " + sessionColumns + " FROM sessions " + liveSessions + " ORDER BY n", "sessions_live"},
			"generations":   {"SELECT " + generationColumns + " FROM generations WHERE ended = 0 ORDER BY session", "generations_live"},
			"open commands": {ofSession + openCommands + " ORDER BY position", "commands_open"},
			"running":       {"SELECT * FROM commands WHERE session = ? AND steer = '' AND state IN ('submitted', 'accepted')", "commands_running"},
			"last":          {"SELECT * FROM commands WHERE session = ? AND settled > 0 ORDER BY settled DESC, position DESC LIMIT 1", "commands_settled"},
			"a command":     {ofSession + "AND id = ?", "sqlite_autoindex_commands_1 (id=? AND session=?)"},
			"all commands":  {ofSession + "AND position IN (" + positions + ")", "commands_settled (session=? AND settled>?)"},
			"unknown":       {ofSession + unknownCommands, "commands_unknown"},
			"requests":      {"SELECT * FROM requests WHERE session = ? AND state IN ('pending', 'answering') ORDER BY n", "requests_open"},
			"events":        {"SELECT * FROM events WHERE session = ? AND seq > ? ORDER BY seq", "events_session"},
			"texts":         {"SELECT * FROM events WHERE session = ? AND command = ? AND kind = 'text' ORDER BY seq DESC", "events_words"},
			"purge":         {"SELECT id FROM sessions " + cutSessions, "sessions_cut"},
			"wipe":          {"SELECT id FROM sessions WHERE state = 'deleted' AND wiped = 0 ORDER BY n LIMIT 1", "sessions_deleted"},
		} {
			plan := ""
			if err := tx.query(func(r *row) error { plan += r.s.ColumnText(3) + "\n"; return nil }, "EXPLAIN QUERY PLAN "+c.sql); err != nil {
				return err
			}
			if !strings.Contains(plan, "INDEX "+c.index) || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%s: %s", what, plan)
			}
		}
		return nil
	})
}
