package journal

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

// readOn reads without an end, one reader taking over from the other, until stop is called.
func readOn(t *testing.T, j *Journal, readers int, session string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for ctx.Err() == nil {
				view(t, j, func(tx *Tx) error {
					_, err := tx.ReadEvents(session, 0, 20, nil, 1<<20)
					return err
				})
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// The log of a journal that is always read from ends, too.
func TestLogIsBoundedUnderReaders(t *testing.T) {
	const limit = 100
	j := checked(t, openAt(t, filepath.Join(t.TempDir(), "journal.db"), Options{checkpoint: limit, patience: time.Minute})) // a read may wait long for its processor
	s := newSession(t, j)
	stop := readOn(t, j, 6, s.ID)
	defer stop()
	longest := 0
	for range 200 {
		if err := addEvents(j, s.ID, 20); err != nil {
			t.Fatal(err)
		}
		if err := j.Update(t.Context(), func(*Tx) error { longest = max(longest, j.writer.walPages); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if longest > 2*limit {
		t.Errorf("the log had %d pages, where it is brought in at %d", longest, limit)
	}
}

// One who reads for long holds the log back, and nobody else: changes and other readers go on.
func TestLogHeldBackByOneReader(t *testing.T) {
	const limit = 40
	path := filepath.Join(t.TempDir(), "journal.db")
	j := checked(t, openAt(t, path, Options{checkpoint: limit}))
	s := newSession(t, j)
	view(t, j, func(tx *Tx) error {
		if _, err := tx.GetSession("", s.ID); err != nil {
			return err
		}
		for range 30 {
			if err := addEvents(j, s.ID, 20); err != nil {
				t.Fatal(err)
			}
			view(t, j, func(tx *Tx) error { _, err := tx.GetSession("", s.ID); return err })
		}
		return nil
	})
	long, err := j.LogSize()
	if err != nil || long < 2*limit*4096 {
		t.Fatalf("the log has %d bytes, %v: nothing was held back", long, err)
	}
	for range 20 {
		if err := addEvents(j, s.ID, 20); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Update(t.Context(), func(*Tx) error {
		if j.writer.walPages > 2*limit {
			t.Errorf("the log has %d pages after the reader is gone", j.writer.walPages)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Trim gives the room of the log back, whoever reads; those who came meanwhile read afterwards.
func TestTrim(t *testing.T) {
	j := checked(t, openAt(t, filepath.Join(t.TempDir(), "journal.db"), Options{}))
	s := newSession(t, j)
	for range 20 {
		if err := addEvents(j, s.ID, 20); err != nil {
			t.Fatal(err)
		}
	}
	stop := readOn(t, j, 6, s.ID)
	defer stop()
	for range 5 {
		if err := j.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := j.LogSize(); err != nil || n != 0 {
			t.Errorf("the log has %d bytes, %v", n, err)
		}
		if err := addEvents(j, s.ID, 20); err != nil {
			t.Fatal(err)
		}
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		view(t, j, func(tx *Tx) error { close(entered); <-leave; return nil })
	})
	<-entered
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := j.Trim(ctx); !errors.Is(err, enough) {
		t.Errorf("beside a reader that stays: %v", err)
	}
	view(t, j, func(tx *Tx) error { _, err := tx.GetSession("", s.ID); return err })
	close(leave)
	wg.Wait()
	if err := j.Trim(t.Context()); err != nil {
		t.Error(err)
	}
}

// longLog is a journal with a session of 400 events, all of it still in its log.
func longLog(t *testing.T) (*fakeDisk, *Journal, Session) {
	t.Helper()
	d := newFakeDisk(t, 1)
	o := d.options()
	o.checkpoint = 1 << 20
	j := checked(t, openAt(t, cutPath, o))
	s := newSession(t, j)
	for range 40 {
		if err := addEvents(j, s.ID, 10); err != nil {
			t.Fatal(err)
		}
	}
	return d, j, s
}

// On a full disk the log is brought in where the database need not grow; where it must, nothing is lost.
func TestTrimOnAFullDisk(t *testing.T) {
	d, j, s := longLog(t)
	d.failing(func(op, _ string) error {
		if op == "write" {
			return sqlite3.FULL
		}
		return nil
	})
	refused(t, j.Trim(t.Context()), sessions.CodeStorageFull, cutPath, "space")
	noLoss(t, d, s.ID, 400)
	d.failing(nil)
	if err := j.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	noLoss(t, d, s.ID, 400)
	if err := addEvents(j, s.ID, 1); err != nil {
		t.Fatal(err)
	}
}
