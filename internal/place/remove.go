package place

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/batonmcp/baton/internal/local"
)

// Installed is the file that remembers what was registered with MCP hosts.
func (p Places) Installed() string { return filepath.Join(p.State, "installed.json") }

// ownFiles are the names of what Baton puts into its state directory, as patterns. The lock comes last: whoever holds it
// removes the rest first.
var ownFiles = []string{"journal.db*", "token", ".token-*", "http-tokens.json*", "reserve", "reserve.new", "installed.json*",
	filepath.Join("logs", "host.log*"), filepath.Join("logs", "bridge-*.log"), filepath.Join("spill", "*"), "logs", "spill", "start.lock", "host.lock"}

// ownSocket are the names of Baton's sockets: the host's, and those of bridges.
var ownSocket = regexp.MustCompile(`^(host|host-[0-9a-f]{16}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|x[0-9a-f]{32})\.sock$`)

// Removed is what a removal took away, and what it left because it is not Baton's, or somebody uses it.
type Removed struct {
	Paths []string `json:"removed"`
	Left  []string `json:"left,omitempty"`
}

// There is what of Baton's is at the places.
type There struct {
	Sockets bool // or the directory that was made for them, empty
	State   bool // or its directory, empty
	Config  bool // a file, whoever wrote it
}

// There looks for what a removal would find.
func (p Places) There() (x There, err error) {
	socks, err := match(p.Runtime, "*.sock")
	if err != nil {
		return x, err
	}
	x.Sockets = empty(p.Runtime) || slices.ContainsFunc(socks, func(s string) bool { return ownSocket.MatchString(filepath.Base(s)) })
	x.State = empty(p.State)
	for _, pattern := range ownFiles {
		found, err := match(p.State, pattern)
		if err != nil {
			return x, err
		}
		x.State = x.State || len(found) > 0
	}
	_, missing := os.Lstat(p.Config)
	x.Config = missing == nil
	return x, nil
}

func empty(dir string) bool {
	list, err := os.ReadDir(dir)
	return err == nil && len(list) == 0
}

// RemoveRuntime takes away the sockets that nobody listens on, and their directory when it is empty then.
func (p Places) RemoveRuntime(ctx context.Context, r *Removed) error {
	socks, err := match(p.Runtime, "*.sock")
	if err != nil {
		return err
	}
	for _, s := range socks {
		if info, err := os.Lstat(s); err != nil || info.Mode().Type() != fs.ModeSocket || !ownSocket.MatchString(filepath.Base(s)) {
			continue // under BATON_HOME the directory may be one that others use too
		}
		if listens(ctx, s) {
			r.Left = append(r.Left, s)
			continue
		}
		if err := r.remove(s); err != nil {
			return err
		}
	}
	return r.removeEmpty(p.Runtime)
}

func listens(ctx context.Context, socket string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := local.Dial(ctx, socket)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// match is filepath.Glob in a directory whose own path is no pattern: a BATON_HOME may be called "[1]" or "*". The directory
// and what is below it are followed by no link.
func match(dir, pattern string) ([]string, error) {
	if below, rest, ok := strings.Cut(pattern, "/"); ok {
		dir, pattern = filepath.Join(dir, below), rest
	}
	if info, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil
	}
	list, err := os.ReadDir(dir)
	var found []string
	for _, e := range list {
		if ok, err := filepath.Match(pattern, e.Name()); err != nil {
			return nil, err
		} else if ok {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, err
}

// RemoveState takes away the state, by the names that Baton gives, and the configuration, if it is known to be Baton's;
// what else lies there stays.
func (p Places) RemoveState(r *Removed, config bool) error {
	for _, pattern := range ownFiles {
		found, err := match(p.State, pattern)
		if err != nil {
			return err
		}
		for _, path := range found {
			if info, err := os.Lstat(path); err == nil && info.IsDir() {
				err = r.removeEmpty(path)
				if err != nil {
					return err
				}
			} else if err := r.remove(path); err != nil {
				return err
			}
		}
	}
	if err := r.removeEmpty(p.State); err != nil {
		return err
	}
	if config {
		if err := r.remove(p.Config); err != nil {
			return err
		}
	} else if _, err := os.Lstat(p.Config); err == nil {
		r.Left = append(r.Left, p.Config)
	}
	if p.Home != "" { // the directory of BATON_HOME is the user's own
		return nil
	}
	return r.removeEmpty(filepath.Dir(p.Config))
}

func (r *Removed) remove(path string) error {
	err := os.Remove(path)
	if err == nil {
		r.Paths = append(r.Paths, path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeEmpty takes a directory away that holds nothing, and else notes what it holds.
func (r *Removed) removeEmpty(dir string) error {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		if path := filepath.Join(dir, e.Name()); !slices.Contains(r.Left, path) {
			r.Left = append(r.Left, path)
		}
	}
	if len(list) > 0 {
		return nil
	}
	return r.remove(dir)
}
