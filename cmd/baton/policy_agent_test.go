package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// repository makes a repository in a folder, and a linked worktree of it beside it.
func (w *world) repository(main string) (linked string) {
	w.t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		w.t.Skip("NOT TESTED: there is no git")
	}
	for _, a := range [][]string{{"init", "-q"}, {"config", "user.name", "a"}, {"config", "user.email", "a@b"}, {"commit", "-q", "--allow-empty", "-m", "one"}, {"worktree", "add", "-q", "../linked"}} {
		w.git(main, a...)
	}
	return filepath.Join(filepath.Dir(main), "linked")
}

func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, w.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v %s", args, err, out)
	}
	return string(out)
}

// outsideOf makes a folder that no policy lets a session write to.
func outsideOf(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "baton-policy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// needPolicy skips where no mount namespace can be had.
func needPolicy(t *testing.T, s sessions.Session) {
	t.Helper()
	if s.Containment.Rung != "pid_namespace" {
		t.Skipf("NOT TESTED: no filesystem policy on rung %s", s.Containment.Rung)
	}
}

// attempt is a script that an agent runs in its workspace, and whether it may succeed.
type attempt struct {
	script string
	may    bool
}

// outcomes lets a scripted ACP agent run scripts, one a turn, by turns in a terminal of its client's and in a process of its own.
func (f *front) outcomes(session string, attempts []attempt) {
	f.t.Helper()
	for i, a := range attempts {
		how := []string{"term", "run"}[i%2]
		sent := f.send(session, "["+how+" ("+a.script+") && echo succe''eded || echo fai''led]")
		shown := sent.Text
		for _, e := range f.events(session) {
			if e.Tool != nil && e.Command == sent.Command.CommandID {
				shown += e.Tool.Output
			}
		}
		succeeded := strings.Contains(shown, "succeeded")
		if sent.Command.State != sessions.CommandCompleted || succeeded == strings.Contains(shown, "failed") || succeeded != a.may {
			f.t.Errorf("%s %s: want %v, got %s %q", how, a.script, a.may, sent.Command.State, shown)
		}
	}
}

// TestPolicyHoldsAnACPAgent: an agent without a sandbox of its own is held by its session's mount namespace, in what it
// does itself and in what it has its client do.
func TestPolicyHoldsAnACPAgent(t *testing.T) {
	w := newWorld(t, "BATON_RUNNER_CURSOR=baton:agent")
	linked := w.repository(w.work)
	w.json("home/.cursor/mcp.json", args{})
	w.write("secret", "x")
	if err := os.MkdirAll(w.path("home/.ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.write("home/.ssh/id", "secret")
	f := w.open()
	defer f.close()
	outside := outsideOf(t)
	create := func(sandbox, cwd string) sessions.Session {
		a := args{"runner": "cursor", "cwd": cwd, "wait_seconds": 50}
		if sandbox != "" {
			a["sandbox"] = sandbox
		}
		return call[sessions.CreateResult](f, "session_create", a).Session
	}

	s := create("", linked)
	needPolicy(t, s)
	if e := s.Selections.Evidence; e.Sandbox != sessions.SandboxWorkspaceWrite || e.SandboxBy != "bridge" || e.Files == nil || e.Files.Name != e.Sandbox ||
		!slices.Contains(e.Files.Writable, linked) || e.Files.Hidden == 0 || e.Files.ReadOnly == 0 {
		t.Errorf("evidence: %+v %+v", e, e.Files)
	}
	if s.Containment.Policy != sessions.SandboxWorkspaceWrite || s.Containment.By != "bridge" {
		t.Errorf("containment: %+v", s.Containment)
	}
	hooks := filepath.Join(w.work, ".git/hooks")
	f.outcomes(s.SessionID, []attempt{
		{"echo x > file; git add file; git commit -q --allow-empty -m two", true},
		{"echo x > /tmp/policy-file; echo x > " + w.work + "/file", true}, // in a /tmp of the session's own
		{"echo x > " + outside + "/file", false},
		{"echo x > " + outside + "/file", false},
		{"echo x > " + hooks + "/post-commit", false},
		{"git config core.hooksPath /tmp", false},
		{"echo x > ~/.cursor/state", true},
		{"echo x > ~/.cursor/mcp.json", false},
		{"echo x > ~/.bashrc", false},
		{"cat ~/.ssh/id", false},
		{"ls " + w.path("baton/state"), false},
	})
	for script, want := range map[string]string{"[fswrite new.txt hello]": "wrote", "[fswrite .git x]": "failed"} {
		if sent := f.send(s.SessionID, script); !strings.Contains(sent.Text, want) {
			t.Errorf("%s: %q, want %q", script, sent.Text, want)
		}
	}
	if exists(w.work+"/file") || exists("/tmp/policy-file") {
		t.Error("/tmp is the machine's")
	}
	if log := w.git(linked, "log", "--oneline"); strings.Count(log, "two") != 1 {
		t.Errorf("log: %s", log)
	}
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})

	// It holds after a resume, too.
	s = call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 50}).Session
	if e := s.Selections.Evidence; e.SandboxBy != "bridge" || e.Files == nil {
		t.Errorf("after the resume: %+v", e)
	}
	f.outcomes(s.SessionID, []attempt{{"echo x > file", true}, {"echo x > " + outside + "/file", false}})
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})

	s = create(sessions.SandboxReadOnly, linked)
	if e := s.Selections.Evidence; e.Sandbox != sessions.SandboxReadOnly || e.SandboxBy != "bridge" {
		t.Errorf("evidence: %+v", e)
	}
	f.outcomes(s.SessionID, []attempt{{"git status", true}, {"echo x > /tmp/file", true}, {"echo x > file2", false}, {"git commit -q --allow-empty -m three", false}})
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})

	// Read-only but for its roots, which are in the workspace or elsewhere. What git would run is kept in those too.
	reports := filepath.Join(linked, "reports")
	if err := os.Mkdir(reports, 0o700); err != nil {
		t.Fatal(err)
	}
	w.git(outside, "init", "-q")
	s = call[sessions.CreateResult](f, "session_create", args{"runner": "cursor", "cwd": linked, "sandbox": sessions.SandboxReadOnly,
		"writable_roots": []string{reports, outside}, "wait_seconds": 50}).Session
	if e := s.Selections.Evidence; e.Sandbox != sessions.SandboxReadOnly || e.SandboxBy != "bridge" || e.Files == nil || !slices.Contains(e.Files.Writable, reports) {
		t.Errorf("evidence: %+v", e)
	}
	only := []attempt{{"echo x > reports/file", true}, {"echo x > " + outside + "/file", true}, {"echo x > file2", false}, {"mv reports elsewhere", false},
		{"echo x > " + outside + "/.git/hooks/pre-commit", false}, {"git commit -q --allow-empty -m three", false}}
	f.outcomes(s.SessionID, only)
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	s = call[sessions.ResumeResult](f, "session_resume", args{"session_id": s.SessionID, "wait_seconds": 50}).Session
	f.outcomes(s.SessionID, only)
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	for _, root := range []string{linked, filepath.Dir(linked)} {
		refused(f, sessions.CodeInvalidParams, "session_create", args{"runner": "cursor", "cwd": linked, "sandbox": sessions.SandboxReadOnly, "writable_roots": []string{root}})
	}

	s = create(sessions.SandboxFullAccess, linked)
	if e := s.Selections.Evidence; e.Sandbox != sessions.SandboxFullAccess || e.SandboxBy != "none" || e.Files != nil {
		t.Errorf("evidence: %+v", e)
	}
	f.outcomes(s.SessionID, []attempt{{"echo x > " + outside + "/file", true}, {"cat ~/.ssh/id", true}, {"ls " + w.path("baton/state"), false}})

	refused(f, sessions.CodeInvalidParams, "session_create", args{"runner": "cursor", "cwd": "/"})
	refused(f, sessions.CodeInvalidParams, "session_create", args{"runner": "cursor", "cwd": w.path("home/.ssh")})
}

