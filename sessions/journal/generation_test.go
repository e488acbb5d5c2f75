package journal

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

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
	unproven := func(since time.Time, want ...string) {
		view(t, j, func(tx *Tx) error {
			list, err := tx.UnprovenGenerations(since, 10)
			var got []string
			for _, g := range list {
				got = append(got, g.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("unproven since %s: %q, want %q", since, got, want)
			}
			return err
		})
	}
	unproven(time.Unix(1, 0))
	end("unconfirmed", "none", "unconfirmed none")
	unproven(time.Unix(1, 0), g.ID)
	unproven(time.Now().Add(time.Hour))
	end("unconfirmed", "other", "unconfirmed none")
	end("confirmed", "reboot", "confirmed reboot")
	unproven(time.Unix(1, 0))
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
		liveOnes, _, err := tx.LiveGenerations()
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
