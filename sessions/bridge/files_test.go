package bridge

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// What was to be hidden and is not keeps the agent from being started.
func TestHiddenIsConfirmed(t *testing.T) {
	dir := t.TempDir()
	blank := filepath.Join(dir, "blank")
	if err := os.Mkdir(blank, 0); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o000); err != nil {
		t.Fatal(err)
	}
	for path, hidden := range map[string]bool{blank: true, os.DevNull: true, filepath.Join(dir, "none"): true, dir: false, file: false} {
		w := begin(t, nil)
		p := w.attach(1, 0)
		p.give(1, InOpen, spec(func(s *Spec) { s.Open.Hidden = []string{path} }))
		f := p.next()
		if hidden != (f.Kind == OutOpened) {
			t.Errorf("%s: %s %s", path, f.Kind, f.Body)
		}
		if hidden {
			if e := body[sessions.Opened](t, f).Evidence; len(e.Hidden) != 1 {
				t.Errorf("%s: evidence %+v", path, e)
			}
			p.give(2, InClose, CloseInput{})
		} else if e := body[Failure](t, f).Error; e.Code != sessions.CodeSandboxUnavailable {
			t.Errorf("%+v", e)
		}
		p.ended()
		w.gone()
	}
}
