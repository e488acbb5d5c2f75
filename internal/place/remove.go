package place

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/batonmcp/baton/internal/local"
)

// Installed is the file that remembers what was registered with MCP hosts.
func (p Places) Installed() string { return filepath.Join(p.State, "installed.json") }

// ownFiles are the names of what Baton puts into its state directory, as patterns. The lock comes last: whoever holds it
// removes the rest first.
var ownFiles = []string{"journal.db*", "token", ".token-*", "http-tokens.json*", "reserve", "reserve.new", "installed.json*",
	filepath.Join("logs", "host.log*"), filepath.Join("logs", "bridge-*.log"), filepath.Join("spill", "*"), "logs", "spill", "start.lock", "host.lock"}

// Removed is what a removal took away, and what it left because it is not Baton's, or somebody uses it.
type Removed struct {
	Paths []string `json:"removed"`
	Left  []string `json:"left,omitempty"`
}

// RemoveRuntime takes away the sockets that nobody listens on, and their directory when it is empty then.
func (p Places) RemoveRuntime(ctx context.Context, r *Removed) error {
	socks, err := filepath.Glob(filepath.Join(p.Runtime, "*.sock"))
	if err != nil {
		return err
	}
	for _, s := range socks {
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

// RemoveState takes away the state and the configuration, by the names that Baton gives; what else lies there stays.
func (p Places) RemoveState(r *Removed) error {
	for _, pattern := range ownFiles {
		found, err := filepath.Glob(filepath.Join(p.State, pattern))
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
	if err := r.remove(p.Config); err != nil {
		return err
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
