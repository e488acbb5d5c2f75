package policy

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/batonmcp/baton/sandbox"
)

// gitCodeBound is how many files and folders are protected because configurations of git's name them; gitIncludes, how
// many files are read on the way.
const (
	gitCodeBound = 100
	gitIncludes  = 50
)

// gitPrograms are the settings whose value is a program, or a command line of the shell (git 2.39, and hooks of the
// configuration, which came later).
var gitPrograms = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(core\.(fsmonitor|sshcommand|pager|editor|askpass|gitproxy|alternaterefscommand)` +
		`|sequence\.editor|diff\.external|interactive\.difffilter|gpg\.(.*\.)?program|uploadpack\.packobjectshook|credential\.(.*\.)?helper` +
		`|diff\..*\.(command|textconv)|merge\..*\.driver|filter\..*\.(clean|smudge|process)|(diff|merge|gui)tool\..*\.(cmd|path)` +
		`|(man|browser)\..*\.(cmd|path)|pager\..*|alias\..*|trailer\..*\.(command|cmd)|hook\..*\.command|remote\..*\.(uploadpack|receivepack)` +
		`|submodule\..*\.update|sendemail\..*cmd)$`)
})

// gitCode protects what configurations of git's name as code: the repository's own, in dir, and those of the user and the
// machine. tops are the folders that git works in, to which relative paths belong.
func (c *compiler) gitCode(dir string, tops []string) {
	files := []string{filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree")}
	for _, f := range files {
		if fi, err := os.Lstat(f); err == nil && fi.Mode()&os.ModeSymlink != 0 {
			c.hole("%s is a symbolic link that can be replaced by a configuration that names programs", f)
		}
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "worktrees"))
	for _, e := range entries {
		files = append(files, filepath.Join(dir, "worktrees", e.Name(), "config.worktree"))
	}
	for _, s := range c.gitSettings(files) {
		if s.name == "core.worktree" {
			tops = append(tops, c.gitPath(s.value, dir))
		}
		if s.name == "extensions.worktreeconfig" && s.value != "false" {
			c.emptyFile(filepath.Join(dir, "config.worktree"))
		}
	}
	if !c.userGitRead {
		c.userGitRead = true
		global := []string{"/etc/gitconfig"}
		if c.home != "" {
			global = append(global, filepath.Join(c.home, ".gitconfig"), filepath.Join(c.home, ".config/git/config"))
		}
		if x := c.getenv("XDG_CONFIG_HOME"); x != "" {
			global = append(global, filepath.Join(x, "git/config"))
		}
		c.userGit = c.gitSettings(global)
	}
	for _, s := range slices.Concat(c.userGit, c.gitSettings(files)) {
		switch {
		case s.name == "core.hookspath":
			for _, top := range tops {
				c.hooksPath(c.gitPath(s.value, top))
			}
		case gitPrograms().MatchString(s.name):
			for _, top := range tops {
				c.gitProgram(s, top)
			}
		}
	}
}

// gitSettings reads configuration files, and what they include under whatever condition. What is included is protected.
func (c *compiler) gitSettings(files []string) (all []setting) {
	read := map[string]bool{}
	for len(files) > 0 && len(read) < gitIncludes {
		file := files[0]
		files = files[1:]
		if file == "" || read[file] {
			continue
		}
		read[file] = true
		found, more, err := readGitConfig(file)
		if more {
			c.hole("not all of %s was looked at for programs that it names", file)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			c.hole("%s could not be looked at for programs that it names: %v", file, err)
		}
		for _, s := range found {
			if s.name == "include.path" || strings.HasPrefix(s.name, "includeif.") && strings.HasSuffix(s.name, ".path") {
				path := c.gitPath(s.value, filepath.Dir(file))
				c.protect(path, "a configuration of git's includes")
				files = append(files, path)
			}
		}
		all = append(all, found...)
	}
	return all
}

// gitPath is a path as git takes it from a configuration, "" when nobody knows.
func (c *compiler) gitPath(value, base string) string {
	switch rest, home := strings.CutPrefix(value, "~/"); {
	case home && c.home == "", value == "", strings.HasPrefix(value, "~") && !home, strings.HasPrefix(value, "%("):
		return ""
	case home:
		return filepath.Join(c.home, rest)
	case filepath.IsAbs(value):
		return filepath.Clean(value)
	case base == "":
		return ""
	}
	return filepath.Join(base, value)
}

// gitProgram protects the files that a program or command line names. Words without a slash are looked for only behind the
// first: no shell finds a program of that name where it works, but an interpreter does its script.
func (c *compiler) gitProgram(s setting, top string) {
	for i, word := range strings.FieldsFunc(s.value, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`;|&<>()$!=", r) }) {
		path := c.gitPath(word, top)
		if path == "" || strings.HasPrefix(word, "-") || i == 0 && !strings.Contains(word, "/") || strings.HasPrefix(s.name, "alias.") && !strings.Contains(word, "/") {
			continue
		}
		if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
			continue
		} else if err != nil && !strings.Contains(word, "/") {
			continue
		}
		c.protect(path, "git runs as "+s.name)
	}
}

// hooksPath protects a folder of hooks, and makes it where it is missing, as it does the hooks of the repository itself.
func (c *compiler) hooksPath(path string) {
	if path == "" {
		return
	}
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		if root := c.writableRoot(path); root != "" {
			if in, err := os.OpenRoot(root); err == nil { // no link leads out of it
				err = in.MkdirAll(strings.TrimPrefix(path, root+"/"), 0o755)
				in.Close()
				if err != nil {
					c.hole("%s, which git takes hooks from, is not there and could not be made: %v", path, err)
				}
			}
		}
	}
	c.protect(path, "git takes hooks from")
	if filepath.Base(path) == "_" { // husky 9 keeps what runs the hooks there, and the hooks above
		c.protect(filepath.Dir(path), "git takes hooks from")
	}
}

// protect makes what is named as code read-only where it could be changed otherwise; why says who takes it.
func (c *compiler) protect(path, why string) {
	if path == "" {
		return
	}
	real := c.real(path)
	if real == "" {
		if c.writableRoot(path) != "" {
			c.hole("%s, which %s, is not there and can be made", path, why)
		}
		return
	}
	if real != path && c.writableRoot(path) != "" {
		c.hole("%s, which %s, is reached by a symbolic link that can be replaced", path, why)
	}
	root := c.writableRoot(real)
	if slices.ContainsFunc(c.roots, func(r string) bool { return within(r, real) }) {
		c.hole("%s, which %s, is what the session is to write", path, why)
		return
	}
	if root == "" {
		return
	}
	if c.gitCodes++; c.gitCodes > gitCodeBound {
		c.hole("configurations of git's name more than %d programs: not all of them are protected", gitCodeBound)
		return
	}
	c.keep(root, real)
}

// writableRoot is the writable folder that decides about a path, "" when the path cannot be changed.
func (c *compiler) writableRoot(path string) string {
	for dir := path; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		switch c.rules[dir] {
		case sandbox.Writable:
			if dir != path {
				return dir
			}
		case "":
		default:
			return ""
		}
	}
	return ""
}

// emptyFile makes an empty file of git's where there is none: what is not there cannot be protected.
func (c *compiler) emptyFile(path string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		c.hole("%s is not there and could not be made: %v", path, err)
	}
}
