package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// hold keeps the writer inside an update until the result is called; what is begun meanwhile lands in its group.
func hold(t *testing.T, j *Journal) (release func()) {
	t.Helper()
	end := holdUntil(j)
	return sync.OnceFunc(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// holdUntil is hold for a group that may fail.
func holdUntil(j *Journal) (release func() error) {
	inside, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	entered := sync.OnceFunc(func() { close(inside) })
	go func() {
		ended <- j.Update(context.Background(), func(*Tx) error {
			entered()
			<-free
			return nil
		})
	}()
	<-inside
	return func() error {
		close(free)
		return <-ended
	}
}

func putMeta(tx *Tx, name string) error {
	_, err := tx.exec("INSERT INTO meta VALUES (?, '')", name)
	return err
}

func hasMeta(t *testing.T, j *Journal, name string) bool {
	t.Helper()
	n := int64(0)
	view(t, j, func(tx *Tx) (err error) {
		n, err = tx.number("SELECT count(*) FROM meta WHERE name = ?", name)
		return err
	})
	return n > 0
}

func TestGroupStandsOrFallsOneByOne(t *testing.T) {
	var commits atomic.Int64
	j := open(t, Options{Committed: func([]string) { commits.Add(1) }})
	s := newSession(t, j)
	before := commits.Load()
	boom := errors.New("boom")
	release := hold(t, j)
	results := make([]error, 40)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			results[i] = j.Update(context.Background(), func(tx *Tx) error {
				tx.Touch(s.ID)
				if err := putMeta(tx, fmt.Sprint("k", i)); err != nil {
					return err
				}
				switch i % 4 {
				case 1:
					return boom
				case 2:
					panic(i)
				case 3:
					// An error that fn keeps to itself, of its own statement and not of the disk, undoes nothing else.
					if _, err := tx.exec("INSERT INTO meta VALUES ('schema', '')"); err == nil {
						t.Error("a second row of one key was taken")
					}
				}
				return nil
			})
		})
	}
	queued(j, len(results))
	release()
	wg.Wait()
	for i, err := range results {
		var p *PanicError
		switch i % 4 {
		case 1:
			if !errors.Is(err, boom) {
				t.Errorf("update %d: %v, want its own error", i, err)
			}
		case 2:
			if !errors.As(err, &p) || p.Value != i || !strings.Contains(string(p.Stack), "writer_test.go") || sessions.CodeOf(err) != sessions.CodeInternal {
				t.Errorf("update %d: %v, want its panic", i, err)
			}
		default:
			if err != nil {
				t.Errorf("update %d: %v", i, err)
			}
		}
		if kept, want := hasMeta(t, j, fmt.Sprint("k", i)), i%4 == 0 || i%4 == 3; kept != want {
			t.Errorf("update %d is kept: %v, want %v", i, kept, want)
		}
	}
	if n := commits.Load() - before; n > 20 {
		t.Errorf("%d commits for 40 updates that waited together", n)
	}
}

// What refuses an update must be so: not what another one of its group did, when that comes to nothing.
func TestRefusalByWhatWasUndone(t *testing.T) {
	taken := errors.New("another was first")
	claim := func(fail error) func(*Tx) error {
		return func(tx *Tx) error {
			if n, err := tx.number("SELECT count(*) FROM meta WHERE name = 'seat'"); err != nil || n > 0 {
				return errors.Join(err, taken)
			}
			return errors.Join(putMeta(tx, "seat"), fail)
		}
	}
	run := func(t *testing.T, j *Journal, fns ...func(*Tx) error) []error {
		release := holdUntil(j)
		results := make([]error, len(fns))
		var wg sync.WaitGroup
		for i, fn := range fns {
			wg.Go(func() { results[i] = j.Update(context.Background(), fn) })
			queued(j, i+1)
		}
		_ = release() // it shares what becomes of the others
		wg.Wait()
		return results
	}

	t.Run("a commit that fails", func(t *testing.T) {
		d := newFakeDisk(t, 1)
		j := openFake(t, d)
		// Both are in the transaction, the second is refused for the first, and then the disk takes neither.
		full := func(tx *Tx) error {
			err := claim(nil)(tx)
			d.mu.Lock()
			defer d.mu.Unlock()
			d.fail = func(op, _ string) error {
				if op == "write" {
					return syscall.ENOSPC
				}
				return nil
			}
			return err
		}
		for i, err := range run(t, j, full, claim(nil)) {
			if errors.Is(err, taken) {
				t.Errorf("update %d was told of another that is not there", i)
			}
			refused(t, err, sessions.CodeStorageFull)
		}
		d.mu.Lock()
		d.fail = nil
		d.mu.Unlock()
		if hasMeta(t, j, "seat") {
			t.Error("what was refused is there")
		}
		update(t, j, claim(nil))
	})
	t.Run("a row that is refused later", func(t *testing.T) {
		j := open(t, Options{})
		s := newSession(t, j)
		used := func() *Command {
			return &Command{Command: sessions.Command{CommandID: "used", Session: s.ID}}
		}
		update(t, j, func(tx *Tx) error { return tx.InsertCommand(used()) })
		first := func(tx *Tx) error { return errors.Join(claim(nil)(tx), tx.InsertCommand(used())) }
		errs := run(t, j, first, claim(nil), claim(nil))
		refused(t, errs[0], sessions.CodeKeyConflict)
		if errs[1] != nil || !errors.Is(errs[2], taken) || !hasMeta(t, j, "seat") {
			t.Errorf("%v, want that the second has it and the third has not", errs[1:])
		}
	})
}