// Without a mount namespace nothing holds an ACP agent, and a sandbox that is asked for is refused.
func TestPolicyNeedsAMountNamespace(t *testing.T) {
	w := newWorld(t, "BATON_SANDBOX_RUNG=process_group")
	f := w.open()
	defer f.close()
	for _, sandbox := range []string{sessions.SandboxReadOnly, sessions.SandboxWorkspaceWrite} {
		e := refused(f, sessions.CodeSandboxUnavailable, "session_create", args{"runner": "cursorlike", "cwd": w.work, "sandbox": sandbox})
		if !strings.Contains(e.Action, "doctor") {
			t.Errorf("%v", e)
		}
	}
}

// A workspace below /tmp may be named by a link there, which is not there in the session's own /tmp.
func TestPolicyOfAWorkspaceBehindALink(t *testing.T) {
	w := newWorld(t, "BATON_RUNNER_CURSOR=baton:agent")
	way := filepath.Join(t.TempDir(), "way")
	if err := os.Symlink(w.work, way); err != nil {
		t.Fatal(err)
	}
	f := w.open()
	defer f.close()
	s := call[sessions.CreateResult](f, "session_create", args{"runner": "cursor", "cwd": way, "wait_seconds": 50}).Session
	needPolicy(t, s)
	if s.Cwd != w.work || s.State != sessions.SessionIdle {
		t.Errorf("%s in %s, want %s", s.State, s.Cwd, w.work)
	}
	f.outcomes(s.SessionID, []attempt{{"echo x > here", true}, {"test $PWD = " + w.work, true}})
	if !exists(w.work + "/here") {
		t.Error("it did not write to its workspace")
	}
}

// What git would take programs from outside of the session is not left behind, and whoever plants it is stopped.
func TestPolicySeesWhatIsPlanted(t *testing.T) {
	w := newWorld(t, "BATON_RUNNER_CURSOR=baton:agent")
	w.repository(w.work)
	f := w.open()
	defer f.close()
	s := call[sessions.CreateResult](f, "session_create", args{"runner": "cursor", "cwd": w.work, "wait_seconds": 50}).Session
	needPolicy(t, s)
	if e := s.Selections.Evidence.Files; e == nil || !slices.Equal(e.Watched, []string{filepath.Join(w.work, ".git")}) {
		t.Errorf("evidence: %+v", e)
	}
	sent := f.send(s.SessionID, "[run mkdir evil && cp -r .git/* evil && git config -f evil/config core.fsmonitor 'touch owned' && echo ../evil > .git/commondir; sleep 600]")
	if sent.Command.State != sessions.CommandUnknown {
		t.Errorf("the command is %s", sent.Command.State)
	}
	waited := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}, "wait_seconds": 50}).Sessions[0].Session
	if e := waited.Error; waited.State != sessions.SessionFailed || e == nil || e.Code != sessions.CodeSandboxUnavailable || !strings.Contains(e.Message, "planted") {
		t.Errorf("%s: %v", waited.State, e)
	}
	if exists(w.work + "/.git/commondir") {
		t.Error("it is still there")
	}
	w.git(w.work, "status")
	if exists(w.work + "/owned") {
		t.Error("git ran a planted program")
	}
}
