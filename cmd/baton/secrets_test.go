package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// planted are the secrets of a session, by where they come from.
var planted = map[string]string{
	"environment": "Env1-pLanted/se+cret=0001",
	"session":     "Ses2-pLanted\"se<cret&0002",
}

// forms are the encodings in which a secret must be nowhere.
func forms(secret string) map[string]string {
	escaped, _ := json.Marshal(secret) // a string always encodes
	return map[string]string{"raw": secret, "JSON": string(escaped[1 : len(escaped)-1]), "base64": base64.StdEncoding.EncodeToString([]byte(secret)),
		"URL": url.QueryEscape(secret), "hex": hex.EncodeToString([]byte(secret))}
}

// TestI13_SecretsStayOut: secrets that an agent prints, says, fails with or pipes through encodings are in no file of
// Baton's, no result and no log.
func TestI13_SecretsStayOut(t *testing.T) {
	w := newWorld(t, "OPENAI_API_KEY="+planted["environment"])
	f := w.open()
	defer f.close()
	for _, runner := range []string{"codexlike", "cursorlike"} {
		a := args{"runner": runner, "cwd": w.work, "sandbox": sessions.SandboxFullAccess, "env": args{"MY_SETTING": planted["session"]}, "wait_seconds": 30}
		s := call[sessions.CreateResult](f, "session_create", a).Session
		var results bytes.Buffer
		run := func(text string) sessions.SendResult {
			sent := f.send(s.SessionID, text)
			if sent.Command.State != sessions.CommandCompleted {
				t.Errorf("%s: %s: %+v", runner, text, sent.Command)
			}
			return sent
		}
		tools := []string{"env", `printf %s "$OPENAI_API_KEY"; printf %s "$MY_SETTING" >&2`, `printf x%s "$OPENAI_API_KEY" | base64 -w0; printf %s "$MY_SETTING" | base64 -w0`,
			`printf %s "$OPENAI_API_KEY" | od -An -tx1 | tr -d ' \n'`}
		seen := false
		for _, script := range tools {
			run("[run " + script + "]")
		}
		if runner == "cursorlike" {
			run("[term env]")
		}
		for _, e := range f.events(s.SessionID) {
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			results.Write(line)
			if e.Redacted {
				seen = true
			}
		}
		if !seen || !strings.Contains(results.String(), "[redacted]") {
			t.Errorf("%s: nothing is marked as redacted, so nothing was printed:\n%s", runner, results.String())
		}
		results.WriteString(w.baton("journal", "export", s.SessionID))
		w.absent(runner+": results", results.Bytes())
		call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	}
	w.nowhere()
}

// absent fails when a text holds a planted secret in any form.
func (w *world) absent(what string, text []byte) {
	w.t.Helper()
	for from, secret := range planted {
		for name, form := range forms(secret) {
			if i := bytes.Index(text, []byte(form)); i >= 0 {
				w.t.Errorf("%s has the secret of the %s (%s): %q", what, from, name, text[max(0, i-200):min(len(text), i+len(form)+50)])
			}
		}
	}
}

// nowhere looks through every file of Baton's.
func (w *world) nowhere() {
	w.t.Helper()
	files := 0
	err := filepath.WalkDir(w.path("baton"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		w.absent(path, text)
		return nil
	})
	if err != nil || files < 3 {
		w.t.Errorf("%d files were looked through: %v", files, err)
	}
}
