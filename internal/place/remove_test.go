package place

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A socket that somebody listens on stays, with its directory; one that was left behind goes, and so does an empty
// directory. Of the state what Baton names goes, and what else lies there stays and is told.
func TestRemove(t *testing.T) {
	home := t.TempDir()
	p, err := Find(environment("BATON_HOME", home))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	live, err := net.Listen("unix", filepath.Join(p.Runtime, "live.sock"))
	if err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(p.Runtime, "stale.sock")
	for _, f := range []string{stale, p.Journal(), p.Journal() + "-wal", p.Token(), p.Lock(), p.HostLog(), p.Installed(), p.Config, filepath.Join(p.State, "notes.txt"), filepath.Join(home, "other")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var r Removed
	if err := p.RemoveRuntime(t.Context(), &r); err != nil || !slices.Equal(r.Paths, []string{stale}) || len(r.Left) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	live.Close()
	r = Removed{}
	if err := p.RemoveRuntime(t.Context(), &r); err != nil || !slices.Contains(r.Paths, p.Runtime) {
		t.Errorf("%+v, %v", r, err)
	}
	r = Removed{}
	if err := p.RemoveState(&r); err != nil || !slices.Equal(r.Left, []string{filepath.Join(p.State, "notes.txt")}) {
		t.Errorf("%+v, %v", r, err)
	}
	left, err := filepath.Glob(filepath.Join(home, "*"))
	if err != nil || !slices.Equal(left, []string{filepath.Join(home, "other"), p.State}) {
		t.Errorf("left: %q, %v", left, err)
	}
	if err := p.RemoveState(&Removed{}); err != nil {
		t.Errorf("again: %v", err)
	}
}
