package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// planted are the secrets of a session, by where they come from.
var planted = map[string]string{
	"environment": "Env1-pLanted/se+cret=0001",
	"session":     "Ses2-pLanted\"se<cret&0002",
	"answer":      "Ans3-pLanted se^cret~0003",
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
		a := args{"runner": runner, "cwd": w.work, "sandbox": sessions.SandboxFullAccess, "env": args{"MY_SETTING": planted["session"]}, "wait_seconds": 50}
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

// TestI13_SecretAnswersStayOut: what is answered to a secret question reaches the agent, also through a host that is killed
// in between, and is nowhere else.
func TestI13_SecretAnswersStayOut(t *testing.T) {
	w := newWorld(t)
	f := w.open()
	defer f.close()
	s := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work, "wait_seconds": 50}).Session
	for _, kill := range []bool{false, true} {
		sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[ask secret]"})
		asked := f.settle(s.SessionID)
		if len(asked.Requests) != 1 || len(asked.Requests[0].Questions) != 1 || !asked.Requests[0].Questions[0].Secret {
			t.Fatalf("no secret question: %+v", asked)
		}
		if kill {
			if err := syscall.Kill(w.hostPID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		a := args{"session_id": s.SessionID, "request_id": asked.Requests[0].RequestID, "answers": args{"color": []string{planted["answer"]}}}
		answered := call[sessions.RespondResult](f, "session_respond", a)
		if answered.Request.State != sessions.RequestAnswered {
			t.Errorf("%+v", answered.Request)
		}
		shown, err := json.Marshal(answered)
		if err != nil {
			t.Fatal(err)
		}
		w.absent("the result", shown)
		call[sessions.RespondResult](f, "session_respond", a) // the same again
		a["answers"] = args{"color": []string{planted["answer"] + "x"}}
		refused(f, sessions.CodeAlreadyAnswered, "session_respond", a)
		f.settle(s.SessionID)
		// The agent repeats what it got, and the bridge knows it.
		if got := words(f.events(s.SessionID), sent.Command.CommandID); !strings.Contains(got, "answered: [\"[redacted]\"]") {
			t.Errorf("the agent got %q", got)
		}
		if left, err := os.ReadDir(w.path("baton/state/sealed")); err != nil || len(left) > 0 {
			t.Errorf("kept: %v %v", left, err)
		}
	}
	w.absent("export", []byte(w.baton("journal", "export", s.SessionID)))
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
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
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a host tidies up after a session
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
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
