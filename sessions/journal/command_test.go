package journal

import (
	"errors"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

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
