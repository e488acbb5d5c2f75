package host

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// A session with nothing to do is closed once its time is over, with a word that says why; every other is left alone.
func TestRetire(t *testing.T) {
	const limit = 2 * time.Hour
	r := newRig(t)
	idle, running, asking, queued, fresh := r.idle(), r.idle(), r.idle(), r.runs(), r.idle()
	running.send("b")
	asking.asks("h", once...)
	queued.send("d", busy("queue"))
	queued.settles("c", sessions.CommandInterrupted) // which pauses the queue
	queued.wants(sessions.SessionIdle, "d", "queued")
	began := time.Now()

	next, err := r.retireIdle(began, limit)
	if err != nil || next > limit || next < limit-time.Minute {
		t.Errorf("the next look is after %s, %v", next, err)
	}
	idle.wants(sessions.SessionIdle)

	r.tx(func(tx *journal.Tx) error { // as if something happened an hour later; a later clock is the journal's business
		_, err := tx.UpdateSession(fresh.id, func(*journal.Session) {})
		return err
	})
	if _, err := r.retireIdle(fresh.view().UpdatedAt.Add(limit-time.Nanosecond), limit); err != nil {
		t.Error(err)
	}
	for _, s := range []*session{idle, fresh, asking, queued, running} {
		want := map[*session]sessions.SessionState{idle: sessions.SessionClosing, running: sessions.SessionRunning}[s]
		if want == "" {
			want = sessions.SessionIdle
		}
		s.wants(want)
	}
	if given := idle.given(); given != "open, close" {
		t.Errorf("its bridge was given %s", given)
	}
	if w := idle.events(sessions.EventWarning); len(w) != 1 || w[0].Code != sessions.CodeTimeout || !strings.Contains(w[0].Text, "2h0m0s (idle_close)") {
		t.Errorf("why: %+v", w)
	}
	idle.ends(sandbox.Confirmed)
	idle.wants(sessions.SessionClosed)

	// What it was closed for is over with the answer, and with the queue.
	if _, err := r.Resume(t.Context(), r.who, sessions.ResumeArgs{SessionID: queued.id, RunQueue: true, WaitSeconds: ptr(0)}); err != nil {
		t.Fatal(err)
	}
	queued.reports(bridge.InPrompt, "d", bridge.InputWritten, nil)
	queued.accepts("d")
	queued.settles("d", sessions.CommandCompleted)
	if _, err := r.retireIdle(queued.view().UpdatedAt.Add(limit), limit); err != nil {
		t.Error(err)
	}
	queued.wants(sessions.SessionClosing)
	asking.wants(sessions.SessionIdle)
}

// The goroutine looks when the next session may be due, and not in between.
func TestRetireInTime(t *testing.T) { synctest.Test(t, retireInTime) }

func retireInTime(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	began := time.Now()
	r.spawn(func() { r.retire(3 * time.Hour) })
	w := r.hub.add([]string{s.id}, true)
	defer w.remove()
	for s.view().State == sessions.SessionIdle {
		<-w.ch
	}
	if took := time.Since(began); took < 3*time.Hour || took > 3*time.Hour+time.Minute {
		t.Errorf("closed after %s", took)
	}
	s.ends(sandbox.Confirmed)
}
