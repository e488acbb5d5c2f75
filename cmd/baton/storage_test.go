package main

import (
	"os"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// A state directory that cannot be used is refused by name, nothing is made in it, and the very front end that was
// refused goes on once the cause is gone.
func TestStateDirectoryThatCannotBeUsed(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(w *world) (repair func())
		says  string
	}{
		{"others may enter", func(w *world) func() {
			must(os.Chmod(w.path("baton/state"), 0o770))
			return func() { must(os.Chmod(w.path("baton/state"), 0o700)) }
		}, "chmod"},
		{"a file in its place", func(w *world) func() {
			must(os.Rename(w.path("baton/state"), w.path("baton/away")))
			w.write("baton/state", "x")
			return func() {
				must(os.Remove(w.path("baton/state")))
				must(os.Rename(w.path("baton/away"), w.path("baton/state")))
			}
		}, "not a directory"},
		{"a journal of a newer version", func(w *world) func() {
			was := w.alter("PRAGMA user_version")
			w.alter("PRAGMA user_version = 99")
			return func() { w.alter("PRAGMA user_version = " + was) }
		}, "newer Baton"},
		{"no journal but a text", instead("somebody's notes, longer than the header of a database, which has a hundred bytes of its own"), "journal.db"},
		{"an empty journal", instead(""), "empty"},
		{"a journal that is a folder", func(w *world) func() {
			repair := instead("")(w)
			must(os.Remove(w.path("baton/state/journal.db")))
			must(os.Mkdir(w.path("baton/state/journal.db"), 0o700))
			return func() {
				must(os.Remove(w.path("baton/state/journal.db")))
				repair()
			}
		}, "regular file"},
		{"a journal of another user", func(w *world) func() {
			if os.Getuid() != 0 {
				w.t.Skip("SKIPPED: only root can give a file away")
			}
			must(os.Chown(w.path("baton/state/journal.db"), 1234, 1234))
			return func() { must(os.Chown(w.path("baton/state/journal.db"), 0, 0)) }
		}, "1234"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			f := w.open()
			defer f.close()
			s := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
			call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
			w.stopHost()
			repair := c.spoil(w)
			for tool, a := range map[string]args{
				"session_create": {"runner": "codexlike", "cwd": w.work},
				"session_resume": {"session_id": s.SessionID},
				"session_list":   {},
			} {
				e := refused(f, sessions.CodeStorageFailed, tool, a)
				if !strings.Contains(e.Message+e.Action, c.says) || e.Action == "" {
					t.Errorf("%s: %v does not say %q, or not what to do", tool, e, c.says)
				}
			}
			if _, errs, status := w.verb("journal", "check"); status != exitError || !strings.Contains(errs, "storage_failed") {
				t.Errorf("check: status %d, said %q", status, errs)
			}
			repair()
			if list := call[sessions.ListResult](f, "session_list", args{"all": true}).Sessions; len(list) != 1 || list[0].SessionID != s.SessionID {
				t.Errorf("after the repair there is %+v", list)
			}
		})
	}
}

// A state directory that is deleted under a living host takes its sessions with it: the host ends them and itself, and what
// is called next begins with nothing, beside nobody.
func TestStateDirectoryIsDeleted(t *testing.T) {
	for _, name := range []string{"baton/state", "baton"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			config, err := os.ReadFile(w.path("baton/config.toml"))
			if err != nil {
				t.Fatal(err)
			}
			f := w.open()
			defer f.close()
			s := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "command_id": "c", "text": "[say 3][wait]"})
			f.streaming(s.SessionID, "c")
			begin := func() {
				if err := os.MkdirAll(w.path("baton"), 0o700); err != nil {
					t.Fatal(err)
				}
				w.write("baton/config.toml", string(config))
				if list := call[sessions.ListResult](f, "session_list", args{"all": true}).Sessions; len(list) != 0 {
					t.Errorf("there is %+v", list)
				}
			}
			was := w.hostPID()
			await(t, "the deletion", func() bool { return os.RemoveAll(w.path(name)) == nil }) // the host may still make something in it
			if name == "baton" {                                                               // with its socket gone, what is called next starts another one beside it
				begin()
			}
			await(t, "the end of the host", func() bool { return !alive(was) })
			if left := append(w.find("baton bridge"), w.find(" agent ")...); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			begin()
			again := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
			if again.State != sessions.SessionIdle || len(w.find(" host run")) != 1 {
				t.Errorf("%s, hosts %v", again.State, w.find(" host run"))
			}
		})
	}
}

// instead puts a text in the place of the journal.
func instead(text string) func(w *world) func() {
	return func(w *world) func() {
		path := w.path("baton/state/journal.db")
		if err := os.Rename(path, path+".away"); err != nil {
			w.t.Fatal(err)
		}
		w.write("baton/state/journal.db", text)
		return func() {
			if err := os.Rename(path+".away", path); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}
