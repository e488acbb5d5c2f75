package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTokenIsOneForAll(t *testing.T) {
	path := filepath.Join(folder(t), "token")
	tokens := make([]string, 20)
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() {
			token, err := Token(path)
			if err != nil {
				t.Error(err)
			}
			tokens[i] = token
		})
	}
	wg.Wait()
	for _, token := range tokens {
		if len(token) != tokenLength || token != tokens[0] {
			t.Errorf("%q beside %q", token, tokens[0])
		}
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if rest, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".token-*")); rest != nil {
		t.Errorf("left behind: %v", rest)
	}
	if other, err := Token(filepath.Join(folder(t), "token")); err != nil || other == tokens[0] {
		t.Errorf("another folder has %q, %v", other, err)
	}
}

func TestTokenRefuses(t *testing.T) {
	good := strings.Repeat("ab", tokenLength/2)
	for _, c := range []struct {
		name    string
		prepare func(path string) error
		want    func(error) bool
	}{
		{"readable by others", func(p string) error {
			return errors.Join(os.WriteFile(p, []byte(good), 0o600), os.Chmod(p, 0o644))
		}, func(err error) bool { return errors.Is(err, ErrNotPrivate) }},
		{"a symlink", func(p string) error {
			return errors.Join(os.WriteFile(p+"x", []byte(good), 0o600), os.Symlink(p+"x", p))
		}, func(err error) bool { return errors.Is(err, unix.ELOOP) }},
		{"too short", func(p string) error { return os.WriteFile(p, []byte(good[2:]), 0o600) }, holdsNone},
		{"too long", func(p string) error { return os.WriteFile(p, []byte(good+"\n"), 0o600) }, holdsNone},
		{"no hexadecimal", func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("zz", tokenLength/2)), 0o600) }, holdsNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(folder(t), "token")
			must(t, c.prepare(path))
			if token, err := Token(path); token != "" || !c.want(err) {
				t.Errorf("got %q, %v", token, err)
			}
		})
	}
}

func holdsNone(err error) bool { return err != nil && strings.Contains(err.Error(), "holds no token") }

// TestTokenFile: a file that was replaced is read anew, and one that others may read is refused, also when it was read
// before.
func TestTokenFile(t *testing.T) {
	file := TokenFile{Path: filepath.Join(folder(t), "token")}
	read := func() string {
		t.Helper()
		token, err := file.Read()
		must(t, err)
		whole, err := os.ReadFile(file.Path)
		must(t, err)
		if token != string(whole) {
			t.Errorf("it holds %q and is read as %q", whole, token)
		}
		return token
	}
	first := read()
	if again := read(); again != first {
		t.Errorf("%q and then %q", first, again)
	}
	must(t, os.Remove(file.Path))
	if second := read(); second == first {
		t.Error("the old secret outlived its file")
	}
	must(t, os.Chmod(file.Path, 0o644))
	if token, err := file.Read(); err == nil || token != "" {
		t.Errorf("a file for everybody is read as %q", token)
	}
}
