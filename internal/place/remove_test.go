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
	live, err := net.Listen("unix", filepath.Join(p.Runtime, "host.sock"))
	if err != nil {
		t.Fatal(err)
	}
	stale := p.BridgeSocket("0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a11")
	deaf(t, stale)
	for _, f := range []string{p.Journal(), p.Journal() + "-wal", p.Token(), p.Lock(), p.HostLog(), p.Installed(), p.Config, filepath.Join(p.State, "notes.txt"), filepath.Join(home, "other")} {
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
	if err := p.RemoveState(&r, true); err != nil || !slices.Equal(r.Left, []string{filepath.Join(p.State, "notes.txt")}) {
		t.Errorf("%+v, %v", r, err)
	}
	left, err := filepath.Glob(filepath.Join(home, "*"))
	if err != nil || !slices.Equal(left, []string{filepath.Join(home, "other"), p.State}) {
		t.Errorf("left: %q, %v", left, err)
	}
	if err := p.RemoveState(&Removed{}, true); err != nil {
		t.Errorf("again: %v", err)
	}
}

// deaf makes a socket on which nobody listens.
func deaf(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// The folder that BATON_HOME names may have a name that is a pattern, and hold what others put there: neither its
// neighbours nor others' sockets, files and configuration go, nor what a link leads to.
func TestRemoveOthers(t *testing.T) {
	dir := t.TempDir()
	neighbour := filepath.Join(dir, "other")
	home, elsewhere := filepath.Join(dir, "*"), filepath.Join(dir, "elsewhere")
	p, err := Find(environment("BATON_HOME", home))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	stays := []string{filepath.Join(neighbour, "state", "journal.db"), filepath.Join(neighbour, "run", "host.sock"), filepath.Join(elsewhere, "file"),
		filepath.Join(p.Runtime, "notes.sock"), filepath.Join(p.Runtime, "other.sock"), p.Config}
	for _, f := range stays {
		if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(f) == "other.sock" {
			deaf(t, f)
		} else if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spill := filepath.Join(p.State, "spill")
	if err := os.Remove(spill); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, spill); err != nil {
		t.Fatal(err)
	}
	var r Removed
	if err := p.RemoveRuntime(t.Context(), &r); err != nil {
		t.Error(err)
	}
	if err := p.RemoveState(&r, false); err != nil {
		t.Error(err)
	}
	for _, f := range stays {
		if _, err := os.Lstat(f); err != nil {
			t.Errorf("%v; removed: %q", err, r.Paths)
		}
	}
	if want := []string{stays[3], stays[4], p.Config}; !slices.Equal(r.Left, want) {
		t.Errorf("left: %q instead of %q", r.Left, want)
	}
}
