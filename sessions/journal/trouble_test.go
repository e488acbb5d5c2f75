package journal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

func openFake(t *testing.T, d *fakeDisk) *Journal {
	t.Helper()
	return checked(t, openAt(t, cutPath, d.options()))
}

// refused checks that err is a refusal of the table that tells a user what to do.
func refused(t *testing.T, err error, code sessions.Code, words ...string) {
	t.Helper()
	var e *sessions.Error
	if !errors.As(err, &e) {
		t.Errorf("got %v, want an error of code %s", err, code)
		return
	}
	if e.Code != code || e.Action == "" {
		t.Errorf("got %v (action %q), want code %s and an action", e, e.Action, code)
	}
	for _, w := range words {
		if !strings.Contains(e.Message+" "+e.Action, w) {
			t.Errorf("%q does not name %q", e.Error(), w)
		}
	}
}

func addEvents(j *Journal, id string, n int) error {
	return j.Update(context.Background(), func(tx *Tx) error {
		_, err := tx.AppendEvents(id, warnings(n))
		return err
	})
}

func warnings(n int) []sessions.Event {
	list := make([]sessions.Event, n)
	for i := range list {
		list[i] = sessions.Event{Kind: sessions.EventWarning, Text: "w"}
	}
	return list
}

func TestFullDiskRefusesAndRecovers(t *testing.T) {
	for name, cause := range map[string]error{"SQLite's word": sqlite3.FULL, "the system's": syscall.ENOSPC, "quota": syscall.EDQUOT} {
		t.Run(name, func(t *testing.T) {
			d := newFakeDisk(t, 1)
			j := openFake(t, d)
			s := newSession(t, j)
			var noRoom atomic.Bool
			noRoom.Store(true)
			d.failing(func(op, _ string) error {
				if op == "write" && noRoom.Load() {
					return cause
				}
				return nil
			})
			for range 3 {
				refused(t, addEvents(j, s.ID, 1), sessions.CodeStorageFull, cutPath, "space")
			}
			if err := j.Health(); err != nil {
				t.Errorf("a full disk is no damage, but health says %v", err)
			}
			noRoom.Store(false)
			if err := addEvents(j, s.ID, 1); err != nil {
				t.Errorf("with room again: %v", err)
			}
			view(t, j, func(tx *Tx) error {
				s, _, err := tx.FindSession(s.ID)
				if s.LastSeq != 1 {
					t.Errorf("%d events are there, one was acknowledged", s.LastSeq)
				}
				return err
			})
		})
	}
}

// A process is killed with a long log, and there is no room to bring it in. The next one reads everything, takes no
// changes, loses nothing to a power cut, and goes on when there is room.
func TestOpenOnAFullDisk(t *testing.T) {
	for name, cause := range map[string]error{"SQLite's word": sqlite3.FULL, "the system's": syscall.ENOSPC, "quota": syscall.EDQUOT} {
		t.Run(name, func(t *testing.T) { openOnAFullDisk(t, cause) })
	}
}

func openOnAFullDisk(t *testing.T, cause error) {
	d, _, s := longLog(t)
	d = d.crash(t)
	var noRoom atomic.Bool
	noRoom.Store(true)
	d.failing(func(op, name string) error {
		if op == "write" && noRoom.Load() {
			return cause
		}
		return nil
	})
	j := openFake(t, d)
	refused(t, j.Health(), sessions.CodeStorageFull, cutPath, "space")
	for range 2 {
		refused(t, addEvents(j, s.ID, 1), sessions.CodeStorageFull, "space")
		view(t, j, func(tx *Tx) error {
			p, err := tx.ReadEvents(s.ID, 0, 500, nil, 0)
			if len(p.Events) != 400 {
				t.Errorf("%d events can be read, want 400", len(p.Events))
			}
			return err
		})
		noLoss(t, d, s.ID, 400)
		refused(t, j.Reopen(t.Context()), sessions.CodeStorageFull, "space") // and is no worse for it
	}
	noRoom.Store(false)
	if err := j.Reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := addEvents(j, s.ID, 1); err != nil || j.Health() != nil {
		t.Errorf("with room again: %v, %v", err, j.Health())
	}
	noLoss(t, d, s.ID, 401)
}

