package policy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

func TestWorkspaceWrite(t *testing.T) {
	u := newUser(t)
	work := filepath.Dir(u.put("work/file", "x"))
	u.put("other/file", "x")
	u.put(".ssh/id", "secret")
	u.put(".docker/config.json", "secret")
	u.put(".netrc", "secret")
	u.put("more/file", "x")
	own := filepath.Dir(u.put(".local/state/baton/token", "secret"))
	a := u.ask("opencode", sessions.SandboxWorkspaceWrite, work)
	a.Roots, a.Own = []string{u.path("more")}, []string{own}
	s := start(t, a)
	s.can("echo y > file", "mkdir new", "mktemp", "echo x > $TMPDIR/x", "cat ../other/file", "echo y > ../more/file",
		"echo x > ~/.local/share/opencode/x", "echo x > ~/.cache/opencode/x", "test ! -s ~/.netrc")
	s.cannot("echo y > ../other/file", "echo y > ../new", "echo x > ~/.bashrc", "echo x > /var/tmp/policy-new", "mkdir ~/.config/opencode",
		"cat ~/.ssh/id", "ls ~/.ssh", "ls ~/.docker", "ls ~/.local/state/baton", "cat "+own+"/token", "ls /run/user/"+strings.TrimPrefix(filepath.Base((&compiler{}).runtimeDir()), "x")+"/bus")
	if want := []string{u.path(".cache/opencode"), u.path(".local/share/opencode"), u.path(".local/state/opencode"), u.path("more"), work}; !slices.Equal(s.Writable, want) {
		t.Errorf("writable: %v, want %v", s.Writable, want)
	}
	if len(s.Holes) > 0 {
		t.Errorf("holes: %q", s.Holes)
	}
}

// What Baton starts and hides is said in its configuration: a session that may write the folder above it does not change it,
// nor move it away, nor make the first one, nor put another link in the place of one.
func TestOwnConfig(t *testing.T) {
	config := ".config/baton/config.toml"
	try := "echo y >> ~/" + config + " || echo y > ~/" + config + ".new && mv ~/" + config + ".new ~/" + config
	moves := []string{try, "rm ~/" + config, "mv ~/.config/baton ~/.config/b", "mv ~/.config ~/c"}
	for name, prepare := range map[string]func(u *user){
		"there":     func(u *user) { u.put(config, "x") },
		"not there": func(*user) {},
		"a link": func(u *user) {
			u.put("dotfiles/baton.toml", "x")
			u.put(".config/baton/file", "x")
			if err := os.Symlink(u.path("dotfiles/baton.toml"), u.path(config)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, around := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, around %v", name, around), func(t *testing.T) {
				u := newUser(t)
				prepare(u)
				a := u.ask("opencode", sessions.SandboxWorkspaceWrite, u.path(""))
				a.Around, a.Config = around, u.path(config)
				s := start(t, a)
				s.can("echo y > file", "echo y > ~/.config/file")
				s.cannot(moves...)
				s.cannot("test -e ~/dotfiles && echo y >> ~/dotfiles/baton.toml || exit 1")
				if len(s.Holes) > 0 {
					t.Errorf("holes: %q", s.Holes)
				}
			})
		}
	}
}

func TestReadOnly(t *testing.T) {
	u := newUser(t)
	work := filepath.Dir(u.put("work/file", "x"))
	s := start(t, u.ask("opencode", sessions.SandboxReadOnly, work))
	s.can("cat file", "mktemp", "echo x > ~/.local/share/opencode/x")
	s.cannot("echo y > file", "echo y > new", "rm file", "chmod 777 file", "mv file file2")
}

// Its roots it writes, but not what is kept in them, of Baton's configuration above all.
func TestReadOnlyWritesItsRoots(t *testing.T) {
	u := newUser(t)
	work := filepath.Dir(u.put("work/file", "x"))
	u.put("work/reports/file", "x")
	for _, around := range []bool{true, false} {
		a := u.ask("opencode", sessions.SandboxReadOnly, work)
		a.Around, a.Roots, a.Config = around, []string{u.path("work/reports"), u.path(".config")}, u.path(".config/baton/config.toml")
		u.put(".config/other", "x")
		s := start(t, a)
		s.can("echo y > reports/file", "echo y > reports/new", "echo y > ~/.config/other")
		s.cannot("echo y > ~/.config/baton/config.toml", "mv ~/.config/baton ~/.config/b")
		if around {
			s.cannot("echo y > file", "echo y > new", "mv reports r", "rmdir reports")
		}
	}
}

