package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// TestSE01_TheEnvironmentOfTheFrontEndStaysOut: what a host or a shell has in its environment beyond the allow list reaches
// no agent, no command that it runs, and no file of Baton's.
func TestSE01_TheEnvironmentOfTheFrontEndStaysOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var markers []string
	for i, name := range []string{"FAKE_DB_PASSWORD", "GITHUB_TOKEN", "NPM_TOKEN", "NODE_OPTIONS", "BASH_ENV", "GIT_DIR", "SSH_AUTH_SOCK", "PYTHONSTARTUP"} {
		marker := fmt.Sprintf("marker%d-%s", i, sessions.NewID())
		markers = append(markers, marker)
		w.env = append(w.env, name+"=/"+marker)
	}
	f := w.open()
	defer f.close()
	s := w.create(f, "codexlike", nil)
	r := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[approve env | tee env.txt; cat /proc/$PPID/environ > parent.txt]", "wait_seconds": 50})
	if len(r.Session.Requests) != 1 {
		t.Fatalf("%+v", r.Session)
	}
	call[sessions.RespondResult](f, "session_respond", args{"session_id": s.SessionID, "request_id": r.Session.Requests[0].RequestID, "decision": "approve"})
	f.settled(s.SessionID)
	if b, err := os.ReadFile(w.path("work/env.txt")); err != nil || !bytes.Contains(b, []byte("PATH=")) || !bytes.Contains(b, []byte("HOME=")) {
		t.Errorf("the command saw %q, %v", b, err)
	}
	looked := 0
	for _, dir := range []string{w.work, w.path("baton"), w.path("home"), w.path("tmp")} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the session lives, and with it what is there for a moment
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			looked++
			for _, m := range markers {
				if bytes.Contains(b, []byte(m)) {
					t.Errorf("%s holds %s", path, m)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if looked < 4 {
		t.Errorf("only %d files were there to look at", looked)
	}
	for _, e := range f.events(s.SessionID) {
		for _, m := range markers {
			if strings.Contains(e.Text, m) || e.Tool != nil && strings.Contains(e.Tool.Output, m) {
				t.Errorf("event %d holds %s", e.Seq, m)
			}
		}
	}
}

// settled waits until a session is settled.
func (f *front) settled(session string) sessions.Session {
	f.t.Helper()
	for range 5 {
		r := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{session}})
		if len(r.Sessions) == 1 && r.Sessions[0].Session.Running == nil && !r.Sessions[0].Session.NeedsInput {
			return r.Sessions[0].Session
		}
	}
	f.t.Fatalf("session %s does not settle", session)
	return sessions.Session{}
}
