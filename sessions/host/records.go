package host

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host/remote"
	"github.com/batonmcp/baton/sessions/journal"
)

var (
	_ remote.Records = (*Host)(nil)
	_ remote.Records = (*Offline)(nil)
)

// CheckJournal implements remote.Records.
func (h *Host) CheckJournal(ctx context.Context) ([]journal.Problem, error) { return h.j.Check(ctx) }

// ExportSession implements remote.Records.
func (h *Host) ExportSession(ctx context.Context, who sessions.Caller, session string, w io.Writer) error {
	return export(ctx, h.j, who, session, w)
}

// ListAll implements remote.Records.
func (h *Host) ListAll(ctx context.Context, a sessions.ListArgs) (sessions.ListResult, error) {
	return list(ctx, h.look, "", a)
}

func export(ctx context.Context, j *journal.Journal, who sessions.Caller, session string, w io.Writer) error {
	if err := sessions.CheckUUID("session_id", session); err != nil {
		return err
	}
	if err := j.View(ctx, func(tx *journal.Tx) error {
		_, err := tx.GetSession(who.Principal, session)
		return err
	}); err != nil {
		return err
	}
	return j.Export(ctx, session, w)
}

// Offline is the journal of a state directory without a host. While it is open none can start.
type Offline struct {
	claim *remote.Claim
	j     *journal.Journal
}

// OpenOffline takes the place of the host and opens the journal, without looking after any session. It makes no journal:
// where there is none it returns CodeNotFound. Where a host runs, or starts, the error wraps local.ErrLocked.
func OpenOffline(ctx context.Context, p place.Places) (*Offline, error) {
	if _, err := os.Lstat(p.Journal()); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(p.Journal() + "-wal"); errors.Is(err, fs.ErrNotExist) {
			return nil, sessions.Errorf(sessions.CodeNotFound, "there is no journal %s", p.Journal()).
				Do("check BATON_HOME and the XDG variables; a journal is made with the first session")
		}
	}
	claim, err := remote.Take(p)
	if err != nil {
		return nil, err
	}
	j, err := openJournal(ctx, p, journal.Options{})
	if err != nil {
		return nil, errors.Join(err, claim.Release())
	}
	return &Offline{claim: claim, j: j}, nil
}

// CheckJournal implements remote.Records.
func (o *Offline) CheckJournal(ctx context.Context) ([]journal.Problem, error) { return o.j.Check(ctx) }

// ExportSession implements remote.Records.
func (o *Offline) ExportSession(ctx context.Context, who sessions.Caller, session string, w io.Writer) error {
	return export(ctx, o.j, who, session, w)
}

// ListAll implements remote.Records.
func (o *Offline) ListAll(ctx context.Context, a sessions.ListArgs) (sessions.ListResult, error) {
	return list(ctx, o.j.View, "", a)
}

// Close closes the journal and lets hosts start again.
func (o *Offline) Close() error { return errors.Join(o.j.Close(), o.claim.Release()) }
