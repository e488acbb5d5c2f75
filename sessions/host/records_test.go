package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host/remote"
	"github.com/batonmcp/baton/sessions/journal"
)

func places(t *testing.T) place.Places {
	t.Helper()
	dir := t.TempDir()
	p, err := place.Find(func(name string) string {
		if name == "BATON_HOME" {
			return dir
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Whoever looks into a journal without a host keeps hosts out meanwhile, and is kept out by one.
func TestOfflineAndHostExcludeEachOther(t *testing.T) {
	ctx := context.Background()
	p := places(t)
	if _, err := OpenOffline(ctx, p); sessions.CodeOf(err) != sessions.CodeNotFound {
		t.Fatalf("without a journal: %v", err)
	}
	if _, err := os.Lstat(p.State); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("looking for a journal made its folder: %v", err)
	}
	claim, err := remote.Take(p)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(ctx, p.Journal(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOffline(ctx, p); !errors.Is(err, local.ErrLocked) {
		t.Errorf("beside a host: %v", err)
	}
	if err := errors.Join(j.Close(), claim.Release()); err != nil {
		t.Fatal(err)
	}
	o, err := OpenOffline(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Take(p); !errors.Is(err, local.ErrLocked) {
		t.Errorf("a host beside it: %v", err)
	}
	if found, err := o.CheckJournal(ctx); err != nil || len(found) > 0 {
		t.Errorf("a new journal has %v, %v", found, err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if claim, err = remote.Take(p); err != nil {
		t.Fatalf("after it: %v", err)
	}
	if err := claim.Release(); err != nil {
		t.Error(err)
	}
}

// A log whose database is gone is trouble to be told, not an empty journal.
func TestOfflineNamesALostDatabase(t *testing.T) {
	p := places(t)
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Journal()+"-wal", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOffline(context.Background(), p); sessions.CodeOf(err) != sessions.CodeStorageFailed {
		t.Errorf("got %v", err)
	}
	if entries, _ := filepath.Glob(p.Journal()); len(entries) > 0 {
		t.Error("a journal was made beside the old log")
	}
}
