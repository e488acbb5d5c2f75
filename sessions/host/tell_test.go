package host

import (
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"testing"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// unread keeps every reader of the journal until the returned function is called.
func (r *rig) unread() (over func()) {
	r.t.Helper()
	var held, views sync.WaitGroup
	release := make(chan struct{})
	for range 4 {
		held.Add(1)
		views.Go(func() {
			if err := r.j.View(r.life, func(*journal.Tx) error { held.Done(); <-release; return nil }); err != nil {
				r.t.Error(err)
			}
		})
	}
	held.Wait()
	return sync.OnceFunc(func() { close(release); views.Wait() })
}

// batch is what a bridge says at once.
func (s *session) batch(evs ...sessions.Event) {
	s.r.t.Helper()
	var frames []bridge.Frame
	for i, e := range evs {
		raw, err := json.Marshal(e)
		if err != nil {
			s.r.t.Fatal(err)
		}
		frames = append(frames, bridge.Frame{Type: "out", N: s.t.lastOut + 1 + uint64(i), Kind: bridge.OutEvent, Body: raw})
	}
	if err := s.t.take(frames); err != nil {
		s.r.t.Fatal(err)
	}
}

func finalOf(command, text string) sessions.Event {
	return sessions.Event{Kind: sessions.EventText, Command: command, Item: "i", Text: text, Final: true}
}

func settled(command string) sessions.Event {
	return sessions.Event{Kind: sessions.EventCommandSettled, Command: command,
		Settled: &sessions.Settlement{Command: command, State: sessions.CommandCompleted, Outcome: "end_turn"}}
}

func usage(command string) sessions.Event {
	return sessions.Event{Kind: sessions.EventUsage, Command: command, Usage: &sessions.Usage{Input: 3, Output: 4}}
}

func waits(a *sessions.SendArgs) { a.WaitSeconds = ptr(20) }

// TestReceiptReadsNothing: whoever sends and does not wait is told what a look would show, and no look is made.
func TestReceiptReadsNothing(t *testing.T) {
	s := newRig(t).idle()
	s.send("a")
	s.accepts("a")
	s.batch(finalOf("a", "one"), settled("a"))
	over := s.r.unread()
	defer over()
	var told sessions.SendResult
	err := within(t, func() (err error) { told, err = s.trySend("b"); return err }, func() {})
	over()
	if err != nil {
		t.Fatal(err)
	}
	if seen := s.send("b"); !reflect.DeepEqual(told, seen) {
		t.Errorf("told\n%+v\nand seen\n%+v", told, seen)
	}
}

// TestEndIsTold: whoever waits for a command is told of its end by the commit that holds it, as a look would show it; where
// the commit alone does not say it they look.
func TestEndIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		looks bool
		ends  func(s *session)
		text  string
	}{
		"at once": {false, func(s *session) { s.batch(finalOf("c", "all of it"), usage("c"), settled("c")) }, "all of it"},
		"the text of a helper is another's": {false, func(s *session) {
			helper := finalOf("c", "another's")
			helper.Agent = "helper"
			s.batch(finalOf("c", "its own"), helper, settled("c"))
		}, "its own"},
		"the text was durable before": {true, func(s *session) { s.batch(finalOf("c", "early")); s.batch(settled("c")) }, "early"},
		"the text was given up": {true, func(s *session) {
			lost := finalOf("c", "lost")
			lost.Abandoned = true
			s.batch(sessions.Event{Kind: sessions.EventText, Command: "c", Item: "j", Text: "what stands", Final: true}, lost, settled("c"))
		}, "what stands"},
		"in pieces alone": {true, func(s *session) {
			piece := finalOf("c", "piece")
			piece.Final = false
			s.batch(piece, settled("c"))
		}, "piece"},
		"it asks first": {true, func(s *session) { s.asks("h") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t).idle()
			over := func() {}
			defer func() { over() }()
			var told sessions.SendResult
			err := within(t, func() (err error) { told, err = s.trySend("c", waits); return err }, func() {
				s.submitted("c")
				s.accepts("c")
				if !c.looks {
					over = s.r.unread()
				}
				c.ends(s)
			})
			over()
			if err != nil {
				t.Fatal(err)
			}
			if told.Text != c.text {
				t.Errorf("told %q", told.Text)
			}
			if seen := s.send("c"); !reflect.DeepEqual(told, seen) {
				t.Errorf("told\n%+v\nand seen\n%+v", told, seen)
			}
		})
	}
}

// TestNothingIsToldOfWhatIsUndone: the end of a command that its transaction did not keep is nobody's to know.
func TestNothingIsToldOfWhatIsUndone(t *testing.T) {
	s := newRig(t).idle()
	s.send("c")
	w := s.r.hub.add([]string{s.id}, false)
	defer w.remove()
	s.r.hub.waitFor(w, "c")
	boom := errors.New("boom")
	if err := s.r.commit(t.Context(), func(tx *journal.Tx, c *changes) error {
		if err := tx.Recall(s.id); err != nil {
			return err
		}
		a := applier{h: s.r.Host, session: s.id, generation: s.generation}
		a.add(finalOf("c", "never so"))
		if err := a.event(tx, c, settled("c")); err != nil {
			return err
		}
		return errors.Join(a.flush(tx, c), boom)
	}); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if end := s.r.hub.toldOf(w); end != nil || len(w.ch) > 0 {
		t.Errorf("told of %+v", end)
	}
	s.wants(sessions.SessionRunning, "c", "submitted")
}

// submitted returns once a command is durable, and its sender listens.
func (s *session) submitted(command string) {
	s.r.t.Helper()
	w := s.r.hub.add([]string{s.id}, true)
	defer w.remove()
	for {
		found := false
		if err := s.r.j.View(s.r.t.Context(), func(tx *journal.Tx) (err error) {
			_, found, err = tx.FindCommand(s.id, command)
			return err
		}); err != nil {
			s.r.t.Fatal(err)
		}
		if found {
			return
		}
		select {
		case <-w.ch:
		case <-s.r.t.Context().Done():
			s.r.t.Fatal("it was not sent")
		}
	}
}
