package bridge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// An agent that plants what git takes programs from is stopped, and what it planted is gone, however it did it.
func TestPlantingEndsTheSession(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		none   bool
	}{
		"made":          {"echo ../evil > $G/commondir", false},
		"moved there":   {"echo ../evil > x; mv x $G/commondir", false},
		"a link":        {"ln -s ../evil $G/commondir", false},
		"a hard link":   {"echo x > y; ln y $G/commondir", false},
		"in the other":  {"echo ../evil > other/commondir", false},
		"and locked":    {"echo ../evil > $G/commondir; chmod 500 $G", false},
		"among others":  {"i=0; while [ $i -lt 300 ]; do echo x > $G/index.lock; mv $G/index.lock $G/index; i=$((i+1)); done; echo x > $G/commondir", false},
		"nothing of it": {"echo x > $G/index.lock; mv $G/index.lock $G/index; mkdir $G/sub; echo x > $G/sub/commondir; echo x > commondir", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []string{"git", "other"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() { os.Chmod(filepath.Join(dir, "git"), 0o755) })
			w := begin(t, nil, func(o *Options) { o.Inside = sandbox.Inside{Filesystem: "p"} })
			p := w.opened(func(s *Spec) {
				s.StopSeconds = 60 // its script runs to its end
				s.Dir, s.Argv = dir, []string{"/bin/sh", "-c", "G=git; read x; " + c.script + "; touch done; while read x; do :; done"}
				s.Open.Files = &sessions.FilePolicy{Name: "p", Watched: []string{filepath.Join(dir, "git"), filepath.Join(dir, "other"), filepath.Join(dir, "gone")}}
			})
			if err := w.agent().conn.Notify(t.Context(), "go", map[string]any{}); err != nil {
				t.Fatal(err)
			}
			if c.none {
				p.give(2, InClose, CloseInput{})
				for f := p.next(); f.Kind != OutStopped; f = p.next() {
					if f.Kind == OutFailed {
						t.Errorf("%s", f.Body)
					}
				}
				p.ack()
				w.gone()
				if _, err := os.Lstat(filepath.Join(dir, "done")); err != nil {
					t.Error(err)
				}
				return
			}
			f := p.next()
			for f.Kind != OutFailed {
				if f.Kind == OutEvent {
					if e := body[sessions.Event](t, f); e.Kind != sessions.EventError || !strings.Contains(e.Text, "planted") {
						t.Errorf("%+v", e)
					}
				}
				f = p.next()
			}
			if e := body[Failure](t, f).Error; e.Code != sessions.CodeSandboxUnavailable || !strings.Contains(e.Message, "commondir") {
				t.Errorf("%+v", e)
			}
			p.ended()
			w.gone()
			for _, d := range []string{"git", "other"} {
				if _, err := os.Lstat(filepath.Join(dir, d, "commondir")); err == nil {
					t.Errorf("%s/commondir is still there", d)
				}
			}
		})
	}
}