// With a sandbox of the agent's own only credentials are hidden; with full access, nothing.
func TestAgentsOwnSandbox(t *testing.T) {
	u := newUser(t)
	work := filepath.Dir(u.put("work/file", "x"))
	u.put("other/file", "x")
	u.put(".ssh/id", "secret")
	u.put(".codex/auth.json", "own")
	u.put(".gemini/oauth_creds.json", "secret")
	a := u.ask("codex", sessions.SandboxWorkspaceWrite, work)
	a.Around = false
	s := start(t, a)
	s.can("echo y > ../other/file", "cat ~/.codex/auth.json | grep own", "test ! -s ~/.gemini/oauth_creds.json", "test -z \"$TMPDIR\"")
	s.cannot("cat ~/.ssh/id")
	a.Sandbox = sessions.SandboxFullAccess
	if p, err := Compile(a); err != nil || p.Filesystem != nil || !slices.Equal(p.Env, a.Env) {
		t.Errorf("full access: %+v, %v", p, err)
	}
}

func (u *user) git(dir string, args ...string) string {
	u.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(slices.Clone(u.env), "PATH="+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("git %v: %v %s", args, err, out)
	}
	return string(out)
}

// planted are the ways to make git run a program outside of the session, by what is in a repository.
var planted = []string{
	"echo x > $G/hooks/post-checkout", "chmod 777 $G/hooks", "mv $G/hooks $G/h", "rm -rf $G/hooks", "ln -s /tmp $G/hooks/x",
	"git config core.fsmonitor /bin/false", "echo x >> $G/config", "echo x > $G/config.new && mv $G/config.new $G/config", "rm -f $G/config",
	"mv $G $G.away",
}

func TestRepository(t *testing.T) {
	needGit(t)
	u := newUser(t)
	work := u.path("work")
	u.git(u.home, "init", "-q", "work")
	u.put("work/file", "x")
	u.git(work, "add", ".")
	u.git(work, "commit", "-qm", "one")
	u.git(work, "worktree", "add", "-q", "../linked")
	u.git(work, "init", "-q", "nested")
	s := start(t, u.ask("opencode", sessions.SandboxWorkspaceWrite, work))
	s.can("git status", "echo y > file", "git add file", "git commit -qm two", "git checkout -qb branch", "git branch -d branch || git branch -D branch || true", "git gc -q", "git stash list")
	for _, p := range planted {
		s.cannot("G=.git; " + p)
		if strings.Contains(p, "git config") || strings.Contains(p, "$G.away") {
			continue
		}
		s.cannot("G=nested/.git; " + p)
	}
	pointers := ".git/worktrees/linked/"
	s.cannot("echo /tmp > "+pointers+"commondir", "rm "+pointers+"commondir", "mv "+pointers+"gitdir x", "mv .git/worktrees .git/w", "mv .git/worktrees/linked .git/worktrees/l")
	if log := u.git(work, "log", "--oneline"); !strings.Contains(log, "two") {
		t.Errorf("log: %s", log)
	}
	// No rule holds this: in the .git of a plain repository the file commondir can be made, and git outside follows it. It is
	// to be looked for, and the bridge of a session does.
	s.can("echo ../away > .git/commondir")
	if want := []string{filepath.Join(work, ".git"), filepath.Join(work, "nested/.git")}; !slices.Equal(s.Watched, want) {
		t.Errorf("to be looked at: %q, want %q", s.Watched, want)
	}
	p, err := Compile(u.ask("opencode", sessions.SandboxWorkspaceWrite, work))
	if err != nil || len(p.Watched) != 1 || !strings.Contains(strings.Join(p.Holes, "\n"), "commondir") {
		t.Errorf("the next session does not say so: %q, %v", p.Holes, err)
	}
}

