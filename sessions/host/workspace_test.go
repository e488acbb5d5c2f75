package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sandbox/policy"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// link puts a symbolic link to a folder in the place of path; what is there is moved away.
func link(t *testing.T, to, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err == nil {
		if err := os.Rename(path, path+".moved"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A session is kept with the directories that its caller's paths led to.
func TestWorkspaceIsResolved(t *testing.T) {
	r := newRig(t)
	base, root := folder(t), folder(t)
	way, wayToRoot := filepath.Join(base, "way"), filepath.Join(base, "root")
	link(t, r.cwd, way)
	link(t, root, wayToRoot)
	s := r.starting(func(a *sessions.CreateArgs) {
		a.Cwd, a.WritableRoots, a.Key = base+"/./way/.", []string{wayToRoot}, "k"
	})
	l := r.launches[s.generation]
	if v := s.view(); v.Cwd != r.cwd || l.spec.Dir != r.cwd || l.spec.Open.Cwd != r.cwd {
		t.Errorf("cwd %s, started in %s, told %s; want %s", v.Cwd, l.spec.Dir, l.spec.Open.Cwd, r.cwd)
	}
	if !slices.Equal(l.spec.Open.WritableRoots, []string{root}) || len(l.spec.Pins) != 2 {
		t.Errorf("roots %q, pins %+v", l.spec.Open.WritableRoots, l.spec.Pins)
	}
	r.tx(func(tx *journal.Tx) error {
		kept, err := tx.GetSession("local", s.id)
		if !slices.Equal(kept.Settings.WritableRoots, []string{root}) {
			t.Errorf("kept roots %q", kept.Settings.WritableRoots)
		}
		return err
	})
	for _, cwd := range []string{way, r.cwd} {
		if found, err := r.List(t.Context(), r.who, sessions.ListArgs{Cwd: cwd}); err != nil || len(found.Sessions) != 1 {
			t.Errorf("%s: %+v, %v", cwd, found, err)
		}
	}
}

// What a session was made for is what it is resumed in; a link that came in its place is seen.
func TestWorkspaceOfAResume(t *testing.T) {
	for name, swap := range map[string]func(t *testing.T, cwd, root, elsewhere string){
		"cwd":          func(t *testing.T, cwd, _, elsewhere string) { link(t, elsewhere, cwd) },
		"root":         func(t *testing.T, _, root, elsewhere string) { link(t, elsewhere, root) },
		"made anew":    func(t *testing.T, cwd, _, _ string) { remake(t, cwd) },
		"as they were": func(*testing.T, string, string, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			root := folder(t)
			s := r.idle(func(a *sessions.CreateArgs) { a.WritableRoots = []string{root} })
			if _, err := r.Close(t.Context(), r.who, sessions.CloseArgs{SessionID: s.id, WaitSeconds: ptr(0)}); err != nil {
				t.Fatal(err)
			}
			s.ends(sandbox.Confirmed)
			swap(t, r.cwd, root, folder(t))
			_, err := r.Resume(t.Context(), r.who, sessions.ResumeArgs{SessionID: s.id, WaitSeconds: ptr(0)})
			if name == "made anew" || name == "as they were" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused(t, err, sessions.CodeInvalidParams, "leads to")
		})
	}
}

func remake(t *testing.T, dir string) {
	t.Helper()
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// A caller who is bound to folders is held to them by the host itself, where its paths lead to at that moment.
func TestWorkspaceOfABoundCaller(t *testing.T) {
	r := newRig(t)
	bound := r.who
	bound.Folders = []string{r.cwd}
	inside, outside := filepath.Join(r.cwd, "in"), folder(t)
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	way := filepath.Join(r.cwd, "way")
	link(t, outside, way)
	for path, ok := range map[string]bool{r.cwd: true, inside: true, outside: false, way: false, filepath.Dir(r.cwd): false} {
		_, err := r.Create(t.Context(), bound, r.args(func(a *sessions.CreateArgs) { a.Cwd = path }))
		if ok && err != nil {
			t.Errorf("%s: %v", path, err)
		} else if !ok {
			refused(t, err, sessions.CodeInvalidParams, "bound")
		}
	}
	_, err := r.Create(t.Context(), bound, r.args(func(a *sessions.CreateArgs) { a.WritableRoots = []string{outside} }))
	refused(t, err, sessions.CodeInvalidParams, "writable_roots", "bound")
}

// Between the plan of a session and its launch a directory may be replaced; nothing is started in another one.
func TestWorkspaceIsHeldUntilTheLaunch(t *testing.T) {
	r := newRig(t)
	s := r.starting()
	link(t, folder(t), r.cwd)
	refused(t, r.tenderOf(s.id, s.generation, journal.Generation{}).start(), sessions.CodeInvalidParams, r.cwd, "looked at")

	// Nor when the plan looked at it after a check of the caller's own: what was planned is what is compared.
	l := launch{}
	w, err := r.workspaceOf(r.who, folder(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if l, _, err = r.plan(r.who, s.id, s.generation, "fake", w, sessions.Settings{Sandbox: sessions.SandboxWorkspaceWrite}); err != nil {
		t.Fatal(err)
	}
	if err := l.unmoved(); err != nil {
		t.Error(err)
	}
	remake(t, w.cwd)
	refused(t, l.unmoved(), sessions.CodeInvalidParams, w.cwd)
}

// What bound a session when it was made binds it at every later start, whoever asks for that.
func TestResumeKeepsTheBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		made, resumes func(cwd string) []string
		change        func(*sessions.ResumeArgs)
		code          sessions.Code
		policy        string
		then          func(cwd string) []string // what the session is kept with
	}{
		"its owner":                        {made: bounds(""), policy: sessions.SandboxWorkspaceWrite, then: bounds("")},
		"its owner, for more":              {made: bounds(""), change: func(a *sessions.ResumeArgs) { a.WritableRoots = []string{"/var/tmp"} }, code: sessions.CodeInvalidParams},
		"its owner, for all":               {made: bounds(""), change: func(a *sessions.ResumeArgs) { a.Sandbox = sessions.SandboxFullAccess }, then: bounds("")},
		"one with a narrower bound":        {made: bounds(".."), resumes: bounds(""), policy: sessions.SandboxWorkspaceWrite, then: bounds("..")},
		"one with another bound":           {made: bounds(""), resumes: func(string) []string { return []string{"/usr"} }, code: sessions.CodeInvalidParams},
		"one with a bound, where none was": {resumes: bounds(""), policy: sessions.SandboxWorkspaceWrite, then: bounds("")},
		"without any":                      {policy: policy.Hidden},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.can = sandbox.Capability{Rung: sandbox.PIDNamespace, MountNamespace: true, Filesystem: true}
			if tt.made != nil {
				r.who.Folders = tt.made(r.cwd)
			}
			s := r.idle(func(a *sessions.CreateArgs) { a.Sandbox = sessions.SandboxWorkspaceWrite })
			s.ends(sandbox.Confirmed)
			if r.who.Folders = nil; tt.resumes != nil {
				r.who.Folders = tt.resumes(r.cwd)
			}
			res, err := s.resume(func(a *sessions.ResumeArgs) {
				if tt.change != nil {
					tt.change(a)
				}
			})
			if tt.code != "" {
				refused(t, err, tt.code, "folders")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			files := r.launched(res.Session.Generation).Open.Files
			if files == nil || tt.policy == "" {
				if files != nil || tt.policy != "" {
					t.Errorf("the policy is %+v, want %q", files, tt.policy)
				}
			} else if files.Name != tt.policy {
				t.Errorf("the policy is %s, want %s", files.Name, tt.policy)
			}
			var want []string
			if tt.then != nil {
				want = tt.then(r.cwd)
			}
			r.tx(func(tx *journal.Tx) error {
				kept, err := tx.GetSession("", s.id)
				if !slices.Equal(kept.Settings.Folders, want) {
					t.Errorf("kept with %q, want %q", kept.Settings.Folders, want)
				}
				return err
			})
		})
	}
}

// A session that its owner gave full access is not taken up with it by a caller who is bound.
func TestBoundCallerResumesNoFullAccess(t *testing.T) {
	r := newRig(t)
	s := r.idle(func(a *sessions.CreateArgs) { a.Sandbox = sessions.SandboxFullAccess })
	s.ends(sandbox.Confirmed)
	r.who.Folders = []string{r.cwd}
	_, err := s.resume()
	refused(t, err, sessions.CodeUnsupported, sessions.SandboxFullAccess, "bound")
	if _, err := s.resume(func(a *sessions.ResumeArgs) { a.Sandbox = sessions.SandboxWorkspaceWrite }); err != nil {
		t.Error(err)
	}
}

// bounds is a folder as seen from the cwd.
func bounds(from string) func(cwd string) []string {
	return func(cwd string) []string { return []string{filepath.Join(cwd, from)} }
}
