package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// How long a fault of the journal's disk goes unlooked at.
const (
	minMend = 100 * time.Millisecond
	maxMend = 5 * time.Second
	// calm is how long the journal must have worked for the pauses to begin small again.
	calm = 10 * time.Second
)

// mendedName is the counter that proves that the journal takes changes again: the time when it last did.
const mendedName = "host/mended"

// storage brings the journal back after a fault of its disk. Its goroutine alone opens it again: when a caller needs it,
// and on a schedule of growing pauses while the fault lasts.
type storage struct {
	j      *journal.Journal
	places place.Places
	log    zerolog.Logger
	back   func()      // told of a recovery before anybody who waits for one
	file   os.FileInfo // the journal's file, as it was opened

	asks chan chan error // callers that wait for the outcome of an attempt
	hurt chan struct{}   // a change was refused; holds one
	full atomic.Bool     // one was refused for a lack of room

	mu    sync.Mutex
	again chan struct{} // closed by the next recovery
}

func newStorage(j *journal.Journal, p place.Places, log zerolog.Logger, back func()) (*storage, error) {
	file, err := os.Lstat(j.Path())
	if err != nil {
		return nil, storageError("the journal cannot be looked at", err)
	}
	return &storage{j: j, places: p, log: log, back: back, file: file, asks: make(chan chan error), hurt: make(chan struct{}, 1), again: make(chan struct{})}, nil
}

// trouble tells whether err says that the journal did not take a change because of its disk.
func trouble(err error) bool {
	code := sessions.CodeOf(err)
	return code == sessions.CodeStorageFull || code == sessions.CodeStorageFailed
}

// recovery is closed when the journal takes changes again after trouble that comes, or came, after this call.
func (s *storage) recovery() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.again
}

// present refuses when the journal's file is no longer at its path: what is written to a file without a name is lost
// with the process.
func (s *storage) present() error {
	now, err := os.Lstat(s.j.Path())
	if err == nil && os.SameFile(now, s.file) {
		return nil
	}
	what := "was replaced by another file"
	if err != nil {
		what = "cannot be found: " + err.Error()
	}
	return sessions.Errorf(sessions.CodeStorageFailed, "journal %s %s", s.j.Path(), what).
		Do("put it back where it was; or stop the host (baton host stop) to go on with what is there now, without these sessions")
}

// mend is called with the error of a refused change, and returns nil when it is worth making it again.
func (s *storage) mend(ctx, life context.Context, err error) error {
	select {
	case s.hurt <- struct{}{}:
	default:
	}
	if sessions.CodeOf(err) == sessions.CodeStorageFull {
		if !s.longLog() {
			return err // nothing is broken: room has to be made by others
		}
		s.full.Store(true)
	}
	answer := make(chan error, 1)
	select {
	case s.asks <- answer:
	case <-ctx.Done():
		return err
	case <-life.Done():
		return err
	}
	select {
	case e := <-answer:
		return e
	case <-ctx.Done():
		return err
	case <-life.Done():
		return err
	}
}

// run owns the attempts until life ends.
func (s *storage) run(life context.Context) {
	var (
		last  error     // of the last attempt
		at    time.Time // of its end
		pause = minMend
		retry = time.NewTimer(0)
		due   bool // an attempt is scheduled
	)
	<-retry.C
	defer retry.Stop()
	reserve := time.NewTimer(reserveAfter)
	defer reserve.Stop()
	for {
		var ask chan error
		select {
		case <-life.Done():
			return
		case <-reserve.C:
			if due {
				reserve.Reset(maxMend)
			} else if err := keepReserve(s.places); err != nil {
				s.log.Warn().Err(err).Msg("no room could be reserved")
			}
			continue
		case <-s.hurt:
			if !due {
				if time.Since(at) > calm {
					pause = minMend
				}
				due = true
				retry.Reset(pause)
			}
			continue
		case ask = <-s.asks:
			if time.Since(at) < minMend {
				ask <- last
				continue
			}
		case <-retry.C:
		}
		last = s.attempt(life)
		at = time.Now()
		if last == nil {
			due = false
			retry.Stop()
			reserve.Reset(calm)
			s.recovered()
		} else if life.Err() == nil {
			s.log.Warn().Err(last).Dur("again_in", pause).Msg("the journal takes no changes")
			due = true
			retry.Reset(pause)
		}
		pause = min(pause*2, maxMend)
		if ask != nil {
			ask <- last
		}
	}
}

// attempt brings the journal to take changes again, or says why it does not.
func (s *storage) attempt(ctx context.Context) error {
	if err := s.present(); err != nil {
		return err
	}
	err := s.j.Update(ctx, func(*journal.Tx) error { return nil })
	if err != nil && s.j.Health() == nil {
		return err // not the journal's doing: another process holds it, say
	}
	if err != nil {
		if err := s.reopen(ctx, sessions.CodeOf(err) == sessions.CodeStorageFull && s.longLog()); err != nil {
			return err
		}
	}
	if s.full.Swap(false) { // by more than what follows writes
		if err := s.makeRoom(ctx); err != nil {
			return err
		}
	}
	took := func() error {
		return s.j.Update(ctx, func(tx *journal.Tx) error { return tx.SetCursor(mendedName, time.Now().UnixNano()) })
	}
	err = took()
	if sessions.CodeOf(err) != sessions.CodeStorageFull || !s.longLog() {
		return err
	}
	if err := s.makeRoom(ctx); err != nil {
		return err
	}
	return took()
}

// reopen opens the journal again, after a look at the disk, since that gives up what still reads. spend gives it the
// room of the reserve to bring its log in.
func (s *storage) reopen(ctx context.Context, spend bool) error {
	if spend && os.Remove(reservePath(s.places)) == nil {
		defer s.remakeReserve()
	}
	if err := s.probe(); err != nil {
		return err
	}
	return s.j.Reopen(ctx)
}

// probe writes and syncs a file beside the journal, at an offset that the journal itself may need.
func (s *storage) probe() (err error) {
	size, err := s.j.Size()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.j.Path()), "probe-*")
	if err != nil {
		return storageError("the journal's directory takes no file", err)
	}
	_, err = f.WriteAt(make([]byte, 64<<10), size) // a hole in front of it takes no room
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	if err != nil {
		return storageError("the journal's directory takes no data", err)
	}
	return nil
}

func (s *storage) recovered() {
	s.log.Info().Msg("the journal takes changes")
	s.back()
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.again)
	s.again = make(chan struct{})
}

// storageError is a failure of one of Baton's own files, by its code.
func storageError(what string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return sessions.Errorf(sessions.CodeStorageFull, "%s: %w", what, err).Do("free space on that disk, then try again")
	}
	return sessions.Errorf(sessions.CodeStorageFailed, "%s: %w", what, err).Do("look at that disk and its permissions, then try again")
}
