package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host/remote"
)

// codexCommand lets a Codex behind a mock of its provider run a command, approves what it asks, and tells whether it asked.
func (f *front) codexCommand(session, text string) (asked bool) {
	f.t.Helper()
	call[sessions.SendResult](f, "session_send", args{"session_id": session, "text": text})
	for {
		s := f.settle(session)
		if len(s.Requests) == 0 {
			if s.Last == nil || s.Last.State != sessions.CommandCompleted {
				f.t.Errorf("%s: %+v", text, s.Last)
			}
			return asked
		}
		asked = true
		call[sessions.RespondResult](f, "session_respond", args{"session_id": session, "request_id": s.Requests[0].RequestID, "decision": "approve"})
	}
}

// effect is what a command of a Codex leaves in the world: a file, and whether it may be there. One that asks is
// approved, which lets it out of Codex's own sandbox.
type effect struct {
	script string
	file   string // "": the script makes result in the workspace
	ask    bool
	may    bool
}

func (w *world) effects(f *front, s sessions.Session, cwd string, effects []effect) {
	w.t.Helper()
	for _, e := range effects {
		op, file := "[shell ", e.file
		if e.ask {
			op = "[shellesc "
		}
		if file == "" {
			file = filepath.Join(cwd, "result")
		}
		f.codexCommand(s.SessionID, op+e.script+"]")
		if exists(file) != e.may {
			w.t.Errorf("%s%s]: %s is there: %v", op, e.script, file, exists(file))
			for _, ev := range f.events(s.SessionID) {
				if ev.Tool != nil && ev.Kind == sessions.EventToolCompleted {
					w.t.Logf("tool: %+v", ev.Tool)
				}
			}
		}
		os.Remove(file)
	}
}

// TestPolicyHoldsCodexACP: the real codex-acp, whose own sandbox goes on inside of the session's. An approval lets a
// command out of the one, and never out of the other.
func TestPolicyHoldsCodexACP(t *testing.T) {
	a := everyAgent[len(everyAgent)-1]
	w, _ := a.start(t)
	linked, outside := w.repository(w.work), outsideOf(t)
	if err := os.MkdirAll(w.path("home/.ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.write("home/.ssh/id", "secret")
	hooks := filepath.Join(w.work, ".git/hooks")
	f := w.open()
	defer f.close()
	s := a.create(w, f, args{"cwd": linked})
	needPolicy(t, s)
	if e := s.Selections.Evidence; e.Sandbox != sessions.SandboxWorkspaceWrite || e.SandboxBy != "bridge" || e.Files == nil {
		t.Errorf("evidence: %+v", e)
	}
	w.effects(f, s, linked, []effect{
		{script: "echo x > result", may: true},
		{script: "echo x > " + outside + "/new", file: outside + "/new"},
		{script: "echo x > " + outside + "/new", file: outside + "/new", ask: true},
		{script: "echo x > " + hooks + "/post-commit", file: hooks + "/post-commit", ask: true},
		{script: "git config core.fsmonitor x && touch result", ask: true},
		{script: "echo x >> $CODEX_HOME/config.toml && touch result", ask: true},
		{script: "echo x > $HOME/.bashrc", file: w.path("home/.bashrc"), ask: true},
		{script: "cat $HOME/.ssh/id && touch result", ask: true},
		{script: "ls " + w.path("baton/state") + " && touch result", ask: true},
		{script: "git add -A && git commit -q --allow-empty -m two && touch result", ask: true, may: true},
	})
	if log := w.git(linked, "log", "--oneline"); strings.Count(log, "two") != 1 {
		t.Errorf("log: %s", log)
	}
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})

	s = a.create(w, f, args{"cwd": linked, "sandbox": sessions.SandboxReadOnly})
	w.effects(f, s, linked, []effect{{script: "echo x > result"}, {script: "echo x > result", ask: true}})
}

