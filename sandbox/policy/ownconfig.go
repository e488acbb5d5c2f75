package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/batonmcp/baton/sessions"
)

// ownConfig makes Baton's own configuration read-only where the session could write it: it says what is started in place of
// an agent, and what is hidden from every later session. It is the one start file that is made, empty, where it is not
// there. That holds around an agent with a sandbox of its own, too, for what it lets out of that.
func (c *compiler) ownConfig() error {
	if c.Config == "" {
		return nil
	}
	written := c.Roots
	if c.Sandbox == sessions.SandboxWorkspaceWrite {
		written = append([]string{c.Cwd}, written...)
	}
	path := existing(c.Config)
	for _, dir := range written {
		root := c.real(dir)
		if root == "" || !within(path, root) {
			continue
		}
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
				err = os.WriteFile(path, nil, 0o600)
			}
			if err == nil {
				info, err = os.Lstat(path)
			}
		}
		if err != nil {
			return sessions.Errorf(sessions.CodeInvalidParams, "%.200q holds Baton's configuration %s, which cannot be protected: %w", dir, path, err).
				Do("name another directory")
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			c.keep(root, path)
			continue
		}
		if real := c.real(path); real != "" && within(real, root) {
			c.keep(root, real)
		}
		if folder := filepath.Dir(path); folder != root {
			c.keep(root, folder) // nobody puts another link there
		} else {
			c.hole("%s is a symbolic link in what the session may write: another one can be put in its place", path)
		}
	}
	return nil
}

// existing is a path with the symbolic links of the folders above it resolved, as far as they are there.
func existing(path string) string {
	rest := filepath.Base(path)
	for dir := filepath.Dir(path); ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		} else if dir == filepath.Dir(dir) {
			return path
		}
	}
}
