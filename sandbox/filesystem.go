package sandbox

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Access is what a session may do with a file or folder and with everything below it that no longer path names.
type Access string

const (
	Writable Access = "writable"
	ReadOnly Access = "read_only"
	Hidden   Access = "hidden"  // empty and closed; connecting to a hidden socket is refused
	Private  Access = "private" // an empty, writable folder of the session's own; below it, what other rules name is there
)

// Rule is the access to one path: absolute, existing, without symbolic links.
type Rule struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
}

// Filesystem is what a session may see and change of the machine's files. It holds from the bridge on, and needs a mount
// namespace: a launch on another rung refuses it.
//
// The longest path that leads to a file decides. Only hidden goes on below, whatever other rules say.
//
// What it does not hold: a file that has a further name (a hard link) in a writable folder is written through that name;
// unix sockets that are not hidden can be connected to; the network is as it was.
type Filesystem struct {
	Name     string // for the record: what was asked, or "" for rules that enforce no policy
	ReadOnly bool   // what no rule names is read-only; false: as the user may
	Rules    []Rule
}

// spot pins one rule to the file that the host looked at, so that nobody can put a symbolic link in its place meanwhile.
type spot struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
	Dev    uint64 `json:"dev,omitempty"`
	Ino    uint64 `json:"ino,omitempty"`
	Dir    bool   `json:"dir,omitempty"`
}

// plan is a Filesystem as the bridge gets it: its rules pinned, parents before what lies below them.
type plan struct {
	Name     string `json:"name"`
	ReadOnly bool   `json:"read_only"`
	Spots    []spot `json:"spots"`
}

func (f *Filesystem) pin() (*plan, error) {
	if f == nil {
		return nil, nil
	}
	p := &plan{Name: f.Name, ReadOnly: f.ReadOnly}
	seen := map[string]Access{}
	for _, r := range f.Rules {
		if !filepath.IsAbs(r.Path) || filepath.Clean(r.Path) != r.Path || r.Path == "/" {
			return nil, fmt.Errorf("rule %s %q: the path is not absolute and clean, or it is the root", r.Access, r.Path)
		}
		if was, twice := seen[r.Path]; twice {
			return nil, fmt.Errorf("%s is both %s and %s", r.Path, was, r.Access)
		}
		seen[r.Path] = r.Access
		real, err := filepath.EvalSymlinks(r.Path)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Access, err)
		}
		if real != r.Path {
			return nil, fmt.Errorf("rule %s: %s is a way to %s through a symbolic link", r.Access, r.Path, real)
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(r.Path, &st); err != nil {
			return nil, fmt.Errorf("rule %s %s: %w", r.Access, r.Path, err)
		}
		s := spot{Path: r.Path, Access: r.Access, Dev: uint64(st.Dev), Ino: st.Ino, Dir: st.Mode&syscall.S_IFMT == syscall.S_IFDIR}
		switch r.Access {
		case Writable, ReadOnly, Hidden:
		case Private:
			if !s.Dir {
				return nil, fmt.Errorf("rule %s: %s is no folder", r.Access, r.Path)
			}
		default:
			return nil, fmt.Errorf("rule %q of %s is none", r.Access, r.Path)
		}
		p.Spots = append(p.Spots, s)
	}
	slices.SortFunc(p.Spots, func(a, b spot) int { return cmp.Compare(a.Path, b.Path) })
	return p, p.check()
}

// check refuses rules that contradict each other.
func (p *plan) check() error {
	for _, s := range p.Spots {
		if s.Access != Hidden && p.hides(s.Path) != "" {
			return fmt.Errorf("%s is %s and lies in %s, which is hidden", s.Path, s.Access, p.hides(s.Path))
		}
	}
	return nil
}

// hides returns the hidden spot above a path.
func (p *plan) hides(path string) string { return p.above(path, Hidden) }

// above returns a spot of an access that a path lies below.
func (p *plan) above(path string, a Access) string {
	for _, s := range p.Spots {
		if s.Access == a && below(path, s.Path) {
			return s.Path
		}
	}
	return ""
}

// below tells whether path lies in the folder dir, and is not dir itself.
func below(path, dir string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }
