package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

// Open opens the journal at path, and makes it when it is not there. The directory is made too (0700); an existing one
// must be the user's and not writable by others.
func Open(ctx context.Context, path string, o Options) (*Journal, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.MaxGroup <= 0 {
		o.MaxGroup = 256
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.checkpoint <= 0 {
		o.checkpoint = 4000
	}
	if o.patience <= 0 {
		o.patience = 50 * time.Millisecond
	}
	if o.disk == nil {
		o.disk = osDisk{}
	}
	if o.steps == nil {
		if o.steps, err = migrations(); err != nil {
			return nil, err
		}
	}
	j := &Journal{path: path, o: o, queue: newQueue(), control: make(chan func()), stop: make(chan struct{}),
		stopped: make(chan struct{}), readers: make(chan *conn, o.Readers), rested: make(chan *conn, o.Readers)}
	j.release, err = o.disk.claim(path)
	if err != nil {
		return nil, opening(path, err)
	}
	if j.file, err = watch(o.vfs); err != nil {
		return nil, errors.Join(err, j.release())
	}
	if j.failed, err = j.connect(ctx, false); err != nil {
		err = opening(path, j.file.because(err))
		j.file.forget()
		return nil, errors.Join(err, j.release())
	}
	go j.write()
	return j, nil
}

// opening makes the caller's error of a failed opening. What the library does not class is the disk's.
func opening(path string, err error) error {
	err = refuse(path, "open", err)
	if sessions.CodeOf(err) == sessions.CodeInternal {
		return sessions.Errorf(sessions.CodeStorageFailed, "journal %s: open: %w", path, errors.Unwrap(err)).
			Do("look at the file, its directory and their permissions")
	}
	return err
}

// connect opens the writer and fills the pool of readers, which must be empty. verify reads the whole file. full is why a
// journal that can be read takes no changes: there is no room to bring its log in.
func (j *Journal) connect(ctx context.Context, verify bool) (full, err error) {
	disk := j.o.disk
	size, exists, err := disk.size(j.path)
	if err != nil {
		return nil, err
	}
	log, _, err := disk.size(j.path + "-wal")
	if err != nil {
		return nil, err
	}
	switch {
	case !exists && log > 0:
		// A new database would take the frames of the old log for its own.
		return nil, sessions.Errorf(sessions.CodeStorageFailed, "journal %s is missing, but its log %s-wal is there", j.path, j.path).
			Do("put the journal back beside its log, or move the log away")
	case !exists:
		if err := j.create(ctx); err != nil {
			return nil, fmt.Errorf("create: %w", err)
		}
	case size == 0:
		return nil, sessions.Errorf(sessions.CodeStorageFailed, "journal %s is empty: a journal never is", j.path).
			Do("restore it from a copy, or move it away to begin with no sessions")
	}
	if err := disk.shm(j.path + "-shm"); err != nil {
		return nil, err
	}
	w, err := connect(ctx, j.path, j.file.name, "")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err := w.migrate(j.path, j.o.steps, j.o.Migrating); err != nil {
		return nil, err
	}
	mode, err := w.text("PRAGMA journal_mode")
	if err != nil {
		return nil, err
	}
	if mode != "wal" {
		return nil, fmt.Errorf("journal mode is %q, not wal", mode)
	}
	w.countLog()
	// What a crashed process left in the log may be in the page cache alone, with its fsync failed: write it again.
	_, _, err = w.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
	if err = j.file.because(err); err != nil && noRoom(err) {
		// The database would have to grow. What is there can be read all the same, and sessions can be stopped; the log is
		// made durable where it is, which takes no room, and changes wait.
		full = refuse(j.path, "bring its log in", err)
		if err := disk.rewrite(j.path + "-wal"); err != nil {
			return nil, errors.Join(full, err)
		}
		verify = false
	} else if err != nil {
		return nil, err
	}
	if verify {
		if err := w.verify(j.path, j.o.Now()); err != nil {
			return nil, err
		}
	}
	if err := j.file.syncLost(); err != nil {
		return nil, err
	}
	readers := make([]*conn, 0, j.o.Readers)
	for range j.o.Readers {
		r, err := connect(ctx, j.path, j.file.name, "PRAGMA query_only = ON;")
		if err != nil {
			for _, r := range readers {
				err = errors.Join(err, r.close())
			}
			return nil, err
		}
		readers = append(readers, r)
	}
	for _, r := range readers {
		j.readers <- r
	}
	j.writer, j.nextTrim = w, j.o.checkpoint
	return full, nil
}

// create builds a new journal under another name and gives it its own when it is whole and durable, so that a crash
// leaves no journal or an empty one, never a part.
func (j *Journal) create(ctx context.Context) error {
	temp := j.path + ".new"
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		if err := j.o.disk.remove(temp + suffix); err != nil {
			return err
		}
	}
	if err := j.o.disk.create(temp); err != nil {
		return err
	}
	c, err := connect(ctx, temp, j.file.name, "")
	if err != nil {
		return err
	}
	// 8 reserved bytes hold a checksum of each page (SQLite alone does not see a flipped bit in a text). Space that
	// deletion frees goes back to the disk when Purge asks for it. Both can only be chosen before the first page.
	_, err = c.db.FileControl("main", sqlite3.FCNTL_RESERVE_BYTES, 8)
	if err == nil {
		err = c.db.Exec("PRAGMA auto_vacuum = INCREMENTAL")
	}
	if err == nil {
		err = c.migrate(temp, j.o.steps, nil)
	}
	if err == nil {
		err = c.db.Exec("PRAGMA journal_mode = WAL")
	}
	if err := errors.Join(err, c.close()); err != nil {
		return err
	}
	return j.o.disk.rename(temp, j.path)
}

// verify proves that the file takes and keeps writes, and that all of it can be read.
func (c *conn) verify(path string, now time.Time) error {
	err := c.db.Exec(fmt.Sprintf("INSERT INTO meta VALUES ('verified', %d) ON CONFLICT (name) DO UPDATE SET value = excluded.value", now.UnixNano()))
	if err != nil {
		return err
	}
	if _, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE); err != nil {
		return err
	}
	found, err := c.text("PRAGMA integrity_check(1)")
	if err != nil {
		return err
	}
	if found != "ok" {
		return sessions.Errorf(sessions.CodeStorageFailed, "journal %s is damaged: %s", path, found).
			Do("run `baton journal check` to see what is affected; nothing was overwritten")
	}
	return nil
}
