package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"github.com/batonmcp/baton/sessions"
)

// A folder may have any name: SQLite is given it inside a URI.
func TestOpenBelowAnyName(t *testing.T) {
	for _, name := range []string{"a b", "a+b", "100%", "%20", "a?b#c", "a&vfs=x=y", `"q'`, "\u00e9\u2028", "\xff", "a:b;c"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for range 2 { // made, then found
				j, err := Open(t.Context(), filepath.Join(dir, "journal.db"), Options{})
				if err != nil {
					t.Fatal(err)
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
			fi, err := os.Stat(filepath.Join(dir, "journal.db"))
			if err != nil || fi.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", fi, err)
			}
		})
	}
}

func TestOpenRefusesWhatIsNoJournal(t *testing.T) {
	path, _ := closedJournal(t, 50)
	whole := load(t, path)
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		words []string
	}{
		"empty": {func(t *testing.T, path string) { store(t, path, nil) }, []string{"is empty", "restore it from a copy"}},
		"zeroes": {func(t *testing.T, path string) { store(t, path, make([]byte, len(load(t, path)))) },
			[]string{"cannot be opened", "not a database", "restore it from a copy"}},
		"text": {func(t *testing.T, path string) { store(t, path, bytes.Repeat([]byte("{\"seq\":1}\n"), 1000)) }, []string{"not a database"}},
		"cut off": {func(t *testing.T, path string) { store(t, path, load(t, path)[:8192]) },
			nil},
		"header zeroed": {func(t *testing.T, path string) { b := load(t, path); clear(b[:100]); store(t, path, b) }, []string{"not a database"}},
		"directory": {func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, []string{"no regular file but a directory"}},
		"link": {func(t *testing.T, path string) {
			if err := os.Rename(path, path+"2"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path+"2", path); err != nil {
				t.Fatal(err)
			}
		}, []string{"symbolic link"}},
		"log without its journal": {func(t *testing.T, path string) {
			store(t, path+"-wal", []byte("left over"))
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, []string{"missing", "-wal"}},
		"directory for all": {func(t *testing.T, path string) {
			if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
		}, []string{"written by others"}},
		"another program's": {func(t *testing.T, path string) {
			spoilSQL(t, path, "PRAGMA application_id = 1")
		}, []string{"not a Baton journal"}},
		"newer": {func(t *testing.T, path string) {
			spoilSQL(t, path, "PRAGMA user_version = 99; UPDATE meta SET value = '0099_future' WHERE name = 'schema'")
		}, []string{"0099_future", "0006_tails", "newer"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			store(t, path, whole)
			c.spoil(t, path)
			before, _ := os.ReadFile(path)
			j, err := Open(t.Context(), path, Options{})
			if err == nil {
				t.Fatal("it was opened", j.Close())
			}
			refused(t, err, sessions.CodeStorageFailed, append(c.words, filepath.Dir(path))...)
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

func spoilSQL(t *testing.T, path, sql string) {
	t.Helper()
	db, err := sqlite3.Open("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(sql); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesASecondHost(t *testing.T) {
	path, _ := closedJournal(t, 1)
	openAt(t, path, Options{})
	_, err := Open(t.Context(), path, Options{})
	refused(t, err, sessions.CodeStorageFailed, path, "another host")
}

func TestOpenInADirectoryOfAnother(t *testing.T) {
	if os.Geteuid() == 0 {
		dir := t.TempDir()
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), filepath.Join(dir, "journal.db"), Options{})
		refused(t, err, sessions.CodeStorageFailed, dir, "belongs to user 12345")
		return
	}
	_, err := Open(t.Context(), "/journal.db", Options{})
	refused(t, err, sessions.CodeStorageFailed, "belongs to user 0")
}

func TestOpenInAReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		dropRoot(t)
	}
	_, err := Open(t.Context(), filepath.Join(dir, "state", "journal.db"), Options{})
	refused(t, err, sessions.CodeStorageFailed, dir)
	_, err = Open(t.Context(), filepath.Join(dir, "journal.db"), Options{})
	refused(t, err, sessions.CodeStorageFailed, dir)
}

func TestModes(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	path := filepath.Join(t.TempDir(), "a", "b", "journal.db")
	j := openAt(t, path, Options{})
	newSession(t, j)
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %#o", e.Name(), info.Mode().Perm())
		}
	}
	if len(entries) < 4 {
		t.Errorf("only %d files", len(entries))
	}
}

// JO-04: what a crashed creation left over does not matter, and is no journal.
func TestLeftOversOfACreation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	for _, suffix := range []string{".new", ".new-wal", ".new-journal", ".new-shm"} {
		store(t, path+suffix, []byte("half a journal"))
	}
	j := openAt(t, path, Options{})
	newSession(t, j)
	left, err := filepath.Glob(path + ".new*")
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// A journal of an older Baton gets the steps that it lacks, in one transaction, and keeps its rows; the older Baton
// refuses it from then on.
func TestMigration(t *testing.T) {
	old, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	next := append(old[:len(old):len(old)], migration{"0099_next", "ALTER TABLE sessions ADD COLUMN next TEXT NOT NULL DEFAULT 'n'; CREATE TABLE more (x)"})
	d := newFakeDisk(t, 1)
	openWith := func(d *fakeDisk, steps []migration) (*Journal, error) {
		o := d.options()
		o.steps = steps
		return Open(t.Context(), cutPath, o)
	}
	j, err := openWith(d, old)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, j)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	broken := append(next[:len(next):len(next)], migration{"0100_broken", "CREATE TABLE half (x); CREATE TABLE more (x)"})
	if _, err := openWith(d, broken); err == nil || !strings.Contains(err.Error(), "0100_broken") {
		t.Errorf("a step that fails: %v", err)
	}
	// The power goes at every step of the migration.
	for cut := 1; ; cut++ {
		c := d.crash(t)
		c.cut = cut
		if j, err = openWith(c, next); err == nil {
			if err := j.Close(); err != nil && !c.dead {
				t.Error(err)
			}
			if !c.dead {
				break
			}
		}
		j, err := openWith(c.reboot(), next)
		if err != nil {
			t.Fatalf("after a cut at step %d: %v", cut, err)
		}
		if problems, err := j.check(t.Context(), false); err != nil || len(problems) > 0 {
			t.Errorf("after a cut at step %d: %v, %v", cut, problems, err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	if j, err = openWith(d, next); err != nil {
		t.Fatal(err)
	}
	view(t, j, func(tx *Tx) error {
		n, err := tx.number("SELECT count(*) FROM sessions WHERE id = ? AND next = 'n'", s.ID)
		if n != 1 {
			t.Error("the session of the older Baton is gone")
		}
		if n, _ := tx.number("SELECT count(*) FROM sqlite_schema WHERE name = 'half'"); n != 0 {
			t.Error("a step that failed left something")
		}
		return err
	})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = openWith(d, old)
	refused(t, err, sessions.CodeStorageFailed, "0099_next", old[len(old)-1].name)
}
