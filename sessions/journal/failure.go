package journal

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

// ErrClosed is returned by calls on a journal that was closed.
var ErrClosed = errors.New("the journal is closed")

// PanicError is a panic of an update's function, brought back to the caller whose function it was.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprint("panic: ", e.Value) }

// noRoom tells whether err means that there is no room left. A disk that is full at the moment of an fsync says so
// through the system error.
func noRoom(err error) bool {
	return errors.Is(err, sqlite3.FULL) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// damaged tells whether err means that what is on the disk is not what was written, or cannot be read back.
func damaged(err error) bool {
	for _, code := range []error{sqlite3.CORRUPT, sqlite3.NOTADB, sqlite3.IOERR_DATA, sqlite3.IOERR_READ,
		sqlite3.IOERR_SHORT_READ, sqlite3.IOERR_CORRUPTFS} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// fault tells whether err is the storage's, and not the caller's.
func fault(err error) bool {
	var code sqlite3.ErrorCode
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case sqlite3.CONSTRAINT, sqlite3.INTERRUPT, sqlite3.TOOBIG, sqlite3.ERROR, sqlite3.MISMATCH, sqlite3.RANGE, sqlite3.MISUSE:
		return false
	}
	return true
}

// stops tells whether, after err, the file can no longer be trusted to hold what will be written to it. No room and a
// lock that another process holds leave everything as it was; a damaged page concerns whoever needs it, not the rest.
func stops(err error) bool {
	switch {
	case errors.Is(err, sqlite3.IOERR_FSYNC), errors.Is(err, sqlite3.IOERR_DIR_FSYNC):
		return true
	case noRoom(err), damaged(err), errors.Is(err, sqlite3.BUSY), errors.Is(err, sqlite3.LOCKED):
		return false
	}
	return fault(err)
}

// refuse makes the caller's error of a storage error; doing says what was under way.
func refuse(path, doing string, err error) error {
	var known *sessions.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	switch {
	case noRoom(err):
		return sessions.Errorf(sessions.CodeStorageFull, "journal %s: %s: %w", path, doing, err).
			Do("free space on the disk that holds it, then try again")
	case damaged(err) && doing == "open":
		return sessions.Errorf(sessions.CodeStorageFailed, "journal %s is damaged and cannot be opened: %w", path, err).
			Do("nothing was overwritten: restore it from a copy, or move it away to begin with no sessions")
	case damaged(err):
		return sessions.Errorf(sessions.CodeStorageFailed, "journal %s is damaged: %s: %w", path, doing, err).
			Do("run `baton journal check` to see what is affected; nothing was overwritten")
	case errors.Is(err, sqlite3.BUSY), errors.Is(err, sqlite3.LOCKED):
		return sessions.Errorf(sessions.CodeStorageFailed, "journal %s is held by another process: %s: %w", path, doing, err).
			Do("end the program that has it open, then try again")
	case fault(err):
		return sessions.Errorf(sessions.CodeStorageFailed, "journal %s: %s: %w", path, doing, err).
			Do("look at the disk and its permissions, then restart the host; sessions that run go on")
	}
	return sessions.Errorf(sessions.CodeInternal, "journal: %s: %w", doing, err)
}