// The same bytes once more, and no others: also of a file that is longer than what is copied at a time.
func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := (osDisk{}).rewrite(path); err != nil {
		t.Errorf("what is not there: %v", err)
	}
	want := bytes.Repeat([]byte("0123456789abcdef\n"), 40_000)
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (osDisk{}).rewrite(path); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes are there, %v", len(got), err)
	}
}

// failSyncs makes the next n syncs of a file fail.
func failSyncs(d *fakeDisk, suffix string, n int64) {
	left := atomic.Int64{}
	left.Store(n)
	d.failing(func(op, name string) error {
		if op == "sync" && strings.HasSuffix(name, suffix) && left.Add(-1) >= 0 {
			return sqlite3.IOERR_FSYNC
		}
		return nil
	})
}

// JO-04: an fsync fails once. The next one would succeed, and prove nothing.
func TestFailedSyncStopsUntilReopened(t *testing.T) {
	d := newFakeDisk(t, 1)
	j := openFake(t, d)
	s := newSession(t, j)
	failSyncs(d, "-wal", 1)
	err := addEvents(j, s.ID, 1)
	refused(t, err, sessions.CodeStorageFailed, cutPath, "sync "+cutPath+"-wal")
	if sessions.AsError(err).Details["recorded"] != "unknown" {
		t.Error("the error does not say that what happened to the update is unknown")
	}
	steps := d.steps
	for range 3 {
		refused(t, addEvents(j, s.ID, 1), sessions.CodeStorageFailed, cutPath, "earlier fault")
	}
	if d.steps != steps {
		t.Errorf("the disk was changed %d times after the failed sync", d.steps-steps)
	}
	refused(t, j.Health(), sessions.CodeStorageFailed)
	view(t, j, func(tx *Tx) error { // reading goes on, and sees nothing that is not durable
		s, _, err := tx.FindSession(s.ID)
		if s.LastSeq != 0 {
			t.Errorf("a reader sees event %d of a commit that failed", s.LastSeq)
		}
		return err
	})

	failSyncs(d, ".db", 5)
	if err := j.Reopen(t.Context()); err == nil {
		t.Error("reopening on a disk that still fails succeeded")
	}
	refused(t, addEvents(j, s.ID, 1), sessions.CodeStorageFailed, cutPath)

	failSyncs(d, "", 0)
	if err := j.Reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := j.Health(); err != nil {
		t.Errorf("health after reopening: %v", err)
	}
	if err := addEvents(j, s.ID, 2); err != nil {
		t.Fatal(err)
	}
	noLoss(t, d, s.ID, 2)
}

// noLoss cuts the power ten times and wants the session's last n events each time.
func noLoss(t *testing.T, d *fakeDisk, id string, n int64) {
	t.Helper()
	for range 10 {
		after := openFake(t, d.reboot())
		view(t, after, func(tx *Tx) error {
			s, found, err := tx.FindSession(id)
			if !found || s.LastSeq < n {
				t.Errorf("after a power cut %d events are there, %d were acknowledged", s.LastSeq, n)
			}
			return err
		})
		if problems, err := after.check(t.Context(), false); err != nil || len(problems) > 0 {
			t.Errorf("after a power cut: %v, %v", problems, err)
		}
	}
}

// A process dies after a sync that failed. The next one reads the lost frames from the page cache, as if they were
// durable; what it acknowledges behind them must survive nevertheless.
func TestOpenAfterFailedSyncAndCrash(t *testing.T) {
	d := newFakeDisk(t, 1)
	j := openFake(t, d)
	s := newSession(t, j)
	if err := addEvents(j, s.ID, 1); err != nil {
		t.Fatal(err)
	}
	failSyncs(d, "-wal", 1)
	refused(t, addEvents(j, s.ID, 1), sessions.CodeStorageFailed)
	d = d.crash(t)
	j = openFake(t, d)
	if err := addEvents(j, s.ID, 3); err != nil {
		t.Fatal(err)
	}
	noLoss(t, d, s.ID, 4)
}