func TestLinkedWorktree(t *testing.T) {
	needGit(t)
	u := newUser(t)
	main := u.path("main")
	u.git(u.home, "init", "-q", "main")
	u.put("main/file", "x")
	u.git(main, "add", ".")
	u.git(main, "commit", "-qm", "one")
	u.git(main, "worktree", "add", "-q", "../work")
	work := u.path("work")
	s := start(t, u.ask("opencode", sessions.SandboxWorkspaceWrite, work))
	s.can("git status", "echo y > file", "git add file", "git commit -qm two", "git branch other", "git branch -D other", "git gc -q", "git log --oneline | grep two")
	for _, p := range planted {
		s.cannot("G=../main/.git; " + p)
	}
	pointers := "../main/.git/worktrees/work/"
	s.cannot("rm .git", "echo gitdir: /tmp > .git", "mv .git x", "echo y > ../main/file", "echo x > "+pointers+"commondir",
		"echo x > "+pointers+"gitdir", "mv "+strings.TrimSuffix(pointers, "/")+" ../main/.git/worktrees/w", "mv ../main/.git/worktrees ../main/.git/w",
		// the attack whole: a repository of one's own in the place of the pointer's
		"mkdir evil && printf '[core]\\n\\tfsmonitor = touch /var/tmp/owned\\n' > evil/config && echo $PWD/evil > "+pointers+"commondir")
	u.git(work, "status")
	u.git(main, "status")
}

// Whoever may write a workspace may write the pointer in it, and must gain nothing by it.
func TestFalseWorktree(t *testing.T) {
	needGit(t)
	for name, plant := range map[string]func(u *user, pointer string){
		"another's worktree": func(u *user, pointer string) {
			u.git(u.path("main"), "worktree", "add", "-q", "../linked")
			u.put(pointer, "gitdir: "+u.path("main/.git/worktrees/linked"))
		},
		"a repository": func(u *user, pointer string) { u.put(pointer, "gitdir: "+u.path("main/.git")) },
		"any folder": func(u *user, pointer string) {
			u.put("target/worktrees/w/gitdir", u.path(pointer))
			u.put("target/worktrees/w/commondir", "../..")
			u.put(pointer, "gitdir: "+u.path("target/worktrees/w"))
		},
		"another common folder": func(u *user, pointer string) {
			u.put("work/fake/worktrees/w/gitdir", u.path(pointer))
			u.put("work/fake/worktrees/w/commondir", u.path("main/.git"))
			u.put(pointer, "gitdir: fake/worktrees/w")
		},
		"nothing": func(u *user, pointer string) { u.put(pointer, "gitdir: "+u.path("none")) },
		"no text": func(u *user, pointer string) { u.put(pointer, strings.Repeat("x", 1<<20)) },
		"a link": func(u *user, pointer string) {
			if err := os.Symlink(u.path("main/.git"), u.path(pointer)); err != nil {
				u.t.Fatal(err)
			}
		},
		"Baton's own": func(u *user, pointer string) {
			u.git(u.home, "init", "-q", "own")
			u.put("own/f", "x")
			u.git(u.path("own"), "add", ".")
			u.git(u.path("own"), "commit", "-qm", "x")
			if err := os.Remove(u.path("work/x")); err != nil {
				u.t.Fatal(err)
			}
			u.git(u.path("own"), "worktree", "add", "-q", "../work")
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t)
			u.git(u.home, "init", "-q", "main")
			u.put("main/f", "x")
			u.git(u.path("main"), "add", ".")
			u.git(u.path("main"), "commit", "-qm", "x")
			u.put("work/x", "x")
			plant(u, "work/.git")
			a := u.ask("opencode", sessions.SandboxWorkspaceWrite, u.path("work"))
			a.Own = []string{u.path("own")}
			p, err := Compile(a)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range p.Filesystem.Rules {
				if r.Access == sandbox.Writable && (within(r.Path, u.path("main")) || within(r.Path, u.path("target")) || within(r.Path, u.path("own"))) {
					t.Errorf("%s became writable", r.Path)
				}
			}
			if len(p.Holes) == 0 && name != "a repository" {
				t.Error("nothing is said")
			}
		})
	}
}

// An agent's configuration, which later runs obey, is read-only in the folder that holds its state.
func TestAgentsConfiguration(t *testing.T) {
	for runner, want := range map[string]struct{ state, kept string }{
		"codex-acp": {".codex/state.sqlite", ".codex/config.toml"},
		"codex":     {".codex/state.sqlite", ".codex/config.toml"},
		"gemini":    {".gemini/tmp/x", ".gemini/settings.json"},
		"claude":    {".claude/projects/x", ".claude/settings.json"},
		"qwen":      {".qwen/tmp/x", ".qwen/settings.json"},
		"cursor":    {".cursor/chats/x", ".cursor/mcp.json"},
		"opencode":  {".local/share/opencode/x", ".config/opencode/opencode.json"},
		"mine":      {".mine/x", ".config/mine/config"},
	} {
		t.Run(runner, func(t *testing.T) {
			u := newUser(t)
			work := filepath.Dir(u.put("work/file", "x"))
			u.put(want.state, "x")
			u.put(want.kept, "kept")
			s := start(t, u.ask(runner, sessions.SandboxWorkspaceWrite, work))
			kept := "~/" + want.kept
			s.can("echo y > ~/"+want.state, "grep kept "+kept)
			s.cannot("echo y > "+kept, "rm "+kept, "mv "+kept+" "+kept+".old", "echo y > "+kept+".new && mv "+kept+".new "+kept)
		})
	}
}

