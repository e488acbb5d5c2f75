package bridge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// The agent starts in the directory that the host looked at, or not at all.
func TestAgentStartsWhereItWasMeantTo(t *testing.T) {
	pinned := func(dirs ...string) func(*Spec) {
		return func(s *Spec) {
			s.Dir = dirs[0]
			for _, d := range dirs {
				p, err := sandbox.PinDir(d)
				if err != nil {
					t.Fatal(err)
				}
				s.Pins = append(s.Pins, p)
			}
		}
	}
	real := func(t *testing.T, names ...string) (dirs []string) {
		base, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if err := os.Mkdir(filepath.Join(base, n), 0o700); err != nil {
				t.Fatal(err)
			}
			dirs = append(dirs, filepath.Join(base, n))
		}
		return dirs
	}
	t.Run("as it was", func(t *testing.T) {
		dirs := real(t, "work", "root")
		w := begin(t, nil)
		p := w.opened(pinned(dirs...), shell("pwd >here; read x; while read x; do :; done"))
		p.give(2, InClose, CloseInput{})
		p.ended()
		if b, err := os.ReadFile(dirs[0] + "/here"); err != nil || strings.TrimSpace(string(b)) != dirs[0] {
			t.Errorf("it was started in %q, %v", b, err)
		}
	})
	for name, i := range map[string]int{"the cwd": 0, "a root": 1} {
		t.Run(name+" replaced", func(t *testing.T) {
			dirs := real(t, "work", "root", "elsewhere")
			w := begin(t, nil)
			p := w.attach(1, 0)
			open := spec(pinned(dirs[:2]...), shell("touch started"))
			if err := os.Rename(dirs[i], dirs[i]+".moved"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(dirs[2], dirs[i]); err != nil {
				t.Fatal(err)
			}
			p.give(1, InOpen, open)
			f := p.next()
			if f.Kind != OutFailed {
				t.Fatalf("%s: %s", f.Kind, f.Body)
			}
			if e := body[Failure](t, f).Error; e.Code != sessions.CodeInvalidParams || !strings.Contains(e.Message, dirs[i]) || !strings.Contains(e.Message, "looked at") {
				t.Errorf("%+v", e)
			}
			if x, _ := p.ended(); x != nil {
				t.Errorf("an agent was started: %+v", x)
			}
			w.gone()
		})
	}
}
