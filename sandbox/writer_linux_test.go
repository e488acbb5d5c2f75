package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Who writes a file is found by its lock, or by its being open for writing; a reader is nobody.
func TestWriter(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	locked, written, read, alone := file("locked"), file("written"), file("read"), file("alone")

	f, err := os.Open(locked)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	in, stop, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(written, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := os.Open(read)
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command("cat") // has both files open until its input ends
	other.Stdin, other.ExtraFiles = in, []*os.File{w, r}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	r.Close()
	in.Close()
	defer func() {
		stop.Close()
		if err := other.Wait(); err != nil {
			t.Error(err)
		}
	}()

	files := LookAtFiles()
	for path, want := range map[string]int{locked: os.Getpid(), written: other.Process.Pid, read: 0, alone: 0, filepath.Join(dir, "missing"): 0} {
		if pid, program := files.Writer(path); pid != want || pid != 0 && program == "" {
			t.Errorf("%s: process %d (%q), want %d", filepath.Base(path), pid, program, want)
		}
	}
}