func TestUpdateWhoseCallerLeft(t *testing.T) {
	j := open(t, Options{})
	release := hold(t, j)
	defer release()
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("gone")
	left := make(chan error, 1)
	go func() {
		left <- j.Update(ctx, func(*Tx) error {
			t.Error("it ran although its caller had left")
			return nil
		})
	}()
	cancel(gone)
	if err := <-left; !errors.Is(err, gone) {
		t.Errorf("got %v, want the cause", err)
	}
	release()

	// Once it began, the outcome is waited for.
	ctx, cancel = context.WithCancelCause(context.Background())
	err := j.Update(ctx, func(tx *Tx) error {
		cancel(gone)
		return putMeta(tx, "k")
	})
	if err != nil || !hasMeta(t, j, "k") {
		t.Errorf("got %v, want the outcome", err)
	}
}

func TestTxHasItsBounds(t *testing.T) {
	j := open(t, Options{})
	var kept *Tx
	update(t, j, func(tx *Tx) error { kept = tx; return nil })
	if err := putMeta(kept, "late"); sessions.CodeOf(err) != sessions.CodeInternal {
		t.Errorf("use after the end: %v", err)
	}
	view(t, j, func(tx *Tx) error {
		kept = tx
		if err := putMeta(tx, "view"); sessions.CodeOf(err) != sessions.CodeInternal {
			t.Errorf("write in a view: %v", err)
		}
		return nil
	})
	if _, _, err := kept.FindSession("x"); sessions.CodeOf(err) != sessions.CodeInternal {
		t.Errorf("use after the end of a view: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err := j.View(ctx, func(tx *Tx) error {
		cancel()
		_, _, err := tx.FindSession("x")
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("view of a caller that left: %v", err)
	}
	view(t, j, func(tx *Tx) error { _, _, err := tx.FindSession("x"); return err })
}

func TestViewIsASnapshot(t *testing.T) {
	j := open(t, Options{})
	s := newSession(t, j)
	view(t, j, func(tx *Tx) error {
		first, _, err := tx.FindSession(s.ID)
		if err != nil {
			return err
		}
		update(t, j, func(tx *Tx) error {
			_, err := tx.AppendEvents(s.ID, []sessions.Event{{Kind: sessions.EventWarning}})
			return err
		})
		again, _, err := tx.FindSession(s.ID)
		if again.LastSeq != first.LastSeq {
			t.Errorf("the snapshot moved from %d to %d", first.LastSeq, again.LastSeq)
		}
		return err
	})
	view(t, j, func(tx *Tx) error {
		s, _, err := tx.FindSession(s.ID)
		if s.LastSeq != 1 {
			t.Errorf("the next view sees %d events", s.LastSeq)
		}
		return err
	})
}

func TestCommittedNamesWhatChanged(t *testing.T) {
	var got [][]string
	j := open(t, Options{Committed: func(ids []string) { got = append(got, ids) }})
	a, b := newSession(t, j), newSession(t, j)
	got = nil
	update(t, j, func(tx *Tx) error { _, _, err := tx.FindSession(a.ID); return err })
	_ = j.Update(t.Context(), func(tx *Tx) error { tx.Touch(a.ID); return errors.New("undone") })
	if len(got) != 0 {
		t.Errorf("a commit without changes named %v", got)
	}
	update(t, j, func(tx *Tx) error { tx.Touch(b.ID); tx.Touch(a.ID); tx.Touch(b.ID); return nil })
	if len(got) != 1 || len(got[0]) != 2 || got[0][0] > got[0][1] {
		t.Errorf("got %v, want the two sessions in order", got)
	}
}
