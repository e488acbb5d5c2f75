package journal

import (
	"context"
	"errors"

	"github.com/ncruces/go-sqlite3"
)

// trimLog brings a long log into the database, most of it beside the readers and the rest at a moment without them. The
// log begins anew only when nobody reads from it, and where several read there never is such a moment by itself: without
// one it grew for as long as they did.
func (j *Journal) trimLog() {
	if j.writer.walPages < j.nextTrim {
		return
	}
	j.nextTrim = j.writer.walPages + j.o.checkpoint/4 // for when it does not work out
	if err := j.bringIn(sqlite3.CHECKPOINT_PASSIVE); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.o.patience)
	defer cancel()
	resume, quiet := j.hush(ctx)
	defer resume()
	if err := j.bringIn(sqlite3.CHECKPOINT_PASSIVE); err == nil && quiet {
		j.nextTrim = j.o.checkpoint
	}
}

// Trim brings the whole log into the database and gives its room back to the disk. It waits for those who read, until ctx
// ends; new readers wait for it.
func (j *Journal) Trim(ctx context.Context) error {
	return j.onWriter(ctx, func() error {
		if err := j.refusal(); err != nil {
			return err
		}
		resume, quiet := j.hush(ctx)
		defer resume()
		if !quiet {
			return context.Cause(ctx)
		}
		if err := j.bringIn(sqlite3.CHECKPOINT_TRUNCATE); err != nil {
			return err
		}
		j.writer.walPages, j.nextTrim = 0, j.o.checkpoint
		return nil
	})
}

// bringIn copies what it can of the log into the database.
func (j *Journal) bringIn(mode sqlite3.CheckpointMode) error {
	_, _, err := j.writer.db.WALCheckpoint("main", mode)
	if err == nil {
		err = j.file.syncLost()
	}
	if err != nil && !errors.Is(err, sqlite3.BUSY) {
		err = j.writeFailed("checkpoint", err)
	}
	return refuse(j.path, "checkpoint", err)
}

// hush holds new readers back until resume is called, and waits for those at work until ctx ends; quiet tells that none
// is left. The writer alone calls it.
func (j *Journal) hush(ctx context.Context) (resume func(), quiet bool) {
	gate := make(chan struct{})
	j.rest.Lock()
	j.gate = gate
	j.rest.Unlock()
	held := make([]*conn, 0, j.o.Readers)
	resume = func() {
		j.rest.Lock()
		defer j.rest.Unlock()
		close(gate)
		j.gate = nil
		for len(j.rested) > 0 {
			held = append(held, <-j.rested)
		}
		for _, c := range held {
			j.readers <- c
		}
	}
	for len(held) < j.o.Readers {
		select {
		case c := <-j.readers:
			held = append(held, c)
		case c := <-j.rested:
			held = append(held, c)
		case <-ctx.Done():
			return resume, false
		}
	}
	return resume, true
}

// reader takes a connection to read with, which giveBack returns.
func (j *Journal) reader(ctx context.Context) (*conn, error) {
	select {
	case <-j.stop:
		return nil, ErrClosed
	default:
	}
	j.rest.Lock()
	gate := j.gate
	j.rest.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-j.stop:
			return nil, ErrClosed
		}
	}
	select {
	case c := <-j.readers:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-j.stop:
		return nil, ErrClosed
	}
}

// giveBack gives a reader back: to the writer, while it waits for all of them.
func (j *Journal) giveBack(c *conn) {
	j.rest.Lock()
	defer j.rest.Unlock()
	if j.gate != nil {
		j.rested <- c
		return
	}
	j.readers <- c
}

// LogSize is the room that the log takes on the disk, of the Size of the journal.
func (j *Journal) LogSize() (int64, error) {
	n, _, err := j.o.disk.size(j.path + "-wal")
	return n, refuse(j.path, "size", err)
}
