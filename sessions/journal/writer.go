package journal

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// groupTime bounds how long a group goes on taking updates before it commits, so that slow ones do not hold up the
// answers of all.
const groupTime = 20 * time.Millisecond

// Update runs fn on the writer's goroutine inside a transaction that it shares with whoever waits at the same time, and
// returns nil only when the commit that holds it is durable. fn's error, or its panic (which comes back as an error
// that wraps a *PanicError), undoes what this fn did and nothing else. A caller whose ctx ends before fn began is let
// go, and fn never runs; afterwards the outcome is waited for. fn must not call the journal. It may run twice, when an
// update beside it had to be undone: what it leaves outside of tx it sets anew each time.
func (j *Journal) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	k := &job{fn: fn, done: make(chan struct{})}
	if !j.queue.put(k) {
		return ErrClosed
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		if k.claimed.CompareAndSwap(false, true) {
			return context.Cause(ctx)
		}
		<-k.done
	}
	return k.err
}

// write owns the writing connection until the journal is closed.
func (j *Journal) write() {
	defer close(j.stopped)
	defer j.queue.close()
	for {
		select {
		case <-j.stop:
			return
		case f := <-j.control:
			f()
		case <-j.queue.ready:
			if k := j.queue.take(); k != nil {
				j.group(k)
				if j.refusal() == nil {
					j.file.log.makeRoom(j.o.checkpoint)
				}
			}
			j.queue.again()
		}
	}
}

// group runs first and whatever else waits as one transaction.
func (j *Journal) group(first *job) {
	group := []*job{first}
	defer func() {
		for _, k := range group {
			close(k.done)
		}
	}()
	if first.err = j.refusal(); first.err != nil {
		return
	}
	if err := j.writer.run("BEGIN IMMEDIATE"); err != nil {
		first.err = j.writeFailed("begin", err)
		return
	}
	began := time.Now()
	limit := j.o.MaxGroup
	if j.damage() {
		limit = 1 // SQLite undoes a whole transaction in which a page could not be read: let that be nobody else's
	}
	doing := "update"
	undo, broken := j.run(first, false)
	wrote := first.wrote
	for broken == nil && !undo && len(group) < limit && time.Since(began) < groupTime {
		k := j.next()
		if k == nil {
			break
		}
		group = append(group, k)
		k.behind = wrote
		undo, broken = j.run(k, false)
		wrote = wrote || k.wrote
	}
	if broken == nil && !undo {
		undo, broken = j.writeBatch()
	}
	if broken == nil && undo {
		broken = j.runAgain(group)
	}
	changed := changes(group)
	if broken == nil && len(changed) > 0 && j.o.Changing != nil {
		defer j.o.Changing()()
	}
	if broken == nil {
		doing = "commit"
		broken = j.writer.run("COMMIT")
	}
	if broken == nil {
		broken = j.file.syncLost() // whoever's it was: nothing is acknowledged behind it
	}
	if broken != nil {
		j.forget()
		if !j.writer.db.GetAutocommit() {
			// An error here leaves the transaction to the closing of the connection; it is not committed either way.
			_ = j.writer.run("ROLLBACK")
		}
		err := j.writeFailed(doing, broken)
		mine := err
		if doing == "commit" && j.refusal() != nil {
			// The log may hold it or not: known only once it is opened again.
			mine = sessions.AsError(err).With("recorded", "unknown")
		}
		for _, k := range group {
			switch {
			case k.err == nil:
				k.err = mine
			case k.refutable(): // it recorded nothing, and what refused it is not so
				k.err = err
			}
		}
		return
	}
	if len(changed) > 0 && j.o.Committed != nil {
		j.o.Committed(changed)
	}
	j.trimLog()
}

// writeBatch brings what the updates left for the end into the tables. undo tells that some of it was refused, which is
// then found by repeating them one by one.
func (j *Journal) writeBatch() (undo bool, broken error) {
	err := j.batch.write(j.writer)
	if err != nil && (j.writer.db.GetAutocommit() || stops(err)) {
		return false, err
	}
	return err != nil, nil
}

// forget drops what the writer knows of a transaction that is undone.
func (j *Journal) forget() {
	j.known.forgetAll()
	j.batch.clear()
}

