package journal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

// Options of a journal; the zero value is right for a host.
type Options struct {
	// Changing is called by the writer before each commit of a change of sessions, before anybody can see it; what it
	// returns is called after it, whatever came of it, and after Committed, before the updates in it return. Neither may
	// block or call the journal.
	Changing func() (over func())
	// Committed is called by the writer after each commit, before the updates in it return, with the ids of the sessions
	// that changed, sorted. It must not block and must not call the journal.
	Committed func(sessions []string)
	// Impossible is told of every transition that a state machine refused. Tests panic in it.
	Impossible func(session string, e *sessions.ImpossibleError)
	// Migrating is called before a journal of an older Baton is brought to the newest schema: a long one takes a while.
	Migrating func(from, to string)
	Readers   int              // connections for View; 0: 4
	MaxGroup  int              // updates in one commit; 0: 256
	Now       func() time.Time // 0: time.Now

	disk       disk          // nil: the operating system's
	vfs        string        // "": the operating system's
	checkpoint int           // length of the log, in pages, at which it is brought into the database; 0: 4000
	patience   time.Duration // of the writer with the readers at work, before it goes on with a log that they hold back; 0: 50 ms
	steps      []migration   // nil: those of this build
}

// Journal is an open journal. Its methods are safe for concurrent use.
type Journal struct {
	path    string
	o       Options
	release func() error
	file    *witness
	queue   *queue
	control chan func() // run by the writer between two groups
	stop    chan struct{}
	stopped chan struct{} // the writer has ended
	readers chan *conn    // idle ones; nil stands for one that could not be opened
	closing sync.Once

	// of the writer goroutine
	writer   *conn
	nextTrim int       // log length at which the next checkpoint starts
	last     time.Time // of the last update: time does not run backwards in here
	known    known
	batch    batch

	rest   sync.Mutex
	gate   chan struct{} // closed when readers may go on; nil: they may
	rested chan *conn    // what they gave back meanwhile

	mu       sync.Mutex
	failed   error // why nothing is acknowledged any more
	degraded error // the first damage that a read met
}

// Path is the journal's file.
func (j *Journal) Path() string { return j.path }

// Health returns why the journal takes no changes (until Reopen), or else the first damage that a read met since it
// was opened, or nil.
func (j *Journal) Health() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return j.failed
	}
	return j.degraded
}

// View runs fn on a snapshot of what is committed. It waits for a free reader; ctx ends the wait and the reading.
func (j *Journal) View(ctx context.Context, fn func(*Tx) error) (err error) {
	c, err := j.reader(ctx)
	if err != nil {
		return err
	}
	defer j.giveBack(c)
	if c == nil {
		return j.Health()
	}
	c.db.SetInterrupt(ctx)
	defer func() {
		c.db.SetInterrupt(context.Background())
		if !c.db.GetAutocommit() {
			if e := c.run("ROLLBACK"); err == nil && e != nil {
				err = refuse(j.path, "end a read", e)
			}
		}
	}()
	if err := c.run("BEGIN"); err != nil {
		return j.readFailed(ctx, err)
	}
	tx := &Tx{j: j, c: c, now: j.o.Now().UTC()}
	defer func() { tx.c = nil }()
	err = fn(tx)
	if tx.fault != nil {
		return j.readFailed(ctx, tx.fault)
	}
	return err
}

func (j *Journal) readFailed(ctx context.Context, err error) error {
	if errors.Is(err, sqlite3.INTERRUPT) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = refuse(j.path, "read", err)
	j.noteDamage(err)
	return err
}

func (j *Journal) noteDamage(err error) {
	if !damaged(err) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.degraded == nil {
		j.degraded = err
	}
}

// Reopen closes every connection, opens the file again, writes what the log holds once more, and reads all of it. When
// that works, updates are taken again; else the journal stays as it was, refusing them, and Reopen says why.
func (j *Journal) Reopen(ctx context.Context) error {
	return j.onWriter(ctx, func() error { return j.reopen(ctx) })
}

// onWriter runs f on the writer's goroutine between two groups.
func (j *Journal) onWriter(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	select {
	case j.control <- func() { done <- f() }:
		return <-done
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-j.stop:
		return ErrClosed
	}
}

func (j *Journal) reopen(ctx context.Context) error {
	held := make([]*conn, 0, j.o.Readers)
	for len(held) < j.o.Readers {
		select {
		case c := <-j.readers:
			held = append(held, c)
		case <-ctx.Done():
			for _, c := range held {
				j.readers <- c
			}
			return context.Cause(ctx)
		}
	}
	for _, c := range held {
		_ = c.close() // a reader has nothing to lose
	}
	// Its closing checkpoint leaves out what failed to commit, when it works; when not, connect says what is wrong.
	_ = j.writer.close()
	j.writer = nil
	j.forget()
	j.file.renew()
	full, err := j.connect(ctx, true)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		for range j.o.Readers {
			j.readers <- nil
		}
		j.failed = opening(j.path, j.file.because(err))
		return j.failed
	}
	j.failed, j.degraded = full, nil
	return full
}

// Close waits for the updates and views under way, refuses new ones with ErrClosed, and brings the log into the
// database.
func (j *Journal) Close() error {
	var errs []error
	j.closing.Do(func() {
		close(j.stop)
		<-j.stopped
		for range j.o.Readers {
			errs = append(errs, (<-j.readers).close())
		}
		errs = append(errs, refuse(j.path, "close", j.file.because(j.writer.close())), j.release())
		j.file.forget()
	})
	return errors.Join(errs...)
}
