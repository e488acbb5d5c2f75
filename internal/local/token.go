package local

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// tokenLength is the length of a token: 32 random bytes in hexadecimal.
const tokenLength = 64

// Token reads the secret in a file, and makes both when there is none. Of several processes that make it at once one
// wins, and all return the same.
func Token(path string) (string, error) {
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := makeToken(path); err != nil {
		return "", fmt.Errorf("cannot make the token: %w", err)
	}
	return readToken(path)
}

// Kept is Token where there is one; else the error wraps fs.ErrNotExist, and none is made.
func Kept(path string) (string, error) { return readToken(path) }

// TokenFile reads the secret of a file as often as it is asked for, and from the file itself only when that is another
// one than before. It is safe for concurrent use.
type TokenFile struct {
	Path string

	mu    sync.Mutex
	seen  Version
	token string
}

// Read is Token for the file.
func (t *TokenFile) Read() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := VersionOf(t.Path)
	if now != (Version{}) && now == t.seen {
		return t.token, nil
	}
	token, err := Token(t.Path)
	if t.seen, t.token = (Version{}), token; err == nil && now == VersionOf(t.Path) { // else it is read again the next time
		t.seen = now
	}
	return token, err
}

// Version is what differs between two files of a path. The time of the last change covers mode and owner too. The zero
// value is that of no file.
type Version struct {
	device, inode uint64
	changed       unix.Timespec
}

// VersionOf is that of what is at the path now.
func VersionOf(path string) (v Version) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) == nil {
		v = Version{uint64(st.Dev), st.Ino, st.Ctim}
	}
	return v
}

func readToken(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	if err := private(path, &st); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, tokenLength+1))
	if err != nil {
		return "", err
	}
	if _, err := hex.DecodeString(string(b)); err != nil || len(b) != tokenLength {
		return "", fmt.Errorf("%s holds no token; remove it and start the host anew", path)
	}
	return string(b), nil
}

// makeToken writes a whole file beside the path and links it there, so that nobody ever reads half a token.
func makeToken(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	secret := make([]byte, tokenLength/2)
	rand.Read(secret)
	_, err = f.WriteString(hex.EncodeToString(secret))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
