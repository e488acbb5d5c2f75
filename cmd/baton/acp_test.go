package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/fixtures/cursorlike"
	"github.com/batonmcp/baton/sessions"
)

// cursor opens a session with the embedded ACP agent.
func (w *world) cursor(f *front) sessions.Session {
	w.t.Helper()
	return call[sessions.CreateResult](f, "session_create", args{"runner": "cursorlike", "cwd": w.work,
		"sandbox": sessions.SandboxFullAccess, "wait_seconds": 50}).Session
}

// send runs one command to its end.
func (f *front) send(session, text string) sessions.SendResult {
	f.t.Helper()
	return call[sessions.SendResult](f, "session_send", args{"session_id": session, "text": text, "wait_seconds": 50})
}

// What an ACP agent has its client do, Baton does: files of the workspace, and programs in the session's containment.
func TestACPFilesAndTerminals(t *testing.T) {
	w := newWorld(t)
	f := w.open()
	defer f.close()
	s := w.cursor(f)
	secret := filepath.Join(w.dir, "secret")
	w.write("secret", "s3cret")
	if err := os.Symlink(secret, filepath.Join(w.work, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ script, want string }{
		{"[fswrite new/a.txt hello there]", "wrote new/a.txt"},
		{"[fsread new/a.txt]", "read hello there"},
		{"[fsread link]", "failed"},
		{"[fswrite link stolen]", "failed"},
		{"[fsread ../secret]", "outside"},
		{"[fswrite ../new stolen]", "outside"},
		{"[term echo out; echo err >&2; pwd; exit 3]", "terminal exit 3: out\nerr\n" + w.work},
		{"[term no-such-program-there is]", "terminal exit 127"},
	} {
		if sent := f.send(s.SessionID, c.script); sent.Command.State != sessions.CommandCompleted || !strings.Contains(sent.Text, c.want) {
			t.Errorf("%s: %s, %q, want %q", c.script, sent.Command.State, sent.Text, c.want)
		}
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "s3cret" || exists(w.path("new")) {
		t.Errorf("outside: %q, %v", got, err)
	}
	evs := f.events(s.SessionID)
	shown := false
	for _, e := range evs {
		shown = shown || e.Kind == sessions.EventToolCompleted && strings.HasPrefix(e.Tool.Output, "out\nerr\n") && e.Tool.Exit != nil && *e.Tool.Exit == 3
	}
	if !shown {
		t.Errorf("no tool shows its terminal:\n%s", kinds(evs))
	}
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
}

// A cancelled turn takes its terminal with it, children that left the process group included.
func TestI09_ACPCancelEndsTheTerminal(t *testing.T) {
	w := newWorld(t)
	f := w.open()
	defer f.close()
	s := w.cursor(f)
	pids := filepath.Join(w.work, "begun")
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID,
		"text": "[term trap '' TERM; setsid sleep 601 & sleep 602 & echo x > begun; wait; sleep 603]"})
	await(t, "the program", func() bool { return exists(pids) && len(w.find("sleep 60")) >= 2 })
	cancelled := call[sessions.CancelResult](f, "session_cancel", args{"session_id": s.SessionID, "command_id": sent.Command.CommandID})
	if cancelled.Command.State != sessions.CommandInterrupted {
		t.Errorf("cancelled: %+v", cancelled.Command)
	}
	if left := w.find("sleep 60"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if again := f.send(s.SessionID, "[term echo again]"); !strings.Contains(again.Text, "again") {
		t.Errorf("after the cancel: %+v", again)
	}
}

// runners is what `baton runners --json` shows, by name.
func (w *world) runners() map[string]sessions.Runner {
	w.t.Helper()
	found := map[string]sessions.Runner{}
	for line := range strings.Lines(w.baton("runners", "--json")) {
		var r sessions.Runner
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			w.t.Fatalf("%v in %s", err, line)
		}
		found[r.Name] = r
	}
	return found
}

// Cursor tells its version and login by commands of its own; presets that nobody installed are not shown.
func TestRunnersShowCursorsAccount(t *testing.T) {
	w := newWorld(t, "BATON_RUNNER_CURSOR=baton:agent")
	r := w.runners()
	if c := r["cursor"]; c.Version != cursorlike.Version || c.Login != "yes" || len(c.Models) == 0 || c.Problem != "" {
		t.Errorf("%+v", c)
	}
	out := newWorld(t, "BATON_RUNNER_GEMINI=/nowhere/gemini")
	out.write("baton/config.toml", "[host]\nidle_exit = \"20s\"\n[runners.cursor]\ncommand = [\"baton:agent\", \"acp\", \"--signed-out\"]\n")
	r = out.runners()
	if c := r["cursor"]; c.Login != "no" || c.Problem != "" {
		t.Errorf("signed out: %+v", c)
	}
	if _, shown := r["qwen"]; shown {
		t.Error("a runner that nobody installed is shown")
	}
	if g := r["gemini"]; g.Installed || !strings.Contains(g.Problem, "BATON_RUNNER_GEMINI") {
		t.Errorf("a runner that is named and missing: %+v", g)
	}
}

// The launch flags are those of the session's sandbox and runner_options, and the process shows them.
func TestCursorLaunchFlags(t *testing.T) {
	w := newWorld(t, "BATON_RUNNER_CURSOR=baton:agent")
	f := w.open()
	defer f.close()
	more := filepath.Join(w.dir, "more")
	if err := os.Mkdir(more, 0o700); err != nil {
		t.Fatal(err)
	}
	s := call[sessions.CreateResult](f, "session_create", args{"runner": "cursor", "cwd": w.work, "sandbox": sessions.SandboxFullAccess,
		"writable_roots": []string{more}, "runner_options": args{"force": true}, "wait_seconds": 50}).Session
	if s.State != sessions.SessionIdle {
		t.Fatalf("%+v", s)
	}
	for _, want := range []string{"--trust", "--sandbox disabled", "--add-dir " + more, "--force"} {
		if len(w.find(want)) != 1 {
			t.Errorf("%q is in the command lines of %v", want, w.find(want))
		}
	}
	// Forced, a command runs without being asked for.
	if sent := f.send(s.SessionID, "[approve echo x > forced]"); sent.Command.State != sessions.CommandCompleted || !exists(filepath.Join(w.work, "forced")) {
		t.Errorf("%+v", sent)
	}
	refused(f, sessions.CodeInvalidParams, "session_create", args{"runner": "cursor", "cwd": w.work, "sandbox": sessions.SandboxFullAccess,
		"runner_options": args{"force": "yes"}})
}