// next is an update that waits now, or nil. Callers that the last commit woke get one turn to come back first: with 16
// of them a group holds 12 instead of 8.
func (j *Journal) next() *job {
	k := j.queue.take()
	if k == nil {
		runtime.Gosched()
		k = j.queue.take()
	}
	return k
}

// changes returns the sessions that a group changed, sorted, each once.
func changes(group []*job) []string {
	var ids []string
	for _, k := range group {
		if k.err == nil {
			ids = append(ids, k.touched...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// run lets one update do its work, and when it is alone brings all of it into the tables. undo tells that it failed and has
// left some of it in the transaction, or that rows were refused which may be another's; broken is the error by which the
// whole transaction is lost: SQLite undoes it by itself after some faults of the disk.
func (j *Journal) run(k *job, alone bool) (undo bool, broken error) {
	if now := j.o.Now().UTC(); now.After(j.last) {
		j.last = now
	}
	tx := &Tx{j: j, c: j.writer, writable: true, now: j.last}
	tx.alone = alone
	k.faulty, k.wrote = false, false
	k.err = call(k.fn, tx)
	if alone && k.err == nil {
		k.err = tx.writeBatch()
	}
	if k.err == nil {
		k.err = tx.lost
	}
	tx.c = nil // a Tx that outlives its function must not reach the next one's transaction
	switch {
	case j.writer.db.GetAutocommit():
		if tx.fault == nil {
			tx.fault = errors.New("the transaction ended under an update")
		}
		return false, tx.fault
	case tx.fault != nil && stops(tx.fault):
		return false, tx.fault
	case tx.lost != nil && !alone:
		k.err = nil // until the update whose rows they are is found
		return true, nil
	case tx.fault != nil: // also when fn kept it to itself
		k.err, k.faulty = refuse(j.path, "update", tx.fault), true
		j.noteDamage(k.err)
	}
	if k.touched = nil; k.err == nil {
		k.touched, k.wrote = tx.touched, tx.wrote
	}
	return k.err != nil && tx.wrote, nil
}

// refutable tells whether an update was refused, and that may be for what those before it had done in the same transaction.
func (k *job) refutable() bool { return k.err != nil && k.behind && !k.faulty }

// runAgain undoes the transaction, in which one update failed after it had written, and repeats the updates that had
// not failed, or may have failed by what those before them had done, each with a savepoint of its own now. Savepoints for
// all from the start would have SQLite copy every page before each update that changes it: a tenth of the writer's time,
// where next to no update fails so late.
func (j *Journal) runAgain(group []*job) error {
	w := j.writer
	j.forget()
	if err := w.run("ROLLBACK"); err != nil {
		return err
	}
	if err := w.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	wrote := false
	for _, k := range group {
		if k.err != nil && !k.refutable() {
			continue
		}
		if err := w.run("SAVEPOINT one"); err != nil {
			return err
		}
		k.behind = wrote
		undo, broken := j.run(k, true)
		wrote = wrote || k.wrote
		if broken == nil && undo {
			j.forget()
			broken = w.run("ROLLBACK TO one")
		}
		if broken == nil {
			broken = w.run("RELEASE one")
		}
		if broken != nil {
			return broken
		}
	}
	return nil
}

func call(fn func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = sessions.Errorf(sessions.CodeInternal, "a journal update was undone: %w", &PanicError{v, debug.Stack()})
		}
	}()
	return fn(tx)
}

// refusal is the answer to an update while the journal takes none.
func (j *Journal) refusal() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// damage tells whether some of the file is known to be unreadable.
func (j *Journal) damage() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.degraded != nil
}

// writeFailed classes a failure of the writer and stops the journal when the file cannot be trusted any more.
func (j *Journal) writeFailed(doing string, err error) error {
	err = j.file.because(err)
	stop := stops(err) || j.file.syncLost() != nil
	err = refuse(j.path, doing, err)
	if !stop {
		j.noteDamage(err)
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed == nil {
		j.failed = sessions.Errorf(sessions.AsError(err).Code, "journal %s takes no changes since an earlier fault: %w", j.path, err).
			Do("the host opens it again and verifies it; `baton journal check` shows what is so")
	}
	return err
}
