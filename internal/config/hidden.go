package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Sandbox is the section of what agents may not see.
type Sandbox struct {
	// Hidden are files and folders that no agent sees, under whatever sandbox: absolute, or below ~.
	Hidden []string `toml:"hidden"`
}

// never are folders without which no program works; nothing that holds one of them can be hidden.
var never = []string{"/proc", "/dev", "/sys", "/usr", "/bin", "/lib", "/etc"}

func (s Sandbox) check() error {
	for _, path := range s.Hidden {
		rest, home := strings.CutPrefix(path, "~/")
		switch {
		case strings.ContainsRune(path, 0):
			return fmt.Errorf("sandbox.hidden holds a zero byte")
		case home && (rest == "" || filepath.Clean("/"+rest) == "/"), path == "~":
			return fmt.Errorf("sandbox.hidden: %q is the whole home folder, which every agent needs", path)
		case !home && !filepath.IsAbs(path):
			return fmt.Errorf("sandbox.hidden: %q is neither absolute nor below ~/", path)
		case !home && slices.ContainsFunc(never, func(n string) bool { return n == filepath.Clean(path) || below(n, filepath.Clean(path)) }):
			return fmt.Errorf("sandbox.hidden: %q holds the system's own folders, which every agent needs", path)
		}
	}
	return nil
}

func below(path, dir string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }

// HiddenPaths are the paths of the list, with each of the home folders in the place of ~.
func (c *Config) HiddenPaths(homes ...string) []string {
	var out []string
	for _, path := range c.Sandbox.Hidden {
		rest, home := strings.CutPrefix(path, "~/")
		if !home {
			out = append(out, filepath.Clean(path))
			continue
		}
		for _, h := range homes {
			if filepath.IsAbs(h) {
				out = append(out, filepath.Join(h, rest))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
