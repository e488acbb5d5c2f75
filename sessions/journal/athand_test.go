package journal

import (
	"reflect"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// What an update shows of a session that it has at hand is what a view of it shows, whatever has changed since it was
// recalled, and nothing is read for it.
func TestViewAtHand(t *testing.T) {
	j := open(t, Options{})
	s, g := live(t, j, toRunning()...)
	update(t, j, func(tx *Tx) error {
		if tx.AtHand(s.ID) {
			t.Error("at hand before anybody asked for it")
		}
		if err := tx.Recall(s.ID); err != nil || !tx.AtHand(s.ID) {
			t.Errorf("recalled: %v", err)
		}
		return nil
	})
	view(t, j, func(tx *Tx) error {
		if tx.AtHand(s.ID) {
			t.Error("a view has what the writer remembers")
		}
		return nil
	})
	ask := func(handle string) func(*Tx) error {
		return func(tx *Tx) error {
			return tx.InsertRequest(&Request{Request: sessions.Request{RequestID: "id of " + handle, Session: s.ID, Generation: g.ID, Handle: handle, Kind: sessions.RequestApproval}})
		}
	}
	moveRequest := func(handle string, e sessions.RequestEvent) func(*Tx) error {
		return func(tx *Tx) error { _, err := tx.MoveRequest("id of "+handle, e, nil); return err }
	}
	insert := func(id string, state sessions.CommandState) func(*Tx) error {
		return func(tx *Tx) error {
			return tx.InsertCommand(&Command{Command: sessions.Command{CommandID: id, Session: s.ID, State: state}, Text: id})
		}
	}
	move := func(id string, events ...sessions.CommandEvent) func(*Tx) error {
		return func(tx *Tx) error {
			for _, e := range events {
				if _, err := tx.MoveCommand(s.ID, id, e, nil); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, step := range []struct {
		what string
		do   func(*Tx) error
	}{
		{"submitted", insert("a", sessions.CommandSubmitted)},
		{"asked", ask("1")}, {"asked again", ask("2")},
		{"answering the first", moveRequest("1", sessions.RequestAnswer)}, {"answered", moveRequest("1", sessions.RequestDeliver)},
		{"queued", insert("b", sessions.CommandQueued)},
		{"withdrawn", moveRequest("2", sessions.RequestWithdraw)},
		{"the first to settle", move("a", sessions.CommandAccept, sessions.CommandComplete)},
		{"the next", move("b", sessions.CommandSubmit)}, {"lost", move("b", sessions.CommandLost)},
		{"acknowledged", func(tx *Tx) error {
			_, err := tx.UpdateCommand(s.ID, "b", func(c *Command) { c.Acked = true })
			return err
		}},
		{"one that settled before is altered", func(tx *Tx) error {
			_, err := tx.UpdateCommand(s.ID, "a", func(c *Command) { c.Usage = &sessions.Usage{Total: 7} })
			return err
		}},
		{"told", func(tx *Tx) error { _, err := tx.AppendEvents(s.ID, warnings(2)); return err }},
	} {
		var shown, read sessions.Session
		update(t, j, func(tx *Tx) (err error) {
			if err := step.do(tx); err != nil {
				return err
			}
			if !tx.AtHand(s.ID) {
				t.Errorf("%s: no longer at hand", step.what)
			}
			shown, err = tx.SessionView(s.ID)
			return err
		})
		view(t, j, func(tx *Tx) (err error) { read, err = tx.SessionView(s.ID); return err })
		if !reflect.DeepEqual(shown, read) {
			t.Errorf("%s: shown as\n%+v\nand read as\n%+v", step.what, shown, read)
		}
	}
}
