package host

import (
	"os"
	"time"

	"github.com/batonmcp/baton/sessions/journal"
)

// tidyEvery is how often retention is looked at when nobody deletes anything.
const tidyEvery = time.Hour

// leastKept is what the disk budget never cuts a session below.
const leastKept = 1000

// tidy is the janitor's goroutine: it takes deleted sessions and cut history out of the file.
func (h *Host) tidy() {
	timer := time.NewTimer(time.Minute) // not while a host starts
	defer timer.Stop()
	for {
		select {
		case <-h.life.Done():
			return
		case <-h.deleted:
		case <-timer.C:
		}
		timer.Reset(tidyEvery)
		h.forgetAnswers()
		if err := h.tidyOnce(); err != nil && h.life.Err() == nil {
			h.o.Log.Warn().Err(err).Msg("the journal could not be tidied")
		}
	}
}

func (h *Host) tidyOnce() error {
	cfg, err := h.config()
	if err != nil {
		return err
	}
	keep := int64(cfg.Journal.KeepEvents)
	if keep > 0 {
		if err := h.keep(keep); err != nil {
			return err
		}
	}
	if _, err := h.j.Purge(h.life); err != nil {
		return err
	}
	budget := int64(cfg.Journal.MaxBytes)
	if keep == 0 {
		keep = 1 << 20
	}
	for budget > 0 && keep > leastKept {
		fi, err := os.Stat(h.j.Path())
		if err != nil || fi.Size() <= budget {
			return err
		}
		keep = max(keep/2, leastKept)
		h.o.Log.Info().Int64("bytes", fi.Size()).Int64("budget", budget).Int64("events", keep).Msg("journal over its budget: older events of long sessions are cut")
		if err := h.keep(keep); err != nil {
			return err
		}
		if _, err := h.j.Purge(h.life); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) keep(n int64) error {
	return h.j.Update(h.life, func(tx *journal.Tx) error {
		_, err := tx.KeepEventsOfAll(n)
		return err
	})
}
