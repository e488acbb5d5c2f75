package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batonmcp/baton/sessions"
)

// search looks for the program of one runner.
type search struct {
	name    string
	cwd     string
	getenv  func(string) string
	install string // how to get the program; "" for a runner of the configuration
	file    string // the configuration file
	source  string // what named the program
}

// variable takes the value of BATON_RUNNER_<NAME>.
func (s *search) variable(value string) (string, error) {
	if !filepath.IsAbs(value) {
		return "", s.missing(nil, "%s is %q, which is not an absolute path", s.source, value)
	}
	return s.usable(filepath.Clean(value))
}

// configured takes the program word of the configuration: absolute, below ~/, relative to the session's cwd when it
// holds a slash, else a name to look for in PATH.
func (s *search) configured(word string) (string, error) {
	switch {
	case filepath.IsAbs(word):
		return s.usable(filepath.Clean(word))
	case strings.HasPrefix(word, "~/"):
		home := s.getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", s.missing(nil, "%s names %q, and HOME is %q", s.source, word, home)
		}
		return s.usable(filepath.Join(home, word[2:]))
	case strings.Contains(word, "/"):
		if !filepath.IsAbs(s.cwd) {
			return "", s.missing(nil, "%s names %q, which is relative to the cwd of a session", s.source, word)
		}
		return s.usable(filepath.Join(s.cwd, word))
	default:
		return s.path(word)
	}
}

// path looks through the absolute entries of PATH: a relative one would let the session's folder choose the program.
func (s *search) path(program string) (string, error) {
	var looked []string
	var reject error
	for _, dir := range filepath.SplitList(s.getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, program)
		looked = append(looked, dir)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if reject == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			reject = fmt.Errorf("%s %w", file, err)
		}
	}
	switch {
	case reject != nil:
		return "", s.missing(looked, "%w, and no other %s is in PATH", reject, program)
	case len(looked) == 0:
		return "", s.missing(looked, "%s cannot be looked for: PATH is %q, without an absolute entry", program, s.getenv("PATH"))
	default:
		return "", s.missing(looked, "no %s is in PATH", program)
	}
}

func (s *search) usable(file string) (string, error) {
	err := executable(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", s.missing([]string{file}, "%s, which %s names, does not exist", file, s.source)
	}
	if err != nil {
		return "", s.missing([]string{file}, "%s, which %s names, %w", file, s.source, err)
	}
	return file, nil
}

// executable gives the reason why a file cannot be executed, as the end of a sentence about it.
func executable(file string) error {
	info, err := os.Stat(file)
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return fmt.Errorf("cannot be looked at: %w", path.Err)
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("is a directory")
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	case info.Mode()&0o111 == 0 || unix.Access(file, unix.X_OK) != nil:
		return errors.New("is not executable")
	}
	return nil
}

// missing says what was asked, where was looked, and how to get the runner.
func (s *search) missing(looked []string, format string, args ...any) error {
	err := sessions.Errorf(sessions.CodeRunnerMissing, "runner "+s.name+": "+format, args...)
	choices := []string{"set " + Variable(s.name) + " to its absolute path", "or name it in [runners." + s.name + "] of " + s.file}
	if s.install != "" {
		choices = append([]string{s.install}, choices...)
	}
	e := err.Do("%s", strings.Join(choices, ", ")).With("runner", s.name).With("source", s.source)
	if len(looked) > 0 {
		e = e.With("looked", looked)
	}
	return e
}
