package acp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// trap is a workspace that is full of ways out.
type trap struct {
	dir   string // holds everything
	space *workspace
}

func newTrap(t *testing.T) trap {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"w/sub", "w-evil", "out", "more"} {
		must(os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for file, text := range map[string]string{"w/a.txt": "one\ntwo\nthree", "w/sub/b.txt": "b", "out/secret": "secret", "w-evil/x": "x", "more/m.txt": "m",
		"w/latin1": "caf\xe9"} {
		must(os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	for link, to := range map[string]string{"w/d": filepath.Join(dir, "out/new.txt"), "w/dr": "../out/new.txt", "w/l": filepath.Join(dir, "out"),
		"w/lr": "../out", "w/p": "/proc/self/root/tmp", "w/in": "sub/b.txt", "w/sub/up": "../..", "w/loop": "loop"} {
		must(os.Symlink(to, filepath.Join(dir, link)))
	}
	must(os.Link(filepath.Join(dir, "out/secret"), filepath.Join(dir, "w/h")))
	must(syscall.Mkfifo(filepath.Join(dir, "w/f"), 0o600))
	must(os.Symlink(filepath.Join(dir, "w"), filepath.Join(dir, "alias")))
	space, err := openWorkspace(filepath.Join(dir, "w"), []string{filepath.Join(dir, "more"), filepath.Join(dir, "gone")})
	must(err)
	t.Cleanup(space.close)
	return trap{dir, space}
}

func (p trap) path(name string) string { return p.dir + "/" + name } // not cleaned

// Ways out of the workspace are refused, for reading and for writing, and nothing comes to be outside.
func TestWorkspaceHolds(t *testing.T) {
	p := newTrap(t)
	for _, name := range []string{"w/d", "w/dr", "w/l/x", "w/lr/x", "w/lr/secret", "w/p/x", "w/../w-evil/x", "w/../out/secret", "w-evil/x",
		"out/secret", "w/sub/up/out/secret", "w/sub/../../out/x", "w/loop", "w/f", "w", "w/sub", "w/sub/up"} {
		if text, err := p.space.readText(p.path(name), 0, 0); err == nil {
			t.Errorf("read %s: %q", name, text)
		}
		err := p.space.writeText(p.path(name), "stolen")
		if err == nil {
			t.Errorf("wrote %s", name)
		}
		var path *fs.PathError
		if !errors.As(err, &path) && fileCode(err) == 0 {
			t.Errorf("%s: %v is not typed", name, err)
		}
	}
	for _, relative := range []string{"w/a.txt", "", "..", "a.txt"} {
		if _, err := p.space.readText(relative, 0, 0); !errors.Is(err, errRelative) {
			t.Errorf("%q: %v", relative, err)
		}
	}
	out, err := os.ReadDir(p.path("out"))
	if err != nil || len(out) != 1 {
		t.Errorf("outside there is now %v, %v", out, err)
	}
	for file, want := range map[string]string{"out/secret": "secret", "w-evil/x": "x"} {
		if got, err := os.ReadFile(p.path(file)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", file, got, err)
		}
	}
}

// A hard link cannot be told from a file of the workspace when it is read. It is not written.
func TestWorkspaceHardLinks(t *testing.T) {
	p := newTrap(t)
	if text, err := p.space.readText(p.path("w/h"), 0, 0); text != "secret" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	if err := p.space.writeText(p.path("w/h"), "stolen"); !errors.Is(err, errLinked) {
		t.Errorf("write: %v", err)
	}
	if got, err := os.ReadFile(p.path("out/secret")); err != nil || string(got) != "secret" {
		t.Errorf("the other name holds %q, %v", got, err)
	}
}

func TestWorkspaceReads(t *testing.T) {
	p := newTrap(t)
	for _, c := range []struct {
		name        string
		line, limit uint
		want        string
	}{
		{"w/a.txt", 0, 0, "one\ntwo\nthree"}, {"w/a.txt", 1, 1, "one\n"}, {"w/a.txt", 2, 1, "two\n"}, {"w/a.txt", 2, 0, "two\nthree"},
		{"w/a.txt", 3, 9, "three"}, {"w/a.txt", 9, 1, ""}, {"w/a.txt", 0, 2, "one\ntwo\n"}, {"w/in", 0, 0, "b"}, {"w/sub/../a.txt", 1, 1, "one\n"},
		{"alias/a.txt", 1, 1, ""}, {"more/m.txt", 0, 0, "m"},
	} {
		text, err := p.space.readText(p.path(c.name), c.line, c.limit)
		if c.name == "alias/a.txt" { // another name of the workspace, which the session did not use
			if !errors.Is(err, errOutside) {
				t.Errorf("%s: %q, %v", c.name, text, err)
			}
			continue
		}
		if text != c.want || err != nil {
			t.Errorf("%s from %d, %d lines: %q, %v, want %q", c.name, c.line, c.limit, text, err, c.want)
		}
	}
	if _, err := p.space.readText(p.path("w/latin1"), 0, 0); !errors.Is(err, errNoText) {
		t.Errorf("no UTF-8: %v", err)
	}
	if _, err := p.space.readText(p.path("w/none"), 0, 0); fileCode(err) != codeNoResource {
		t.Errorf("missing: %v", err)
	}
	long := strings.Repeat(strings.Repeat("x", 1023)+"\n", maxText>>10)
	if err := p.space.writeText(p.path("w/long"), long+"end"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.space.readText(p.path("w/long"), 0, 0); !errors.Is(err, errTooLong) {
		t.Errorf("too long: %v", err)
	}
	if text, err := p.space.readText(p.path("w/long"), maxText>>10+1, 1); text != "end" || err != nil {
		t.Errorf("the end of a long file: %q, %v", text, err)
	}
	// The session's cwd may itself be a symlink. Agents report either name.
	space, err := openWorkspace(p.path("alias"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer space.close()
	for _, name := range []string{"alias/a.txt", "w/a.txt"} {
		if text, err := space.readText(p.path(name), 1, 1); text != "one\n" || err != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestWorkspaceWrites(t *testing.T) {
	p := newTrap(t)
	if err := os.Chmod(p.path("w/a.txt"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w/a.txt", "w/..evil", "w/new/deep/x.txt", "w/in", "more/new.txt"} {
		if err := p.space.writeText(p.path(name), "new"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(p.path(name)); err != nil || string(got) != "new" {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	if info, err := os.Lstat(p.path("w/a.txt")); err != nil || info.Mode() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(p.path("w/in")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link became a file: %v", err)
	}
}

// A folder that turns into a link between the look and the write does not win.
func TestWorkspaceRace(t *testing.T) {
	p := newTrap(t)
	swap := p.path("w/swap")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.RemoveAll(swap)
			_ = os.Mkdir(swap, 0o755)
			_ = os.RemoveAll(swap)
			_ = os.Symlink("../out", swap)
		}
	})
	for range 2000 {
		_ = p.space.writeText(swap+"/x", "stolen")
	}
	close(stop)
	swapping.Wait()
	if out, err := os.ReadDir(p.path("out")); err != nil || len(out) != 1 {
		t.Errorf("outside there is now %v, %v", out, err)
	}
}
