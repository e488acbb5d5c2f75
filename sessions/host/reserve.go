package host

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// reserveBytes is the room that is kept for the day when the disk is full: what the log of a journal that nobody closed
// may need to be brought into it, without which no host can start, and no session can be read or stopped.
const reserveBytes = 4 << 20

// reserveAfter is how long a host runs before it looks after the reserve: starting is to be quick.
const reserveAfter = 3 * time.Second

func reservePath(p place.Places) string { return filepath.Join(p.State, "reserve") }

// openJournal opens the journal of the places, on a full disk with the help of the reserve.
func openJournal(ctx context.Context, p place.Places, o journal.Options) (*journal.Journal, error) {
	j, err := journal.Open(ctx, p.Journal(), o)
	full := err
	if err == nil {
		full = j.Health() // it may be open and take no changes
	}
	if sessions.CodeOf(full) != sessions.CodeStorageFull || os.Remove(reservePath(p)) != nil {
		return j, err
	}
	if j != nil {
		_ = j.Close() // nothing was changed through it
	}
	return journal.Open(ctx, p.Journal(), o)
}

// trimPatience is how long those who read are waited for when room is needed.
const trimPatience = 2 * time.Second

// longLog tells whether the journal's log takes more room than the reserve, so that it is worth to be brought in.
func (s *storage) longLog() bool {
	n, err := s.j.LogSize()
	return err == nil && n > reserveBytes
}

// makeRoom brings a long log into the journal and gives its room back to the disk. The journal may have to grow for
// that: where it cannot, into the room of the reserve, which is made again at once.
func (s *storage) makeRoom(ctx context.Context) error {
	trim := func() error {
		ctx, cancel := context.WithTimeout(ctx, trimPatience)
		defer cancel()
		return s.j.Trim(ctx)
	}
	err := trim()
	if sessions.CodeOf(err) != sessions.CodeStorageFull || os.Remove(reservePath(s.places)) != nil {
		return err
	}
	defer s.remakeReserve()
	return trim()
}

func (s *storage) remakeReserve() {
	if err := keepReserve(s.places); err != nil {
		s.log.Warn().Err(err).Msg("no room could be reserved")
	}
}

// keepReserve makes the reserve when it is not there. It is no file with holes and nothing that compresses.
func keepReserve(p place.Places) (err error) {
	path := reservePath(p)
	if info, err := os.Lstat(path); err == nil && info.Size() == reserveBytes {
		return nil
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = io.CopyN(f, rand.Reader, reserveBytes)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
