package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// maxFile bounds the size of a configuration in bytes.
const maxFile = 32 << 20

// fileState is what a configuration was besides its text.
type fileState struct {
	real     string // the file that a link leads to
	mode     fs.FileMode
	uid, gid int
}

// readFile reads a configuration; nil where there is none. What cannot be written later is refused here.
func readFile(file string) ([]byte, fileState, error) {
	refuse := func(format string, args ...any) ([]byte, fileState, error) {
		return nil, fileState{}, sessions.Errorf(sessions.CodeInvalidParams, "%s cannot be edited: %w", file, fmt.Errorf(format, args...)).
			Do("set that right, or name another file with --file; nothing was changed").With("file", file)
	}
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, fileState{real: file, mode: 0o600, uid: -1}, nil
	}
	real, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse("it is a link that leads to nothing")
	}
	if err != nil {
		return refuse("%w", err)
	}
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return refuse("%w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return refuse("%w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return refuse("it is no file")
	case info.Size() > maxFile:
		return refuse("it has more than %d bytes", maxFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return refuse("%w", err)
	}
	if text == nil {
		text = []byte{}
	}
	state := fileState{real: real, mode: info.Mode().Perm(), uid: -1}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		state.uid, state.gid = int(st.Uid), int(st.Gid)
	}
	return text, state, nil
}

// Apply makes the change. Where it returns an error the file is as it was.
func (c *Change) Apply() (err error) {
	if !c.Changed() {
		return nil
	}
	defer func() {
		if err != nil {
			err = sessions.Errorf(sessions.CodeInvalidParams, "%s was not changed: %w", c.File, err).
				Do("set that right and call again, or name another file with --file").With("file", c.File)
		}
	}()
	if c.Before != nil && c.state.mode&0o200 == 0 {
		return errors.New("it is read-only (chmod u+w makes it writable)")
	}
	if c.Before != nil && len(c.stale) == 0 && !c.ours {
		if c.Backup, err = backUp(c.File, c.Before, c.state); err != nil {
			return fmt.Errorf("no backup: %w", err)
		}
		defer func() {
			if err != nil {
				os.Remove(c.Backup)
				c.Backup = ""
			}
		}()
	}
	if err := c.replace(c.Before, c.After); err != nil {
		return err
	}
	for _, b := range c.stale {
		_ = os.Remove(b) // it holds what the file holds now
	}
	return nil
}

// Revert gives the old text back, when the file still has the new one.
func (c *Change) Revert() error {
	if !c.Changed() {
		return nil
	}
	if err := c.replace(c.After, c.Before); err != nil {
		return fmt.Errorf("%s keeps the new entry: %w", c.File, err)
	}
	if c.Backup != "" {
		_ = os.Remove(c.Backup) // it holds what the file holds now
		c.Backup = ""
	}
	return nil
}

// replace puts a text in the place of another one, in one step.
func (c *Change) replace(have, want []byte) (err error) {
	dir := filepath.Dir(c.state.real)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var temp string
	if want != nil {
		if temp, err = writeBeside(dir, filepath.Base(c.state.real), want, c.state); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				os.Remove(temp)
			}
		}()
	}
	now, state, err := readFile(c.File)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(now, have) || (now == nil) != (have == nil) || state.real != c.state.real:
		return errors.New("another program has changed it meanwhile")
	case want == nil:
		err = os.Remove(c.state.real)
	default:
		err = os.Rename(temp, c.state.real)
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// writeBeside writes a new file with the mode and the owner of another one.
func writeBeside(dir, base string, text []byte, state fileState) (path string, err error) {
	f, err := os.CreateTemp(dir, "."+base+".baton-*")
	if err != nil {
		return "", err
	}
	return f.Name(), fill(f, text, state)
}

// fill writes a new file, or removes it.
func fill(f *os.File, text []byte, state fileState) (err error) {
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(f.Name())
		}
	}()
	if state.uid >= 0 && (state.uid != os.Geteuid() || state.gid != os.Getegid()) {
		if err := f.Chown(state.uid, state.gid); err != nil && state.uid != os.Geteuid() {
			return fmt.Errorf("it belongs to uid %d: %w", state.uid, err)
		}
	}
	if err := f.Chmod(state.mode); err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// backUp keeps a text beside the file, under a name that no host reads.
func backUp(file string, text []byte, state fileState) (string, error) {
	path := file + ".baton-" + time.Now().UTC().Format("20060102T150405.000000000Z") + ".bak"
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	return path, fill(f, text, state)
}

// backupsOf are the backups of a file, the oldest first.
func backupsOf(file string) []string {
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if ok, _ := filepath.Match("*.baton-*Z.bak", e.Name()); ok && bytes.HasPrefix([]byte(e.Name()), []byte(filepath.Base(file)+".baton-")) {
			out = append(out, filepath.Join(filepath.Dir(file), e.Name()))
		}
	}
	slices.Sort(out)
	return out
}
