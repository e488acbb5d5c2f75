package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMakePrivate(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		refused string // what the error says; "" when it is accepted
	}{
		{"missing", func(*testing.T, string) {}, ""},
		{"missing with its parents", func(t *testing.T, path string) { os.RemoveAll(filepath.Dir(path)) }, ""},
		{"private already", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, ""},
		{"others may look", func(t *testing.T, path string) {
			must(t, os.Mkdir(path, 0o700))
			must(t, os.Chmod(path, 0o755))
		}, "mode 0755"},
		{"others may only enter", func(t *testing.T, path string) {
			must(t, os.Mkdir(path, 0o700))
			must(t, os.Chmod(path, 0o701))
		}, "mode 0701"},
		{"symlink to a private folder", func(t *testing.T, path string) {
			must(t, os.Mkdir(path+"x", 0o700))
			must(t, os.Symlink(path+"x", path))
		}, "symbolic link"},
		{"file", func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o600)) }, "is a file"},
		{"of another user", func(t *testing.T, path string) {
			if os.Getuid() != 0 {
				t.Skip("only root can give a folder away")
			}
			must(t, os.Mkdir(path, 0o700))
			must(t, os.Chown(path, 4242, -1))
		}, "belongs to uid 4242"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(folder(t), "parent", "dir")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			c.prepare(t, path)
			err := MakePrivate(path)
			if c.refused != "" {
				if !errors.Is(err, ErrNotPrivate) || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), path) {
					t.Fatalf("got %v, want a refusal that says %q and names the folder", err, c.refused)
				}
				return
			}
			must(t, err)
			info, err := os.Lstat(path)
			must(t, err)
			if !info.IsDir() || info.Mode().Perm() != 0o700 {
				t.Errorf("it is %v", info.Mode())
			}
		})
	}
}

func TestOpenPrivateOfMissing(t *testing.T) {
	if _, err := OpenPrivate(filepath.Join(folder(t), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
