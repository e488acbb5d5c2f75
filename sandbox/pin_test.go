package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What was put in the place of a directory since somebody looked at it is told from it, whatever it is.
func TestPin(t *testing.T) {
	for name, tt := range map[string]struct {
		swap func(dir, other string) error
		same bool
	}{
		"as it was":      {func(string, string) error { return nil }, true},
		"written to":     {func(dir, _ string) error { return os.WriteFile(dir+"/x", nil, 0o600) }, true},
		"another folder": {func(dir, other string) error { return errors.Join(os.Remove(dir), os.Rename(other, dir)) }, false},
		"a link": {func(dir, other string) error {
			return errors.Join(os.Remove(dir), os.Symlink(other, dir))
		}, false},
		"a link back to it": {func(dir, other string) error {
			return errors.Join(os.Rename(dir, dir+".moved"), os.Symlink(dir+".moved", dir))
		}, false},
		"a file":  {func(dir, _ string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }, false},
		"nothing": {func(dir, _ string) error { return os.Remove(dir) }, false},
		"a folder of the name again": {func(dir, other string) error {
			return errors.Join(os.Rename(dir, dir+".moved"), os.Mkdir(dir, 0o700)) // the first still has its number
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dir, other := filepath.Join(base, "dir"), filepath.Join(base, "other")
			for _, d := range []string{dir, other} {
				if err := os.Mkdir(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			pin, err := PinDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.swap(dir, other); err != nil {
				t.Fatal(err)
			}
			if err := pin.Check(); tt.same != (err == nil) || !tt.same && !errors.Is(err, ErrReplaced) {
				t.Errorf("same %v: %v", tt.same, err)
			}
		})
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), "/dev/null"} {
		if _, err := PinDir(path); err == nil {
			t.Errorf("%s is no directory", path)
		}
	}
}
