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
