package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// What git's configuration names within the workspace as code cannot be changed, nor put elsewhere; what no rule holds is
// said.
func TestGitCode(t *testing.T) {
	needGit(t)
	u := newUser(t)
	work := u.path("work")
	u.git(u.home, "init", "-q", "work")
	for _, f := range []string{".hooks/pre-commit", ".husky/_/h", ".husky/pre-commit", "tools/clean.sh", "tools/textconv.py", "tools/ssh", "conf/included", "conf/second",
		"conf/monitor", "tools/free.sh", "branch.sh", "global/hook", "file"} {
		u.put("work/"+f, "x")
	}
	u.put("work/conf/second", "[diff \"x\"]\n\ttextconv = \"python3 tools/textconv.py --config=conf/monitor\"\n")
	u.put("work/conf/included", "[include]\n\tpath = second\n")
	u.put(".gitconfig", "[filter \"g\"]\n\tclean = global/hook %f\n")
	for _, c := range [][]string{{"core.hooksPath", ".hooks"}, {"filter.a.clean", "sh ./tools/clean.sh %f"}, {"filter.a.smudge", "tools/not-there"}, {"core.sshCommand", "tools/ssh -o x"},
		{"include.path", "../conf/included"}, {"includeIf.gitdir:/none.path", "../conf/missing"}, {"branch.sh.merge", "tools/free.sh"}, {"alias.t", "!./branch.sh free.sh"},
		{"core.fsmonitor", "true"}, {"extensions.worktreeConfig", "true"}} {
		u.git(work, "config", c[0], c[1])
	}
	s := start(t, u.ask("opencode", sessions.SandboxWorkspaceWrite, work))
	for _, f := range []string{".hooks/pre-commit", "tools/clean.sh", "tools/ssh", "conf/included", "conf/second", "tools/textconv.py", "conf/monitor", "branch.sh", "global/hook", ".git/config.worktree"} {
		s.cannot("echo y > "+f, "rm -f "+f, "mv "+f+" away", "echo y > new && mv new "+f)
	}
	s.cannot("echo y > .hooks/post-checkout", "mv .hooks h", "rm -rf .hooks", "mv tools t", "mv conf c")
	s.can("echo y > tools/free.sh", "echo y > tools/new", "echo y > file", "rm tools/free.sh", "git status", "echo y > .husky/pre-commit")
	// The known holes: what is named and not there.
	s.can("echo y > tools/not-there", "echo y > conf/missing", "mkdir -p .git/rebase-merge && echo 'exec touch x' > .git/rebase-merge/git-rebase-todo")
	for _, want := range []string{"tools/not-there", "conf/missing"} {
		if !strings.Contains(strings.Join(s.Holes, "\n"), want) {
			t.Errorf("holes: %q, nothing of %s", s.Holes, want)
		}
	}
	if len(s.Holes) != 2 {
		t.Errorf("holes: %q", s.Holes)
	}
}

// A folder of hooks that is not there is made, as that of the repository is; husky's is what lies above it too.
func TestHooksPath(t *testing.T) {
	needGit(t)
	for value, want := range map[string]struct {
		cannot string
		hole   string
	}{
		".githooks":     {cannot: "echo y > .githooks/pre-commit"},
		"deep/er/hooks": {cannot: "echo y > deep/er/hooks/x"},
		".husky/_":      {cannot: "echo y > .husky/pre-commit"},
		"link":          {cannot: "echo y > real/pre-commit", hole: "symbolic link"},
		"away/hooks":    {hole: "could not be made"},
		".":             {hole: "session is to write"},
		"/etc/hooks":    {},
		"~/hooks":       {cannot: "echo y > ~/hooks"},
	} {
		t.Run(strings.ReplaceAll(value, "/", "_"), func(t *testing.T) {
			u := newUser(t)
			work := u.path("work")
			u.git(u.home, "init", "-q", "work")
			u.put("work/real/x", "x")
			for name, to := range map[string]string{"link": "real", "away": "../other"} {
				if err := os.Symlink(to, filepath.Join(work, name)); err != nil {
					t.Fatal(err)
				}
			}
			u.put("other/x", "x")
			u.git(work, "config", "core.hooksPath", value)
			a := u.ask("opencode", sessions.SandboxWorkspaceWrite, work)
			if want.cannot != "" {
				s := start(t, a)
				s.cannot(want.cannot)
				if (want.hole != "") != (len(s.Holes) > 0) || !strings.Contains(strings.Join(s.Holes, "\n"), want.hole) {
					t.Errorf("holes: %q", s.Holes)
				}
				return
			}
			p, err := Compile(a)
			if err != nil || (len(p.Holes) > 0) != (want.hole != "") || !strings.Contains(strings.Join(p.Holes, "\n"), want.hole) {
				t.Errorf("%q, %v", p.Holes, err)
			}
			if _, err := os.Lstat(u.path("other/hooks")); err == nil {
				t.Error("a folder was made outside of the workspace")
			}
		})
	}
}

// Nobody's configuration makes the rules endless.
func TestGitCodeIsBounded(t *testing.T) {
	u := newUser(t)
	var text strings.Builder
	text.WriteString("[alias]\n")
	for i := range 3 * gitCodeBound {
		name := "s" + strings.Repeat("x", i)
		if i < 2*gitCodeBound {
			u.put("work/t/"+name[:min(len(name), 200)], "x")
		}
		text.WriteString("a = !./t/" + name[:min(len(name), 200)] + "\n")
	}
	text.WriteString("[include]\npath = config\n")
	for _, f := range []string{"HEAD", "objects/x", "refs/x"} {
		u.put("work/.git/"+f, "x")
	}
	u.put("work/.git/config", text.String())
	p, err := Compile(u.ask("opencode", sessions.SandboxWorkspaceWrite, u.path("work")))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Filesystem.Rules); n > gitCodeBound+40 || !strings.Contains(strings.Join(p.Holes, "\n"), "not all of them") {
		t.Errorf("%d rules, holes %q", n, p.Holes)
	}
	if !slices.ContainsFunc(p.Filesystem.Rules, func(r sandbox.Rule) bool { return r.Path == u.path("work/t/s") && r.Access == sandbox.ReadOnly }) {
		t.Error("the first is not protected")
	}
}
