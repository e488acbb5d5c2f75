package host

import (
	"os"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// away takes the journal's file from its place, as trouble that begins and ends at a test's word.
func (r *rig) away() (back func()) {
	r.t.Helper()
	path := r.j.Path()
	if err := os.Rename(path, path+".away"); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		if err := os.Rename(path+".away", path); err != nil {
			r.t.Fatal(err)
		}
	}
}

// I01: what cannot be recorded is not done, and the next call after the trouble is as any other.
func TestI01_RefusedInTrouble(t *testing.T) {
	r := newRig(t)
	s, running := r.idle(), r.runs()
	request := running.asks("h", once...)
	before := s.given()
	back := r.away()
	calls := map[string]func() error{
		"create": func() error { _, err := r.Create(t.Context(), r.who, r.args()); return err },
		"send":   func() error { _, err := s.trySend("x"); return err },
		"cancel": func() error {
			_, err := r.Cancel(t.Context(), r.who, sessions.CancelArgs{SessionID: running.id})
			return err
		},
		"respond": func() error {
			_, err := r.Respond(t.Context(), r.who, sessions.RespondArgs{SessionID: running.id, RequestID: request, Decision: "approve"})
			return err
		},
	}
	for name, do := range calls {
		err := do()
		refused(t, err, sessions.CodeStorageFailed, "put it back")
		if e := sessions.AsError(err); e.Action == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.given(); got != before {
		t.Errorf("given %q", got)
	}
	if len(r.launches) > 2 {
		t.Errorf("%d launches wait", len(r.launches))
	}
	back()
	for _, name := range []string{"create", "send"} {
		if err := calls[name](); err != nil {
			t.Errorf("%s after the trouble: %v", name, err)
		}
	}
	s.wants(sessions.SessionRunning, "x", "submitted")
}

// A send that was refused because its commit failed, and that turns out to be recorded, ends as not delivered: what its
// caller was told is true.
func TestI02_DoubtfulSendIsNotDelivered(t *testing.T) {
	for name, state := range map[string]string{"submitted": "", "queued": "queue"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := r.idle()
			if state == "queue" {
				s = r.runs()
			}
			s.send("x", busy(state)) // recorded, and its caller is told otherwise
			r.doubted(s.id, "x", sessions.Errorf(sessions.CodeStorageFailed, "sync failed").With("recorded", "unknown"))
			if !r.inDoubt(s.id, "x") {
				t.Fatal("nobody doubts it")
			}
			r.mended()
			if r.inDoubt(s.id, "x") {
				t.Error("the doubt stays")
			}
			c := s.command("x")
			if c.Outcome != "not_delivered" || !c.State.Terminal() || !strings.Contains(c.Reason, "nothing was sent") {
				t.Errorf("%+v", c.Command)
			}
			for _, in := range s.inputs() {
				if in.Ref == "x" && in.Kind == string(bridge.InPrompt) && in.State != journal.InputRefused {
					t.Errorf("its input is %s", in.State)
				}
			}
			if _, err := s.trySend("x", busy(state)); err != nil {
				t.Errorf("the same again: %v", err)
			}
			if n := len(s.events(sessions.EventCommandSettled)); n != 1 {
				t.Errorf("%d ends", n)
			}
		})
	}
	r := newRig(t)
	s := r.idle()
	for _, err := range []error{nil, sessions.Errorf(sessions.CodeStorageFull, "full"), sessions.Errorf(sessions.CodeBusy, "busy").With("recorded", "unknown")} {
		if r.doubted(s.id, "y", err); r.inDoubt(s.id, "y") {
			t.Errorf("%v is no doubt", err)
		}
	}
	r.doubted(s.id, "never recorded", sessions.Errorf(sessions.CodeStorageFailed, "sync failed").With("recorded", "unknown"))
	r.mended()
	if len(r.doubts) > 0 {
		t.Errorf("doubts left: %v", r.doubts)
	}
}

// A caller who asks again before the doubt is settled, and is told yes, gets its work done, once.
func TestI01_DoubtfulSendAskedAgain(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		r := newRig(t)
		s := r.idle()
		if recorded {
			s.send("x", busy(""))
		}
		r.doubted(s.id, "x", sessions.Errorf(sessions.CodeStorageFailed, "sync failed").With("recorded", "unknown"))
		if !r.inDoubt(s.id, "x") {
			t.Fatal("nobody doubts it")
		}
		s.send("x", busy(""))
		r.mended()
		if r.inDoubt(s.id, "x") || len(r.doubts) > 0 {
			t.Errorf("recorded %t: the doubt stays", recorded)
		}
		s.wants(sessions.SessionRunning, "x", "submitted")
		if n := len(s.events(sessions.EventCommandSettled)); n != 0 {
			t.Errorf("recorded %t: %d ends", recorded, n)
		}
	}
}

// A batch whose commit seemed to fail, and was recorded, is not recorded twice.
func TestI11_FramesOfAFailedCommitAreNotDoubled(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	s.text("c", "one")
	was := s.t.lastOut
	s.t.lastOut = was - 1 // as its tender would believe
	frame := bridge.Frame{Type: "out", Kind: bridge.OutEvent, N: was, Body: []byte(`{"kind":"text","command":"c","item":"i","text":"one"}`)}
	next := bridge.Frame{Type: "out", Kind: bridge.OutEvent, N: was + 1, Body: []byte(`{"kind":"text","command":"c","item":"i","text":"two"}`)}
	n := len(s.events(sessions.EventText))
	if err := s.t.take([]bridge.Frame{frame, next}); err != nil {
		t.Fatal(err)
	}
	if got := len(s.events(sessions.EventText)); got != n+1 || s.t.lastOut != was+1 {
		t.Errorf("%d texts more, last frame %d", got-n, s.t.lastOut)
	}
}

// The recovery is told to those who wait, once it is true.
func TestStorageTellsOfItsRecovery(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	back := r.away()
	recovery := r.disk.recovery()
	_, err := s.trySend("x")
	refused(t, err, sessions.CodeStorageFailed)
	select {
	case <-recovery:
		t.Fatal("told too early")
	default:
	}
	back()
	<-recovery // on its schedule: nobody calls
	if _, err := s.trySend("x"); err != nil {
		t.Error(err)
	}
}

// A host of a disk with no room for it looks after its reserve, and gives it up when nothing else helps.
func TestReserve(t *testing.T) {
	p := places(t)
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := keepReserve(p); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(reservePath(p))
		if err != nil || info.Size() != reserveBytes || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
	if err := os.Truncate(reservePath(p), 7); err != nil {
		t.Fatal(err)
	}
	if err := keepReserve(p); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(reservePath(p)); err != nil || info.Size() != reserveBytes {
		t.Errorf("after it was damaged: %v, %v", info, err)
	}
	if left, _ := os.ReadDir(p.State); len(left) != 3 { // logs, spill and the reserve
		t.Errorf("in the state directory: %v", left)
	}
}