// TestPolicyOfCodex: the real Codex is held by its own sandbox, which goes on inside of a session; an approval lets a
// command out of it. What is hidden stays hidden from that one too.
func TestPolicyOfCodex(t *testing.T) {
	x := newCodexRun(t, codexBinary(t))
	w, f := x.world, x.f
	defer f.close()
	outside := outsideOf(t) // of /tmp, which Codex lets its commands write to
	main := filepath.Join(outside, "main")
	if err := os.Mkdir(main, 0o700); err != nil {
		t.Fatal(err)
	}
	linked := w.repository(main)
	if err := os.MkdirAll(w.path("home/.ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.write("home/.ssh/id", "secret")
	hooks := filepath.Join(main, ".git/hooks")
	s := x.create(args{"cwd": linked})
	needPolicy(t, s)
	if e := s.Selections.Evidence; e.Sandbox != sessions.SandboxWorkspaceWrite || e.SandboxBy != "agent" || e.Files == nil || e.Files.Name != "hidden" || e.Files.Hidden == 0 {
		t.Errorf("evidence: %+v %+v", e, e.Files)
	}
	w.effects(f, s, linked, []effect{
		{script: "echo x > result", may: true},
		{script: "echo x > " + outside + "/new", file: outside + "/new"},
		{script: "echo x > " + outside + "/new", file: outside + "/new", ask: true, may: true}, // which is what was approved
		{script: "echo x > " + hooks + "/post-commit", file: hooks + "/post-commit"},
		{script: "cat $HOME/.ssh/id && touch result"},
		{script: "cat $HOME/.ssh/id && touch result", ask: true},
		{script: "ls " + w.path("baton/state") + " && touch result"},
		{script: "ls " + w.path("baton/state") + " && touch result", ask: true},
		{script: "git add -A && git commit -q --allow-empty -m two && touch result", ask: true, may: true},
	})
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	s = x.create(args{"cwd": linked, "sandbox": sessions.SandboxReadOnly})
	w.effects(f, s, linked, []effect{{script: "echo x > result"}, {script: "cat result; git status && echo x > " + outside + "/new", file: outside + "/new"}})
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	s = x.create(args{"cwd": w.dir}) // Baton's configuration lies in it
	w.effects(f, s, w.dir, []effect{
		{script: "echo x > result", may: true},
		{script: "echo x >> baton/config.toml && touch result"},
		{script: "echo x >> baton/config.toml && touch result", ask: true},
		{script: "mv baton other && touch result", ask: true},
	})
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	s = x.create(args{"cwd": linked, "sandbox": sessions.SandboxFullAccess})
	if e := s.Selections.Evidence; e.Files != nil {
		t.Errorf("evidence: %+v", e.Files)
	}
	w.effects(f, s, linked, []effect{
		{script: "echo x > " + outside + "/new", file: outside + "/new", may: true},
		{script: "cat $HOME/.ssh/id && touch result", may: true},
		{script: "ls " + w.path("baton/state") + " && touch result"},
	})
}

// TestPolicyOfCodexInFolders: of a caller who is bound to folders the real Codex writes in its directory, and nowhere that
// this has come to lead since, with or without an approval: Codex itself goes by the path.
func TestPolicyOfCodexInFolders(t *testing.T) {
	x := newCodexRun(t, codexBinary(t))
	w, f := x.world, x.f
	defer f.close()
	folder, outside := outsideOf(t), outsideOf(t)
	cwd := filepath.Join(folder, "sub")
	if err := os.Mkdir(cwd, 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := place.Find(func(name string) string {
		for _, v := range w.env {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	call[sessions.ListResult](f, "session_list", args{}) // starts the host
	wait := 45
	made, err := remote.New(remote.Options{Socket: p.HostSocket(), Lock: p.Lock(), TokenFile: p.Token()}).Create(t.Context(),
		sessions.Caller{Principal: sessions.DefaultPrincipal, Env: w.env, Folders: []string{folder}}, sessions.CreateArgs{Runner: "codex", Cwd: cwd, WaitSeconds: &wait})
	if err != nil {
		t.Fatal(err)
	}
	s := made.Session
	needPolicy(t, s)
	if e := s.Selections.Evidence; e.SandboxBy != "agent" || e.Files == nil || e.Files.Name != sessions.SandboxWorkspaceWrite {
		t.Errorf("evidence: %+v %+v", e, e.Files)
	}
	w.effects(f, s, cwd, []effect{
		{script: "echo x > result", may: true},
		{script: "echo x > " + outside + "/new", file: outside + "/new", ask: true},
	})
	if err := os.Rename(cwd, cwd+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, cwd); err != nil {
		t.Fatal(err)
	}
	w.effects(f, s, cwd, []effect{
		{script: "echo x > result"},
		{script: "echo x > " + outside + "/new", file: outside + "/new"},
		{script: "echo x > " + outside + "/new", file: outside + "/new", ask: true},
	})
}
