package httpd

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

// secretPrefix makes a secret known for what it is, to people and to scanners of leaked secrets.
const secretPrefix = "baton_"

// Token is what a bearer of its secret may do. The secret itself is not kept.
type Token struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Principal string    `json:"principal"`
	Folders   []string  `json:"folders"` // where its sessions may work, links resolved; "/" is everywhere
	CreatedAt time.Time `json:"created_at"`
	Hash      string    `json:"hash,omitempty"` // SHA-256 of the secret, which has 256 random bits, in hexadecimal
}

// Everywhere tells whether the token is not bound to folders.
func (t Token) Everywhere() bool { return slices.Contains(t.Folders, "/") }

// Tokens is the file of tokens. It is read at every use, so that what is revoked is refused from then on.
type Tokens struct{ Path string }

// List returns the tokens, the oldest first.
func (s Tokens) List() ([]Token, error) {
	all, err := s.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return all, err
}

// read is List for whoever a missing file tells something.
func (s Tokens) read() ([]Token, error) {
	b, err := os.ReadFile(s.Path)
	if err != nil {
		return nil, err
	}
	var all []Token
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "the tokens in %s cannot be read: %w", s.Path, err).Do("correct or remove the file; no token is accepted meanwhile")
	}
	return all, nil
}

// Make makes a token and returns its secret, which nobody can find out later. Without a principal it gets one of its own;
// one that is bound to folders always does, since whoever shares a principal shares its sessions.
func (s Tokens) Make(name, principal string, folders []string) (t Token, secret string, err error) {
	if err := sessions.CheckName("name", name); err != nil {
		return t, "", err
	}
	if len(folders) == 0 {
		return t, "", sessions.Errorf(sessions.CodeInvalidParams, "no folder was given").Do("name the folders in which its sessions may work with --folder; / is everywhere")
	}
	raw, id := make([]byte, 32), make([]byte, 6)
	rand.Read(raw)
	rand.Read(id)
	secret = secretPrefix + base64.RawURLEncoding.EncodeToString(raw)
	t = Token{ID: hex.EncodeToString(id), Name: name, Principal: principal, CreatedAt: time.Now().UTC().Truncate(time.Second), Hash: hashOf(secret)}
	for _, f := range folders {
		real, err := realFolder(f)
		if err != nil {
			return t, "", err
		}
		t.Folders = append(t.Folders, real)
	}
	switch {
	case t.Principal == "":
		t.Principal = "http-" + t.ID
	case !t.Everywhere():
		return t, "", sessions.Errorf(sessions.CodeInvalidParams, "a token that is bound to folders cannot have principal %q: it would reach the sessions of that principal elsewhere", principal).
			Do("leave the principal out, or give the folder /")
	}
	err = s.change(func(all []Token) ([]Token, error) {
		if slices.ContainsFunc(all, func(o Token) bool { return o.Name == name }) {
			return nil, sessions.Errorf(sessions.CodeInvalidParams, "there is a token %q", name).Do("take another name, or revoke that one")
		}
		return append(all, t), nil
	})
	return t, secret, err
}

// Revoke takes a token away, by its id or its name.
func (s Tokens) Revoke(which string) (gone Token, err error) {
	return gone, s.change(func(all []Token) ([]Token, error) {
		i := slices.IndexFunc(all, func(t Token) bool { return t.ID == which || t.Name == which })
		if i < 0 {
			return nil, sessions.Errorf(sessions.CodeNotFound, "there is no token %q", which).Do("see baton token list")
		}
		gone = all[i]
		return slices.Delete(all, i, i+1), nil
	})
}

// find returns the token of a secret. The comparison takes the same time whatever the secret is.
func find(all []Token, secret string) (found Token, ok bool) {
	if !strings.HasPrefix(secret, secretPrefix) {
		return Token{}, false
	}
	hash := hashOf(secret)
	for _, t := range all {
		if subtle.ConstantTimeCompare([]byte(t.Hash), []byte(hash)) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// change replaces the file in one step, while no other process does.
func (s Tokens) change(edit func([]Token) ([]Token, error)) error {
	if err := local.MakePrivate(filepath.Dir(s.Path)); err != nil {
		return err
	}
	lock, err := local.Lock(s.Path + ".lock")
	if errors.Is(err, local.ErrLocked) {
		return sessions.Errorf(sessions.CodeBusy, "another process changes the tokens").Do("try again")
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	all, err := s.List()
	if err != nil {
		return err
	}
	if all, err = edit(all); err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.Path), ".tokens-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.Path)
}

// realFolder is a folder with its links resolved.
func realFolder(path string) (string, error) {
	refuse := func(err error) (string, error) {
		return "", sessions.Errorf(sessions.CodeInvalidParams, "%q is no folder: %w", path, err).Do("name an existing folder by its absolute path")
	}
	if !filepath.IsAbs(path) {
		return refuse(errors.New("it is not absolute"))
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return refuse(err)
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return refuse(fmt.Errorf("it is something else"))
	}
	return real, nil
}
