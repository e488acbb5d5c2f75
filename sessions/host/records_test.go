package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// A damaged page that one session's command lies in hides no other session, and the list says what is so.
func TestListBesideDamage(t *testing.T) {
	ctx := context.Background()
	p := places(t)
	if err := os.MkdirAll(p.State, 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(ctx, p.Journal(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<the command that is lost>"
	ids := []string{sessions.NewID(), sessions.NewID(), sessions.NewID()}
	if err := j.Update(ctx, func(tx *journal.Tx) error {
		for i, id := range ids {
			err := tx.InsertSession(&journal.Session{ID: id, Principal: "local", Runner: "r", Cwd: "/w"})
			if i == 1 {
				err = errors.Join(err, tx.InsertCommand(&journal.Command{Command: sessions.Command{CommandID: "c", Session: id}, Principal: "local", Text: mark}))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(p.Journal())
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(mark))
	if at < 0 {
		t.Fatal("the command is not in the file")
	}
	clear(b[at : at+len(mark)])
	if err := os.WriteFile(p.Journal(), b, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := OpenOffline(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}()
	list, err := o.ListAll(ctx, sessions.ListArgs{All: true})
	if err != nil || len(list.Sessions) != len(ids) {
		t.Fatalf("%d sessions, %v", len(list.Sessions), err)
	}
	for i, s := range list.Sessions { // the newest first
		if want := ids[len(ids)-1-i]; s.SessionID != want || strings.Contains(s.Recovery, "damaged") != (want == ids[1]) {
			t.Errorf("session %d is %s: %s", i, s.SessionID, s.Recovery)
		}
	}
}

// A host starts where its predecessors cannot be counted, and is a later one than those all the same.
func TestEpochThatCannotBeRead(t *testing.T) {
	if n, err := nextEpoch(7, nil); n != 8 || err != nil {
		t.Errorf("after 7 comes %d, %v", n, err)
	}
	if n, err := nextEpoch(0, sessions.Errorf(sessions.CodeStorageFailed, "its page is damaged")); n < time.Now().Unix()-60 || err != nil {
		t.Errorf("after one that cannot be read comes %d, %v", n, err)
	}
	if _, err := nextEpoch(0, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("any other failure is kept to itself: %v", err)
	}
}
