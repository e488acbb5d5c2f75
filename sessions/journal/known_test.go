package journal

import (
	"errors"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// What the writer remembers of a row is what is in the row, also after an update was undone.
func TestKnownRowsFollowWhatIsUndone(t *testing.T) {
	j := open(t, Options{})
	s, g := live(t, j, sessions.SessionStart, sessions.SessionOpened)
	work := func(tx *Tx) error {
		if _, err := tx.AppendEvents(s.ID, []sessions.Event{{Kind: sessions.EventWarning}}); err != nil {
			return err
		}
		if _, err := tx.AppendInput(g.ID, InputCancel, s.ID, nil); err != nil {
			return err
		}
		if _, err := tx.SetFrame(g.ID, 7); err != nil {
			return err
		}
		_, err := tx.UpdateSession(s.ID, func(s *Session) { s.Title = "new" })
		return err
	}
	same := func(what string, seq, input, frame int64, title string) {
		t.Helper()
		read := func(tx *Tx) error {
			s, _, err := tx.FindSession(s.ID)
			if err != nil {
				return err
			}
			g, err := tx.GetGeneration(g.ID)
			if s.LastSeq != seq || g.LastInput != input || g.LastFrame != frame || s.Title != title {
				t.Errorf("%s: event %d, input %d, frame %d, title %q", what, s.LastSeq, g.LastInput, g.LastFrame, s.Title)
			}
			return err
		}
		update(t, j, read)
		view(t, j, read)
	}
	boom := errors.New("boom")
	fails := func(tx *Tx) error { return errors.Join(work(tx), boom) }
	if err := j.Update(t.Context(), fails); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	same("undone", 0, 0, 0, "")
	update(t, j, work)
	same("done", 1, 1, 7, "new")

	// In one group with an update that is undone before and after it.
	release := hold(t, j)
	results := make(chan error, 3)
	for _, fn := range []func(*Tx) error{fails, work, fails} {
		go func() { results <- j.Update(t.Context(), fn) }()
	}
	release()
	failed := 0
	for range 3 {
		if err := <-results; errors.Is(err, boom) {
			failed++
		} else if err != nil {
			t.Error(err)
		}
	}
	if failed != 2 {
		t.Errorf("%d of 3 updates failed", failed)
	}
	same("one of three", 2, 2, 7, "new")
}
