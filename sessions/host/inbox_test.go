package host

import (
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// inboxNow is what the inbox holds, by session.
func (r *rig) inboxNow(change ...func(*sessions.WaitArgs)) map[string]sessions.Waited {
	r.t.Helper()
	res, err := r.wait(append(change, now)...)
	if err != nil {
		r.t.Fatal(err)
	}
	got := map[string]sessions.Waited{}
	for _, w := range res.Sessions {
		got[w.Session.SessionID] = w
	}
	return got
}

func TestInboxForgetsTheDeleted(t *testing.T) {
	r := newRig(t)
	a, b := r.idle(), r.idle()
	seen := r.inboxNow()
	a.ends(sandbox.Confirmed)
	if _, err := r.Close(t.Context(), r.who, sessions.CloseArgs{SessionID: a.id, Delete: true, Key: "k"}); err != nil {
		t.Fatal(err)
	}
	if got := r.inboxNow(); len(got) != 1 || got[b.id].Cursor == "" {
		t.Errorf("after a deletion: %+v", got)
	}
	// Somebody else may have deleted it: what is left is acknowledged all the same.
	if got := r.inboxNow(after(a.id, seen[a.id].Cursor), after(b.id, seen[b.id].Cursor)); len(got) != 0 {
		t.Errorf("acknowledged beside a deleted one: %+v", got)
	}
	if got := r.inboxNow(); len(got) != 0 {
		t.Errorf("acknowledged before: %+v", got)
	}
	_, err := r.wait(after(sessions.NewID(), sessions.EncodeCursor(b.id, 1)), now)
	refused(t, err, sessions.CodeCursorInvalid)
	none := sessions.NewID()
	_, err = r.wait(after(none, sessions.EncodeCursor(none, 1)), now)
	refused(t, err, sessions.CodeNotFound, none)
}

// A deletion is of the generation whose end it waited for: one that began since has processes.
func TestDeletionOfAnEarlierGeneration(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	s.ends(sandbox.Confirmed)
	refused(t, r.forgetSession(t.Context(), r.who, s.id, sessions.NewID()), sessions.CodeBusy, s.id)
	if err := r.forgetSession(t.Context(), r.who, s.id, s.generation); err != nil {
		t.Error(err)
	}
}

// A disk that takes no acknowledgement does not keep the inbox shut.
func TestInboxOnADiskInTrouble(t *testing.T) {
	r := newRig(t)
	a, b := r.idle(), r.idle()
	got := r.inboxNow()
	path := r.j.Path()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if got := r.inboxNow(after(a.id, got[a.id].Cursor)); len(got) != 1 || got[b.id].Cursor == "" {
		t.Errorf("acknowledged for the call: %+v", got)
	}
	_, err := r.wait(after(a.id, sessions.EncodeCursor(a.id, 999)), now)
	refused(t, err, sessions.CodeCursorInvalid)
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if got = r.inboxNow(); len(got) != 2 {
		t.Errorf("delivered again: %+v", got)
	}
}

// Many open waits hold nothing that another call needs, and each is woken by its own session.
func TestManyWaits(t *testing.T) {
	r := newRig(t)
	const n = 40
	woken := make(chan string, n)
	var all []*session
	var wg sync.WaitGroup
	for range n {
		s := r.starting()
		all = append(all, s)
		wg.Go(func() {
			res, err := r.Wait(t.Context(), r.who, sessions.WaitArgs{SessionIDs: []string{s.id}, WaitSeconds: ptr(50)})
			if err != nil || res.TimedOut || len(res.Sessions) != 1 {
				t.Errorf("%+v, %v", res, err)
				woken <- ""
				return
			}
			woken <- res.Sessions[0].Session.SessionID
		})
	}
	for _, s := range all {
		r.waiting(s.id)
	}
	// As many can read at once as the journal has readers: the waits have none.
	var together sync.WaitGroup
	together.Add(4)
	for range 4 {
		wg.Go(func() {
			if err := r.j.View(t.Context(), func(*journal.Tx) error { together.Done(); together.Wait(); return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	if list, err := r.List(t.Context(), r.who, sessions.ListArgs{}); err != nil || len(list.Sessions) != n {
		t.Errorf("%d sessions, %v", len(list.Sessions), err)
	}
	slices.Reverse(all)
	for _, s := range all {
		s.opens()
		if id := <-woken; id != s.id {
			t.Errorf("the news of %s woke the wait for %q", s.id, id)
		}
	}
	wg.Wait()
}
