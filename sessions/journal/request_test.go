package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

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
		{[]sessions.RequestEvent{sessions.RequestAnswer, sessions.RequestNotDelivered}, sessions.CodeStaleGeneration, 0},
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
	if problems, err := j.check(t.Context(), false); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
