package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// verb runs a verb and returns what it printed and its exit status.
func (w *world) verb(argv ...string) (out, errs string, status int) {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	var o, e bytes.Buffer
	cmd := exec.Command(exe, argv...)
	cmd.Env, cmd.Stdout, cmd.Stderr = w.env, &o, &e
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("baton %v: %v", argv, err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// stopHost stops the host and waits until it is gone.
func (w *world) stopHost() {
	w.t.Helper()
	pid := w.hostPID()
	w.baton("host", "stop")
	await(w.t, "the end of the host", func() bool { return !alive(pid) })
}

// alter runs SQL on the journal behind Baton's back and returns the first value of its last row; no host may have it
// open.
func (w *world) alter(sql string) string {
	w.t.Helper()
	db, err := sqlite3.Open(w.path("baton/state/journal.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	value := ""
	for sql != "" {
		s, tail, err := db.Prepare(sql)
		if err != nil {
			w.t.Fatal(err)
		}
		for s.Step() {
			value = s.ColumnText(0)
		}
		if err := s.Close(); err != nil {
			w.t.Fatal(err)
		}
		sql = strings.TrimSpace(tail)
	}
	return value
}

// exported reads the lines of an export by what they are.
func exported(t *testing.T, out string) (lines map[string][]json.RawMessage, last string) {
	t.Helper()
	lines = map[string][]json.RawMessage{}
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		var line map[string]json.RawMessage
		if err := json.Unmarshal(s.Bytes(), &line); err != nil || len(line) != 1 {
			t.Fatalf("a line of the export is %s (%v)", s.Bytes(), err)
		}
		for last = range line {
			lines[last] = append(lines[last], line[last])
		}
	}
	return lines, last
}

func TestJournalCheckAndExport(t *testing.T) {
	w := newWorld(t)
	f := w.open()
	s := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 3][run echo <&>]", "command_id": "c-1", "wait_seconds": 50})
	if sent.Command.State != sessions.CommandCompleted {
		t.Fatalf("%+v", sent.Command)
	}
	evs := f.events(s.SessionID)
	f.close()

	look := func(t *testing.T) []json.RawMessage {
		if out, errs, status := w.verb("journal", "check"); status != 0 || !strings.Contains(out, w.path("baton/state/journal.db")+": no problem") {
			t.Errorf("check: status %d, said %q and %q", status, out, errs)
		}
		if out, errs, status := w.verb("journal", "check", "--json"); status != 0 || out != "" {
			t.Errorf("check --json: status %d, said %q and %q", status, out, errs)
		}
		out, errs, status := w.verb("journal", "export", s.SessionID)
		if status != 0 || errs != "" {
			t.Fatalf("export: status %d, said %q", status, errs)
		}
		lines, last := exported(t, out)
		if len(lines["session"]) != 1 || len(lines["generation"]) != 1 || len(lines["command"]) != 1 || last != "end" {
			t.Errorf("the export has %d sessions, %d generations, %d commands and ends with %q", len(lines["session"]), len(lines["generation"]), len(lines["command"]), last)
		}
		for i, raw := range lines["event"] {
			var e sessions.Event
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			if e.Kind == sessions.EventCommandSubmitted && i < len(evs) {
				e.Text = evs[i].Text // a reader is given the prompt with it; an export has it with the command
			}
			if i < len(evs) && (e.Seq != evs[i].Seq || e.Kind != evs[i].Kind || e.Text != evs[i].Text) {
				t.Errorf("event %d of the export is %s", i+1, raw)
			}
		}
		if n := len(lines["event"]); n < len(evs) {
			t.Errorf("%d events are in the export, %d were read", n, len(evs))
		}
		if _, errs, status := w.verb("journal", "export", sessions.NewID()); status != exitMissing || !strings.Contains(errs, "not_found") {
			t.Errorf("export of an unknown session: status %d, said %q", status, errs)
		}
		if _, errs, status := w.verb("journal", "export", "--principal", "somebody", s.SessionID); status != exitMissing || !strings.Contains(errs, "not_found") {
			t.Errorf("export of another's session: status %d, said %q", status, errs)
		}
		if _, _, status := w.verb("journal", "export", "../x"); status != exitUsage {
			t.Errorf("export of what is no id: status %d", status)
		}
		if _, _, status := w.verb("journal", "export"); status != exitUsage {
			t.Errorf("export of nothing: status %d", status)
		}
		return lines["event"]
	}
	var through []json.RawMessage
	t.Run("through the host", func(t *testing.T) { through = look(t) })
	f = w.open()
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	f.close()
	w.stopHost()
	t.Run("without a host", func(t *testing.T) {
		alone := look(t)
		if len(w.find("host run")) > 0 {
			t.Error("a host was started")
		}
		if len(alone) < len(through) || !reflect.DeepEqual(alone[:len(through)], through) {
			t.Error("without a host the export gives other events than through it")
		}
	})
	t.Run("damaged rows", func(t *testing.T) {
		w.alter("UPDATE heads SET last_seq = last_seq + 2")
		defer w.alter("UPDATE heads SET last_seq = last_seq - 2")
		out, errs, status := w.verb("journal", "check")
		if status != exitError || !strings.Contains(out, s.SessionID) || !strings.Contains(out, "counts its events wrong") || !strings.Contains(errs, "1 problems") {
			t.Errorf("status %d, said %q and %q", status, out, errs)
		}
		out, _, status = w.verb("journal", "check", "--json")
		var p journal.Problem
		if err := json.Unmarshal([]byte(out), &p); err != nil || status != exitError || p.Session != s.SessionID || p.What != "session" {
			t.Errorf("status %d, said %q (%v)", status, out, err)
		}
	})
	t.Run("newer version", func(t *testing.T) {
		version, name := w.alter("PRAGMA user_version"), w.alter("SELECT value FROM meta WHERE name = 'schema'")
		w.alter("PRAGMA user_version = 99; UPDATE meta SET value = '0099_beyond' WHERE name = 'schema'")
		defer w.alter("PRAGMA user_version = " + version + "; UPDATE meta SET value = '" + name + "' WHERE name = 'schema'")
		file := func() []byte {
			b, err := os.ReadFile(w.path("baton/state/journal.db"))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		before := file()
		for _, argv := range [][]string{{"journal", "check"}, {"journal", "export", s.SessionID}} {
			out, errs, status := w.verb(argv...)
			if status != exitError || out != "" || !strings.Contains(errs, "storage_failed") || !strings.Contains(errs, "0099_beyond of a newer Baton") {
				t.Errorf("%v: status %d, said %q and %q", argv, status, out, errs)
			}
		}
		if !bytes.Equal(before, file()) {
			t.Error("the newer journal was changed")
		}
	})
}

func TestJournalOfNobody(t *testing.T) {
	w := newWorld(t)
	for _, argv := range [][]string{{"journal", "check"}, {"journal", "export", sessions.NewID()}} {
		if _, errs, status := w.verb(argv...); status != exitMissing || !strings.Contains(errs, "there is no journal "+w.path("baton/state/journal.db")) {
			t.Errorf("%v: status %d, said %q", argv, status, errs)
		}
	}
	if exists(w.path("baton/state")) {
		t.Error("a state directory was made")
	}
}
