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

func openFakeAt(t *testing.T, now time.Time) *Journal {
	t.Helper()
	o := newFakeDisk(t, 1).options()
	o.Now = func() time.Time { return now }
	return checked(t, openAt(t, cutPath, o))
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
	var ids []string
	for i := range 10 {
		s := Session{ID: fmt.Sprint("s", i), Principal: []string{"a", "b"}[i%2], Runner: []string{"codex", "cursor", "codex"}[i%3], Cwd: fmt.Sprint("/", i%4)}
		update(t, j, func(tx *Tx) error { return tx.InsertSession(&s) })
		ids = append(ids, s.ID)
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
			"live sessions": {"SELECT " + sessionColumns + " FROM sessions WHERE state NOT IN ('closed', 'failed', 'deleted') ORDER BY n", "sessions_live"},
			"generations":   {"SELECT " + generationColumns + " FROM generations WHERE ended = 0 ORDER BY session", "generations_live"},
			"open commands": {"SELECT " + commandColumns + " FROM commands " + openCommands + " ORDER BY position", "commands_open"},
			"running":       {"SELECT * FROM commands WHERE session = ? AND steer = '' AND state IN ('submitted', 'accepted')", "commands_running"},
			"last":          {"SELECT * FROM commands WHERE session = ? AND settled > 0 ORDER BY settled DESC, position DESC LIMIT 1", "commands_settled"},
			"unknown":       {"SELECT * FROM commands WHERE session = ? AND state = 'unknown' AND acked <= ? ORDER BY position", "commands_unknown"},
			"requests":      {"SELECT * FROM requests WHERE session = ? AND state IN ('pending', 'answering') ORDER BY n", "requests_open"},
			"events":        {"SELECT * FROM events WHERE session = ? AND seq > ? ORDER BY seq", "events_seq"},
			"texts":         {"SELECT * FROM events WHERE session = ? AND command = ? AND kind = 'text' ORDER BY seq DESC", "events_text"},
			"purge":         {"SELECT id FROM sessions WHERE first_seq > purged + 1 ORDER BY n LIMIT 1", "sessions_cut"},
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

func TestGenerations(t *testing.T) {
	j := openFakeAt(t, time.Unix(5, 0).UTC())
	s, g := live(t, j)
	second := Generation{ID: sessions.NewID(), Session: s.ID}
	err := j.Update(t.Context(), func(tx *Tx) error { return tx.InsertGeneration(&second) })
	refused(t, err, sessions.CodeBusy, g.ID, s.ID)
	update(t, j, func(tx *Tx) error {
		for _, c := range []struct {
			n     int64
			fresh bool
		}{{1, true}, {1, false}, {4, true}, {3, false}, {5, true}} {
			fresh, err := tx.SetFrame(g.ID, c.n)
			if fresh != c.fresh || err != nil {
				t.Errorf("frame %d is new: %v, %v", c.n, fresh, err)
			}
		}
		_, err := tx.SetFrame("none", 1)
		refused(t, err, sessions.CodeNotFound)
		got, err := tx.UpdateGeneration(g.ID, func(g *Generation) {
			g.Record, g.Argv, g.Socket = json.RawMessage(`{"pid":1}`), []string{"a", "b"}, "/s"
			g.LastFrame, g.Session, g.EndedAt, g.Verdict = 99, "x", time.Unix(9, 0), "confirmed"
		})
		if err != nil {
			return err
		}
		again, err := tx.GetGeneration(g.ID)
		if !reflect.DeepEqual(got, again) || got.LastFrame != 5 || got.Session != s.ID || !got.EndedAt.IsZero() || got.Verdict != "" || string(got.Record) != `{"pid":1}` {
			t.Errorf("updated to %+v, stored %+v", got, again)
		}
		return err
	})
	end := func(verdict, proof, want string) {
		update(t, j, func(tx *Tx) error {
			got, err := tx.EndGeneration(g.ID, verdict, proof)
			if got.Verdict+" "+got.Proof != want || got.EndedAt.IsZero() {
				t.Errorf("ended as %q %q, want %q", got.Verdict, got.Proof, want)
			}
			return err
		})
	}
	end("unconfirmed", "none", "unconfirmed none")
	end("unconfirmed", "other", "unconfirmed none")
	end("confirmed", "reboot", "confirmed reboot")
	end("unconfirmed", "none", "confirmed reboot")
	update(t, j, func(tx *Tx) error {
		if err := tx.InsertGeneration(&second); err != nil {
			return err
		}
		_, err := tx.AppendInput(g.ID, InputPrompt, "c", nil)
		refused(t, err, sessions.CodeStaleGeneration, g.ID)
		return nil
	})
	view(t, j, func(tx *Tx) error {
		all, err := tx.ListGenerations(s.ID)
		if err != nil || len(all) != 2 || all[0].N != 1 || all[1].N != 2 {
			t.Errorf("%+v, %v", all, err)
		}
		liveOnes, err := tx.LiveGenerations()
		if err != nil || len(liveOnes) != 1 || liveOnes[0].ID != second.ID {
			t.Errorf("live %+v, %v", liveOnes, err)
		}
		last, _, err := tx.LastGeneration(s.ID)
		if last.ID != second.ID {
			t.Errorf("last %+v", last)
		}
		return err
	})
}

func TestInputs(t *testing.T) {
	j := openFake(t, newFakeDisk(t, 1))
	s, g := live(t, j, toRunning()...)
	update(t, j, func(tx *Tx) error {
		c := Command{Command: sessions.Command{Session: s.ID, CommandID: "c", State: sessions.CommandSubmitted}}
		if err := tx.InsertCommand(&c); err != nil {
			return err
		}
		for want := int64(1); want <= 3; want++ {
			n, err := tx.AppendInput(g.ID, InputPrompt, "c", sessions.Prompt{CommandID: "c", Text: "a<b"})
			if n != want || err != nil {
				t.Errorf("input %d, %v", n, err)
			}
		}
		return nil
	})
	mark := func(n int64, state InputState) error {
		return j.Update(t.Context(), func(tx *Tx) error { return tx.MarkInput(g.ID, n, state, string(state)) })
	}
	for _, c := range []struct {
		n        int64
		state    InputState
		want     InputState
		possible bool
	}{
		{1, InputReceived, InputReceived, true}, {1, InputReceived, InputReceived, true}, {1, InputWritten, InputWritten, true},
		{1, InputReceived, InputWritten, true}, {1, InputWritten, InputWritten, true}, {1, InputRefused, InputWritten, false},
		{1, InputBroken, InputWritten, false}, {1, InputPending, InputWritten, true}, {2, InputRefused, InputRefused, true},
		{2, InputWritten, InputRefused, false}, {3, InputBroken, InputBroken, true}, {3, "nonsense", InputBroken, false},
	} {
		err := mark(c.n, c.state)
		var impossible *sessions.ImpossibleError
		if errors.As(err, &impossible) == c.possible || (c.possible && err != nil) {
			t.Errorf("input %d marked %s: %v", c.n, c.state, err)
		}
		view(t, j, func(tx *Tx) error {
			in, _, err := tx.FindInput(g.ID, c.n)
			if in.State != c.want {
				t.Errorf("input %d marked %s is %s", c.n, c.state, in.State)
			}
			return err
		})
	}
	if err := mark(9, InputWritten); sessions.CodeOf(err) != sessions.CodeNotFound {
		t.Errorf("no such input: %v", err)
	}
	view(t, j, func(tx *Tx) error {
		after, err := tx.InputsAfter(g.ID, 1)
		if err != nil || len(after) != 2 || after[0].N != 2 || string(after[0].Payload) != `{"command_id":"c","text":"a<b"}` {
			t.Errorf("%+v, %v", after, err)
		}
		of, err := tx.InputsFor(g.ID, "c")
		if len(of) != 3 {
			t.Errorf("of the command: %+v", of)
		}
		return err
	})
}

func TestCommands(t *testing.T) {
	j := openFake(t, newFakeDisk(t, 1))
	s, _ := live(t, j, toRunning()...)
	add := func(id string, state sessions.CommandState, steer string) error {
		return j.Update(t.Context(), func(tx *Tx) error {
			return tx.InsertCommand(&Command{Command: sessions.Command{Session: s.ID, CommandID: id, State: state}, Text: id, Steer: steer,
				Images: []string{"/i"}, Overrides: Overrides{Model: "m"}, DeadlineSeconds: 5, WhenBusy: "queue", Principal: "p"})
		})
	}
	move := func(id string, e sessions.CommandEvent) (state sessions.CommandState, err error) {
		err = j.Update(t.Context(), func(tx *Tx) (err error) {
			state, err = tx.MoveCommand(s.ID, id, e, func(c *Command) { c.Outcome, c.State, c.CommandID = "o", "x", "y" })
			return err
		})
		return state, err
	}
	list := func(read func(*Tx) ([]Command, error)) string {
		var ids []string
		view(t, j, func(tx *Tx) error {
			l, err := read(tx)
			for _, c := range l {
				ids = append(ids, c.CommandID)
			}
			return err
		})
		return strings.Join(ids, " ")
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		if err := add(id, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, add("a", "", ""), sessions.CodeKeyConflict, "a")
	if state, err := move("a", sessions.CommandSubmit); state != sessions.CommandSubmitted || err != nil {
		t.Errorf("%s, %v", state, err)
	}
	_, err := move("b", sessions.CommandSubmit)
	refused(t, err, sessions.CodeBusy, "a")
	refused(t, add("e", sessions.CommandSubmitted, ""), sessions.CodeBusy, "a")
	if err := add("steer", sessions.CommandSubmitted, "a"); err != nil {
		t.Errorf("steering: %v", err)
	}
	var impossible *sessions.ImpossibleError
	if _, err := move("b", sessions.CommandComplete); !errors.As(err, &impossible) {
		t.Errorf("a queued command completed: %v", err)
	}
	if got := list(func(tx *Tx) ([]Command, error) { return tx.OpenCommands(s.ID) }); got != "a b c d steer" {
		t.Errorf("open: %s", got)
	}
	if got := list(func(tx *Tx) ([]Command, error) { return tx.SubmittedCommands(s.ID) }); got != "a steer" {
		t.Errorf("submitted: %s", got)
	}
	if got := list(func(tx *Tx) ([]Command, error) { return tx.QueuedCommands(s.ID) }); got != "b c d" {
		t.Errorf("queued: %s", got)
	}
	for _, e := range []sessions.CommandEvent{sessions.CommandAccept, sessions.CommandLost} {
		if _, err := move("a", e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := move("steer", sessions.CommandComplete); err != nil {
		t.Fatal(err)
	}
	if _, err := move("b", sessions.CommandCancelQueued); err != nil {
		t.Fatal(err)
	}
	view(t, j, func(tx *Tx) error {
		c, err := tx.GetCommand(s.ID, "a")
		if err != nil || c.Outcome != "o" || c.State != sessions.CommandUnknown || c.SubmittedAt.IsZero() || c.SettledAt.IsZero() || c.Text != "a" ||
			c.Overrides.Model != "m" || c.DeadlineSeconds != 5 || c.WhenBusy != "queue" || c.Principal != "p" || len(c.Images) != 1 {
			t.Errorf("%+v, %v", c, err)
		}
		if _, found, err := tx.RunningCommand(s.ID); found || err != nil {
			t.Errorf("running: %v, %v", found, err)
		}
		if c, _, _ := tx.NextQueued(s.ID); c.CommandID != "c" {
			t.Errorf("next is %s", c.CommandID)
		}
		if c, _, _ := tx.LastCommand(s.ID); c.CommandID != "b" {
			t.Errorf("last is %s", c.CommandID)
		}
		if l, _ := tx.SettledSince(s.ID, c.SettledAt); len(l) > 2 {
			t.Errorf("since: %+v", l)
		}
		_, err = tx.GetCommand(s.ID, "none")
		refused(t, err, sessions.CodeNotFound, "none")
		return nil
	})
	if got := list(func(tx *Tx) ([]Command, error) { return tx.UnknownCommands(s.ID, false) }); got != "a" {
		t.Errorf("unknown: %s", got)
	}
	update(t, j, func(tx *Tx) error {
		_, err := tx.UpdateCommand(s.ID, "a", func(c *Command) { c.Acked, c.State = true, "x" })
		return err
	})
	if got := list(func(tx *Tx) ([]Command, error) { return tx.UnknownCommands(s.ID, false) }); got != "" {
		t.Errorf("unknown after it was acknowledged: %s", got)
	}
	if got := list(func(tx *Tx) ([]Command, error) { return tx.UnknownCommands(s.ID, true) }); got != "a" {
		t.Errorf("unknown, acknowledged ones too: %s", got)
	}
}

// I-07: the first answer wins, and one that comes too late is refused as what it is.
func TestI07_RequestsTakeOneAnswer(t *testing.T) {
	j := openFake(t, newFakeDisk(t, 1))
	s, g := live(t, j, toRunning()...)
	ask := func(handle string) string {
		q := Request{Request: sessions.Request{RequestID: sessions.NewID(), Session: s.ID, Generation: g.ID, Command: "c", Handle: handle,
			Kind: sessions.RequestApproval, Title: "run", Options: []sessions.Option{{OptionID: "y", Kind: sessions.OptionAllowOnce}}}}
		update(t, j, func(tx *Tx) error { return tx.InsertRequest(&q) })
		view(t, j, func(tx *Tx) error {
			got, err := tx.GetRequest(s.ID, q.RequestID)
			if !reflect.DeepEqual(got, q) {
				t.Errorf("read\n%+v, want\n%+v", got, q)
			}
			byHandle, found, _ := tx.FindHandle(g.ID, handle)
			if !found || byHandle.RequestID != q.RequestID {
				t.Errorf("by handle: %+v", byHandle)
			}
			return err
		})
		return q.RequestID
	}
	move := func(id string, e sessions.RequestEvent) error {
		return j.Update(t.Context(), func(tx *Tx) error {
			_, err := tx.MoveRequest(id, e, func(q *Request) {
				q.AnsweredBy, q.Reason, q.Handle, q.State = "p", "because", "x", "x"
				if e == sessions.RequestAnswer {
					q.Answer = &sessions.Answer{OptionID: "y"}
				}
			})
			return err
		})
	}
	for _, c := range []struct {
		path []sessions.RequestEvent
		code sessions.Code
		open int
	}{
		{nil, "", 1},
		{[]sessions.RequestEvent{sessions.RequestAnswer}, sessions.CodeAlreadyAnswered, 1},
		{[]sessions.RequestEvent{sessions.RequestAnswer, sessions.RequestDeliver}, sessions.CodeAlreadyAnswered, 0},
		{[]sessions.RequestEvent{sessions.RequestWithdraw}, sessions.CodeWithdrawn, 0},
		{[]sessions.RequestEvent{sessions.RequestAnswer, sessions.RequestWithdraw}, sessions.CodeWithdrawn, 0},
		{[]sessions.RequestEvent{sessions.RequestLose}, sessions.CodeStaleGeneration, 0},
		{[]sessions.RequestEvent{sessions.RequestAnswer, sessions.RequestLose}, sessions.CodeOutcomeUnknown, 0},
	} {
		id := ask(fmt.Sprint(c.path))
		for _, e := range c.path {
			if err := move(id, e); err != nil {
				t.Fatal(err)
			}
		}
		view(t, j, func(tx *Tx) error {
			open, err := tx.PendingRequests(s.ID)
			if len(open) != c.open {
				t.Errorf("%v: %d open", c.path, len(open))
			}
			return err
		})
		err := move(id, sessions.RequestAnswer)
		if c.code == "" {
			if err != nil {
				t.Errorf("first answer: %v", err)
			}
		} else {
			refused(t, err, c.code, id)
		}
		// What is still open would count for the next case.
		_ = move(id, sessions.RequestWithdraw)
	}
	id := ask("again")
	var impossible *sessions.ImpossibleError
	if err := move(id, sessions.RequestDeliver); !errors.As(err, &impossible) {
		t.Errorf("delivered without an answer: %v", err)
	}
	err := j.Update(t.Context(), func(tx *Tx) error {
		return tx.InsertRequest(&Request{Request: sessions.Request{RequestID: sessions.NewID(), Session: s.ID, Generation: g.ID, Handle: "again"}})
	})
	if sessions.CodeOf(err) != sessions.CodeKeyConflict {
		t.Errorf("a handle twice: %v", err)
	}
	view(t, j, func(tx *Tx) error {
		_, err := tx.GetRequest("another session", id)
		refused(t, err, sessions.CodeNotFound)
		return nil
	})
}

func TestOperationsFencesConsumers(t *testing.T) {
	j := openFakeAt(t, time.Unix(7, 0).UTC())
	s := newSession(t, j)
	op := Operation{Principal: "local", Key: "k", Verb: "send", Scope: s.ID, Meaning: "m1", State: "begun", LeaseTerm: 1}
	update(t, j, func(tx *Tx) error { return tx.PutOperation(op) })
	op.State, op.Result = "done", json.RawMessage(`{"command_id":"c"}`)
	update(t, j, func(tx *Tx) error { return tx.PutOperation(op) })
	other := op
	other.Meaning = "m2"
	refused(t, j.Update(t.Context(), func(tx *Tx) error { return tx.PutOperation(other) }), sessions.CodeKeyConflict, "k", "send")
	update(t, j, func(tx *Tx) error {
		got, found, err := tx.FindOperation("local", "k")
		op.CreatedAt, op.UpdatedAt = tx.Now(), tx.Now()
		if !found || !reflect.DeepEqual(got, op) {
			t.Errorf("%+v, want %+v", got, op)
		}
		if _, found, _ := tx.FindOperation("other", "k"); found {
			t.Error("a key of another principal was found")
		}
		return err
	})
	update(t, j, func(tx *Tx) error {
		for _, want := range []bool{true, false} {
			if fresh, err := tx.PutFence("local", "command", s.ID, "c"); fresh != want || err != nil {
				t.Errorf("fence is new: %v, %v", fresh, err)
			}
		}
		for _, c := range []struct {
			principal, kind, scope, id string
			want                       bool
		}{{"local", "command", s.ID, "c", true}, {"x", "command", s.ID, "c", false}, {"local", "session", s.ID, "c", false},
			{"local", "command", "x", "c", false}, {"local", "command", s.ID, "x", false}} {
			if has, err := tx.HasFence(c.principal, c.kind, c.scope, c.id); has != c.want || err != nil {
				t.Errorf("%+v: %v, %v", c, has, err)
			}
		}
		if _, err := tx.AppendEvents(s.ID, warnings(9)); err != nil {
			return err
		}
		for _, c := range []struct{ set, want int64 }{{0, 0}, {5, 5}, {3, 5}, {9, 9}} {
			if err := tx.SetCursor("inbox", c.set); err != nil {
				return err
			}
			if got, err := tx.Cursor("inbox"); got != c.want || err != nil {
				t.Errorf("cursor %d, %v, want %d", got, err, c.want)
			}
		}
		got, err := tx.Cursor("none")
		if got != 0 {
			t.Errorf("a consumer that has not begun is at %d", got)
		}
		return err
	})
	if problems, err := j.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