// What starts by itself when a person opens the folder cannot be changed, where it is there.
func TestStartFiles(t *testing.T) {
	u := newUser(t)
	work := filepath.Dir(u.put("work/.mcp.json", "{}"))
	u.put("work/.vscode/tasks.json", "{}")
	u.put("work/.claude/settings.json", "{}")
	u.put("work/.claude/notes", "{}")
	s := start(t, u.ask("opencode", sessions.SandboxWorkspaceWrite, work))
	s.can("echo x > .claude/notes", "echo x > .envrc")
	s.cannot("echo x > .mcp.json", "mv .mcp.json x", "echo x > .vscode/tasks.json", "mv .vscode x", "echo x > .claude/settings.json", "mv .claude x")
	if text, err := os.ReadFile(u.path("work/.mcp.json")); err != nil || string(text) != "{}" {
		t.Errorf("%q, %v", text, err)
	}
}

// What a session needs is there, wherever it lies, and nothing else of the private folders.
func TestBroughtBack(t *testing.T) {
	base := t.TempDir() // below /tmp
	if !strings.HasPrefix(base, "/tmp/") {
		t.Skipf("NOT TESTED: temporary folders are in %s", base)
	}
	u := &user{t: t, home: filepath.Join(base, "home")}
	u.env = []string{"PATH=/usr/bin:/bin:" + filepath.Join(base, "bin"), "HOME=" + u.home, "SSL_CERT_FILE=" + filepath.Join(base, "ca.pem"), "TMPDIR=" + base,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	work := filepath.Dir(u.put("../work/file", "x"))
	u.put("../bin/tool", "#!/bin/sh\necho tool\n")
	if err := os.Chmod(filepath.Join(base, "bin/tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	u.put("../ca.pem", "cert")
	u.put("../agent/node_modules/a/run.js", "x")
	u.put("../agent/other", "x")
	u.put("../native/bin/program", "x")
	u.put("../native/resources/helper", "x")
	if err := os.Chmod(filepath.Join(base, "native/bin/program"), 0o755); err != nil {
		t.Fatal(err)
	}
	u.env = append(u.env, "NATIVE="+filepath.Join(base, "native/bin/program"))
	u.put("../lost", "x")
	u.put("../home/.ssh/id", "secret")
	u.put("../home/file", "x")
	u.put("../home/.codex/config.toml", "x")
	a := u.ask("codex-acp", sessions.SandboxWorkspaceWrite, work)
	a.Executable = filepath.Join(base, "agent/node_modules/a/run.js")
	a.Argv = []string{a.Executable}
	needGit(t)
	u.put("../main/file", "x")
	u.git(filepath.Join(base, "main"), "init", "-q")
	u.git(filepath.Join(base, "main"), "commit", "-q", "--allow-empty", "-m", "one")
	u.git(filepath.Join(base, "main"), "worktree", "add", "-q", "../linked")
	linked := a
	linked.Sandbox, linked.Cwd = sessions.SandboxReadOnly, filepath.Join(base, "linked")
	ro := start(t, linked)
	ro.can("git log --oneline")
	ro.cannot("git commit -q --allow-empty -m two", "echo x > file")
	s := start(t, a)
	s.can("echo y > file", "tool", "cat $SSL_CERT_FILE", "cat "+a.Executable, "cat $NATIVE", "cat "+base+"/native/resources/helper", "cat ~/file", "echo x > ~/.codex/new", "test $TMPDIR = /tmp", "echo x > /tmp/x")
	s.cannot("cat "+base+"/lost", "cat "+base+"/agent/other", "cat ~/.ssh/id", "echo x > ~/file", "echo x > "+a.Executable, "echo x > ~/.codex/config.toml")
	if exists := func() bool { _, err := os.Stat("/tmp/x"); return err == nil }(); exists {
		t.Error("/tmp is the machine's")
	}
}
