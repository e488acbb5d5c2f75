package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/batonmcp/baton/sandbox"
)

// How far below a root repositories are looked for, how many folders are looked at, and how many may be protected.
const (
	repositoryDepth  = 4
	repositoryLook   = 4000
	repositoryBound  = 200
	pointerFileBytes = 4096
)

// repositories protects what git would run or obey outside of the session: hooks, configuration, and the pointers between
// a linked worktree and its repository. The repository of a linked worktree, which lies elsewhere, becomes writable, or
// nothing could be committed; but only when it says itself that this is its worktree. node_modules is left out.
func (c *compiler) repositories(root string) {
	looked, found := 0, 0
	deeper := false
	cut := func() {
		deeper = false
		c.hole("not all of %s was searched for repositories: those further down are not protected against planted hooks", root)
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // unreadable: git of this user cannot read it either
		}
		if d.Name() == ".git" && path != root {
			found++
			if found > repositoryBound {
				cut()
				return fs.SkipAll
			}
			c.repository(root, path, d)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.IsDir() {
			return nil
		}
		if looked++; looked > repositoryLook {
			cut()
			return fs.SkipAll
		}
		if d.Name() == "node_modules" {
			return fs.SkipDir
		}
		if path != root && strings.Count(strings.TrimPrefix(path, root), "/") > repositoryDepth {
			deeper = true
			return fs.SkipDir
		}
		return nil
	})
	if deeper {
		cut()
	}
	if err != nil {
		c.hole("%s could not be searched for repositories: %v", root, err)
	}
}

// repository protects one .git, a folder or the pointer of a worktree or submodule.
func (c *compiler) repository(root, path string, d fs.DirEntry) {
	switch {
	case d.IsDir():
		if _, err := os.Lstat(filepath.Join(path, "commondir")); err == nil {
			c.hole("%s has a file commondir, so git takes its configuration from elsewhere: see that it is yours", path)
		}
		c.rules[path] = sandbox.Writable // a mount of its own, so that it cannot be moved away
		c.gitFolder(root, path, filepath.Dir(path))
	case d.Type().IsRegular():
		common, err := worktree(path)
		c.rules[path] = sandbox.ReadOnly
		if errors.Is(err, errNotWorktree) {
			return // a submodule, whose repository lies in that of its project
		}
		if err == nil {
			for _, own := range c.Own {
				if within(common, c.real(own)) {
					err = errors.New("it lies in Baton's own directory")
				}
			}
		}
		if err != nil {
			c.hole("the repository of the worktree %s stays read-only: %v", filepath.Dir(path), err)
			return
		}
		if c.rules[common] == "" {
			c.rules[common] = sandbox.Writable
			c.gitFolder(common, common, filepath.Dir(path))
		} else {
			c.gitCode(common, []string{filepath.Dir(path)})
		}
	default:
		c.hole("%s is neither a folder nor a file; what it leads to is not protected", path)
	}
}

// gitFolder protects what is in a .git, those of submodules and other worktrees in it included, and what its configuration
// names as code. Its hooks folder is made where it is missing, since one that is not there cannot be protected. tops are
// the folders that git works in by it, as far as they are known.
func (c *compiler) gitFolder(root, dir string, tops ...string) {
	c.gitCode(dir, tops)
	if _, err := os.Lstat(filepath.Join(dir, "commondir")); errors.Is(err, os.ErrNotExist) {
		c.watched = append(c.watched, dir)
	}
	hooks := filepath.Join(dir, "hooks")
	if err := os.Mkdir(hooks, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		c.hole("%s is not there and could not be made: %v", hooks, err)
	}
	for _, name := range []string{"hooks", "config", "config.worktree"} {
		c.keep(root, filepath.Join(dir, name))
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "worktrees")) // none: no other worktrees
	for _, e := range entries {
		for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
			c.keep(root, filepath.Join(dir, "worktrees", e.Name(), name))
		}
	}
	c.modules(root, filepath.Join(dir, "modules"), repositoryDepth)
}

// modules finds the repositories of submodules, whose names may have slashes.
func (c *compiler) modules(root, dir string, depth int) {
	entries, err := os.ReadDir(dir)
	if err != nil || depth == 0 {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !e.IsDir() {
			continue
		}
		if _, err := os.Lstat(filepath.Join(path, "HEAD")); err == nil {
			c.gitFolder(root, path)
		} else {
			c.modules(root, path, depth-1)
		}
	}
}

var errNotWorktree = errors.New("it is no linked worktree")

// worktree reads the pointer of a linked worktree and returns the repository, when that points back. Whoever may write
// the workspace may write the pointer, and must not gain a folder by it.
func worktree(pointer string) (common string, err error) {
	text, err := readPointer(pointer)
	if err != nil {
		return "", err
	}
	dir, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return "", fmt.Errorf("%s is no pointer of git's", pointer)
	}
	gitdir, err := resolve(filepath.Dir(pointer), dir)
	if err != nil {
		return "", err
	}
	if filepath.Base(filepath.Dir(gitdir)) != "worktrees" {
		return "", errNotWorktree
	}
	common = filepath.Dir(filepath.Dir(gitdir))
	said, err := readPointer(filepath.Join(gitdir, "commondir"))
	if err != nil {
		return "", err
	}
	if to, err := resolve(gitdir, said); err != nil || to != common {
		return "", fmt.Errorf("%s/commondir leads to %s", gitdir, said)
	}
	back, err := readPointer(filepath.Join(gitdir, "gitdir"))
	if err != nil {
		return "", err
	}
	if to, err := resolve(gitdir, back); err != nil || to != pointer {
		return "", fmt.Errorf("%s is the worktree %s, and not this one", gitdir, back)
	}
	for _, name := range []string{"HEAD", "objects", "refs", "config"} {
		if _, err := os.Lstat(filepath.Join(common, name)); err != nil {
			return "", fmt.Errorf("%s is no repository: %w", common, err)
		}
	}
	return common, nil
}

func readPointer(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0) // whatever it is, it holds up nobody
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > pointerFileBytes {
		return "", fmt.Errorf("%s is no pointer of git's", path)
	}
	text := make([]byte, pointerFileBytes)
	n, err := f.Read(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return strings.TrimRight(string(text[:n]), "\r\n"), nil
}

func resolve(base, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	return filepath.EvalSymlinks(path)
}
