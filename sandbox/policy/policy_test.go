package policy

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

func TestRefused(t *testing.T) {
	u := newUser(t)
	work := filepath.Dir(u.put("work/file", "x"))
	u.put(".ssh/project/file", "x")
	own := filepath.Dir(u.put("state/file", "x"))
	if err := os.Symlink("/", u.path("root")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		cwd   string
		roots []string
		want  string
	}{
		"fine":             {work, nil, ""},
		"missing":          {u.path("none"), nil, "cwd"},
		"in a secret":      {u.path(".ssh/project"), nil, "hidden"},
		"root in a secret": {work, []string{u.path(".ssh")}, "hidden"},
		"Baton's own":      {own, nil, "Baton's own"},
		"root in its own":  {work, []string{own}, "Baton's own"},
		"everything":       {"/", nil, "system"},
		"by a link":        {work, []string{u.path("root")}, "system"},
		"the system":       {work, []string{"/etc"}, "system"},
	} {
		t.Run(name, func(t *testing.T) {
			a := u.ask("opencode", sessions.SandboxWorkspaceWrite, tt.cwd)
			a.Roots, a.Own = tt.roots, []string{own, u.path("not made yet")}
			_, err := Compile(a)
			if tt.want == "" != (err == nil) {
				t.Fatal(err)
			}
			if err != nil && (sessions.CodeOf(err) != sessions.CodeInvalidParams || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// A read-only session writes into its roots and not into its workspace, wherever those lie.
func TestReadOnlyButForItsRoots(t *testing.T) {
	u := newUser(t)
	work := filepath.Dir(u.put("work/file", "x"))
	below, beside := filepath.Dir(u.put("work/reports/file", "x")), filepath.Dir(u.put("beside/.git/hooks/x", "x"))
	a := u.ask("opencode", sessions.SandboxReadOnly, work)
	a.Roots = []string{below, filepath.Dir(filepath.Dir(beside))}
	p, err := Compile(a)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]sandbox.Access{}
	for _, r := range p.Filesystem.Rules {
		got[r.Path] = r.Access
	}
	if got[work] == sandbox.Writable || got[below] != sandbox.Writable || got[a.Roots[1]] != sandbox.Writable || got[beside] != sandbox.ReadOnly {
		t.Errorf("rules %v", got)
	}
	for _, root := range a.Roots {
		if !slices.Contains(p.Writable, root) {
			t.Errorf("writable: %q", p.Writable)
		}
	}
	a.Roots = []string{"/etc"}
	if _, err := Compile(a); sessions.CodeOf(err) != sessions.CodeInvalidParams {
		t.Errorf("the system as a root: %v", err)
	}
}

func TestHardLinksAreSaid(t *testing.T) {
	u := newUser(t)
	work := filepath.Dir(u.put("work/a", "x"))
	if err := os.Link(u.path("work/a"), u.path("work/b")); err != nil {
		t.Fatal(err)
	}
	compile := func() string {
		p, err := Compile(u.ask("opencode", sessions.SandboxWorkspaceWrite, work))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(p.Holes, "\n")
	}
	if holes := compile(); holes != "" {
		t.Errorf("both names are in the workspace: %s", holes)
	}
	if err := os.Link(u.path("work/a"), u.path("outside")); err != nil {
		t.Fatal(err)
	}
	if holes := compile(); !strings.Contains(holes, "1 files") || !strings.Contains(holes, "work/a") {
		t.Errorf("holes: %q", holes)
	}
}

// A folder of the agent's own that leads to the user's whole home must not open it.
func TestStateThatLeadsElsewhere(t *testing.T) {
	for _, to := range []string{"..", ".", "/etc"} {
		u := newUser(t)
		work := filepath.Dir(u.put("work/file", "x"))
		if err := os.Symlink(to, u.path(".codex")); err != nil {
			t.Fatal(err)
		}
		p, err := Compile(u.ask("codex-acp", sessions.SandboxWorkspaceWrite, work))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Filesystem.Rules {
			if r.Access == sandbox.Writable && r.Path != work {
				t.Errorf("%s: %s is writable", to, r.Path)
			}
		}
		if len(p.Holes) == 0 {
			t.Errorf("%s: nothing is said", to)
		}
	}
}

// The user's own home as the workspace keeps its secrets and start files.
func TestHomeAsWorkspace(t *testing.T) {
	u := newUser(t)
	u.put(".ssh/id", "x")
	u.put(".bashrc", "x")
	u.put(".config/git/config", "x")
	p, err := Compile(u.ask("mine", sessions.SandboxWorkspaceWrite, u.home))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]sandbox.Access{}
	for _, r := range p.Filesystem.Rules {
		got[strings.TrimPrefix(r.Path, u.home)] = r.Access
	}
	for path, want := range map[string]sandbox.Access{"": sandbox.Writable, "/.ssh": sandbox.Hidden, "/.bashrc": sandbox.ReadOnly, "/.config/git": sandbox.ReadOnly, "/.config": sandbox.Writable} {
		if got[path] != want {
			t.Errorf("%q is %q, want %q", path, got[path], want)
		}
	}
}

// Of a caller who is bound to folders no link that lies in them makes what an agent keeps its state in one elsewhere.
func TestStateOfABoundCaller(t *testing.T) {
	for name, tt := range map[string]struct {
		lay     func(t *testing.T, home, outside string)
		codex   string // CODEX_HOME, below home
		bound   string // below home
		refused bool
	}{
		"a folder of its own":         {codex: "bound/codex", bound: "bound"},
		"a link out":                  {codex: "bound/codex", bound: "bound", lay: linked("bound/codex", ""), refused: true},
		"a link above it":             {codex: "bound/a/codex", bound: "bound", lay: linked("bound/a", ""), refused: true},
		"a link to what is not there": {codex: "bound/codex", bound: "bound", lay: linked("bound/codex", "none"), refused: true},
		"by two links": {codex: "way", bound: "bound", lay: func(t *testing.T, home, outside string) {
			linked("bound/on", "")(t, home, outside)
			put(t, filepath.Join(home, "bound/on"), filepath.Join(home, "way"))
		}, refused: true},
		"a link within": {codex: "bound/codex", bound: "bound", lay: func(t *testing.T, home, _ string) {
			put(t, filepath.Join(home, "bound"), filepath.Join(home, "bound/codex"))
		}},
		"the user's own link": {codex: "codex", bound: "bound", lay: linked("codex", "")},
		"the home itself":     {bound: ".", lay: linked(".codex", ""), refused: true},
		"no bound":            {codex: "bound/codex", lay: linked("bound/codex", "")},
		"links in a circle":   {codex: "bound/codex", bound: "bound", lay: func(t *testing.T, home, _ string) { put(t, "codex", filepath.Join(home, "bound/codex")) }, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			home, outside := realTemp(t), realTemp(t)
			work := filepath.Join(home, "bound/work")
			if err := os.MkdirAll(work, 0o700); err != nil {
				t.Fatal(err)
			}
			if tt.lay != nil {
				tt.lay(t, home, outside)
			}
			a := Ask{Sandbox: sessions.SandboxWorkspaceWrite, Around: true, Runner: "codex", Cwd: work, Env: []string{"HOME=" + home}}
			if tt.codex != "" {
				a.Env = append(a.Env, "CODEX_HOME="+filepath.Join(home, tt.codex))
			}
			if tt.bound != "" {
				a.Bound = []string{filepath.Join(home, tt.bound)}
			}
			p, err := Compile(a)
			if tt.refused {
				if e := sessions.AsError(err); err == nil || e.Code != sessions.CodeInvalidParams || e.Action == "" {
					t.Errorf("%v, writable %q", err, p.Writable)
				}
			} else if err != nil {
				t.Error(err)
			}
			if entries, err := os.ReadDir(outside); err != nil || tt.refused && len(entries) > 0 {
				t.Errorf("made outside: %v, %v", entries, err)
			}
		})
	}
}

// What an agent makes in its configuration at its first start, and may not, is made before it: where it is missing, and
// nowhere else. The configuration stays read-only.
func TestFirstStart(t *testing.T) {
	const name = ".gitignore"
	for title, tt := range map[string]struct {
		lay     func(t *testing.T, home, work string)
		env     string // a variable, with a folder below home
		sandbox string
		made    []string // below home
		not     []string
	}{
		"nothing is there":     {made: []string{".config/opencode/" + name}, not: []string{"work/.opencode", "work/.opencode/" + name}},
		"a folder is there":    {lay: func(t *testing.T, home, _ string) { mkdir(t, home+"/.config/opencode") }, made: []string{".config/opencode/" + name}},
		"somewhere else":       {env: "XDG_CONFIG_HOME=xdg", made: []string{"xdg/opencode/" + name}, not: []string{".config"}},
		"a further one":        {env: "OPENCODE_CONFIG_DIR=more", made: []string{"more/" + name, ".config/opencode/" + name}},
		"one of the project's": {lay: func(t *testing.T, _, work string) { mkdir(t, work+"/.opencode") }, made: []string{"work/.opencode/" + name}},
		"of a project that is only read": {lay: func(t *testing.T, _, work string) { mkdir(t, work+"/.opencode") }, sandbox: sessions.SandboxReadOnly,
			made: []string{".config/opencode/" + name}, not: []string{"work/.opencode/" + name}},
		"a link in the project": {lay: func(t *testing.T, home, work string) {
			mkdir(t, home+"/other")
			put(t, home+"/other", work+"/.opencode")
		},
			not: []string{"other/" + name}},
		"a link in its place": {lay: func(t *testing.T, home, work string) {
			mkdir(t, work+"/.opencode")
			put(t, home+"/other", work+"/.opencode/"+name)
		}, not: []string{"other"}},
	} {
		t.Run(title, func(t *testing.T) {
			home := realTemp(t)
			work := mkdir(t, home+"/work")
			if tt.lay != nil {
				tt.lay(t, home, work)
			}
			a := Ask{Sandbox: cmp.Or(tt.sandbox, sessions.SandboxWorkspaceWrite), Around: true, Runner: "opencode", Cwd: work, Env: []string{"HOME=" + home}}
			if variable, dir, ok := strings.Cut(tt.env, "="); ok {
				a.Env = append(a.Env, variable+"="+filepath.Join(home, dir))
			}
			for range 2 { // the second time it is there
				p, err := Compile(a)
				if err != nil {
					t.Fatal(err)
				}
				for _, path := range tt.made {
					text, err := os.ReadFile(filepath.Join(home, path))
					if err != nil || string(text) != opencodeSeed[name] {
						t.Errorf("%s: %q, %v", path, text, err)
					}
					if slices.Contains(p.Writable, filepath.Dir(filepath.Join(home, path))) {
						t.Errorf("the folder of %s is writable", path)
					}
				}
				for _, path := range tt.not {
					if _, err := os.Lstat(filepath.Join(home, path)); err == nil {
						t.Errorf("%s is there", path)
					}
				}
			}
		})
	}
	home := realTemp(t)
	mkdir(t, home+"/.config/opencode")
	if err := os.WriteFile(home+"/.config/opencode/"+name, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Compile(Ask{Sandbox: sessions.SandboxWorkspaceWrite, Around: true, Runner: "opencode", Cwd: mkdir(t, home+"/work"), Env: []string{"HOME=" + home}}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(home + "/.config/opencode/" + name); err != nil || string(text) != "mine" {
		t.Errorf("the user's own has %q, %v", text, err)
	}
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t *testing.T, to, link string) {
	t.Helper()
	if err := os.Symlink(to, link); err != nil {
		t.Fatal(err)
	}
}

// linked lays a link in the home to a place outside of it.
func linked(path, place string) func(t *testing.T, home, outside string) {
	return func(t *testing.T, home, outside string) {
		put(t, filepath.Join(outside, place), filepath.Join(home, path))
	}
}