// The same, where there is no room to bring the log in: what is read survives.
func TestOpenOnAFullDiskAfterFailedSync(t *testing.T) {
	d := newFakeDisk(t, 1)
	j := openFake(t, d)
	s := newSession(t, j)
	if err := addEvents(j, s.ID, 1); err != nil {
		t.Fatal(err)
	}
	failSyncs(d, "-wal", 1)
	refused(t, addEvents(j, s.ID, 7), sessions.CodeStorageFailed)
	d = d.crash(t)
	d.failing(func(op, _ string) error {
		if op == "write" {
			return sqlite3.FULL
		}
		return nil
	})
	j = openFake(t, d)
	view(t, j, func(tx *Tx) error {
		s, _, err := tx.FindSession(s.ID)
		noLoss(t, d, s.ID, s.LastSeq)
		return err
	})
}

// SQLite keeps the errors of its own checkpoints to itself; ours are seen.
func TestFailedSyncOfCheckpointStops(t *testing.T) {
	d := newFakeDisk(t, 1)
	j := openFake(t, d)
	s := newSession(t, j)
	failSyncs(d, ".db", 1)
	acked := int64(0)
	for j.Health() == nil {
		if err := addEvents(j, s.ID, 1); err != nil {
			break
		}
		if acked++; acked > 1000 {
			t.Fatal("no checkpoint in 1,000 commits")
		}
	}
	refused(t, addEvents(j, s.ID, 1), sessions.CodeStorageFailed, cutPath)
	if err := j.Reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := addEvents(j, s.ID, 1); err != nil {
		t.Fatal(err)
	}
	noLoss(t, d, s.ID, acked+1)
}

// A disk that fails at any one of its changes leaves a journal that refuses or works, and loses nothing.
func TestOneFailureAnywhere(t *testing.T) {
	stride := amount(301, 31, 1)
	for i, cause := range []error{sqlite3.IOERR_WRITE, sqlite3.FULL, syscall.EIO, syscall.EROFS} {
		for at := 1 + i; ; at += stride {
			d := mountFakeDisk(t.TempDir(), uint64(at))
			d.failing(func(string, string) error {
				if d.steps == at {
					return cause
				}
				return nil
			})
			done := oneFailure(t, d, at)
			d.unmount()
			if done {
				break
			}
		}
	}
}

// oneFailure tells whether the work ended before the failure came.
func oneFailure(t *testing.T, d *fakeDisk, at int) bool {
	ctx := t.Context()
	j, err := Open(ctx, cutPath, d.options())
	if err != nil {
		if code := sessions.CodeOf(err); code != sessions.CodeStorageFailed && code != sessions.CodeStorageFull {
			t.Errorf("step %d: open: %v", at, err)
		}
		if j, err = Open(ctx, cutPath, d.options()); err != nil {
			t.Errorf("step %d: second open: %v", at, err)
			return true
		}
	}
	defer func() { _ = j.Close() }()
	acked := int64(0)
	work := func(n int) {
		for range n {
			err := j.Update(ctx, func(tx *Tx) error {
				if _, found, err := tx.FindSession("s"); err != nil {
					return err
				} else if !found {
					if err := tx.InsertSession(&Session{ID: "s"}); err != nil {
						return err
					}
				}
				_, err := tx.AppendEvents("s", warnings(20))
				return err
			})
			if err == nil {
				acked += 20
			} else if code := sessions.CodeOf(err); code != sessions.CodeStorageFailed && code != sessions.CodeStorageFull {
				t.Errorf("step %d: update: %v", at, err)
			}
		}
	}
	work(12)
	done := d.steps < at
	if j.Health() != nil {
		if err := j.Reopen(ctx); err != nil {
			t.Errorf("step %d: reopen: %v", at, err)
			return true
		}
	}
	work(2)
	noLossOf(t, d, at, acked)
	return done
}

func noLossOf(t *testing.T, d *fakeDisk, at int, acked int64) {
	after := d.reboot()
	defer after.unmount()
	j, err := Open(t.Context(), cutPath, after.options())
	if err != nil {
		t.Errorf("step %d: open after a cut: %v", at, err)
		return
	}
	defer func() { _ = j.Close() }()
	problems, err := j.check(t.Context(), false)
	if err != nil || len(problems) > 0 {
		t.Errorf("step %d: %v, %v", at, problems, err)
	}
	view(t, j, func(tx *Tx) error {
		s, _, err := tx.FindSession("s")
		if s.LastSeq < acked {
			t.Errorf("step %d: %d events are left, %d were acknowledged", at, s.LastSeq, acked)
		}
		return err
	})
}
