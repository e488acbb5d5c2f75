package policy

import (
	"io/fs"
	"path/filepath"
	"syscall"
)

// startFiles are what shells, editors and agents run or obey when a person opens the folder they lie in.
var startFiles = []string{
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".inputrc",
	".config/fish", ".config/git", ".config/autostart", ".config/systemd", ".local/share/applications",
	".gitconfig", ".gitmodules", ".ripgreprc", ".vimrc", ".config/nvim", ".emacs", ".emacs.d",
	".vscode", ".idea", ".zed", ".devcontainer",
	".mcp.json", ".claude/settings.json", ".claude/settings.local.json", ".claude/commands", ".claude/agents", ".claude/skills", ".claude/hooks",
	".codex", ".cursor/mcp.json", ".cursor/hooks.json", ".cursor/cli.json", ".cursor/rules", ".cursor/commands",
	".gemini/settings.json", ".gemini/commands", ".gemini/extensions", ".qwen/settings.json", ".opencode", "opencode.json", "opencode.jsonc",
}

func (c *compiler) startFiles(root string) {
	for _, name := range startFiles {
		path := filepath.Join(root, name)
		if c.rules[path] == "" {
			c.keep(root, path)
		}
	}
}

// linkLook bounds the search for hard links.
const linkLook = 10000

// hardLinks looks for files that have a further name outside of the root: they are written wherever that is, which no
// rule can prevent. Stores that package managers link from are the usual case.
func (c *compiler) hardLinks(root string) {
	type file struct{ dev, ino uint64 }
	type names struct {
		all, seen uint64
		first     string
	}
	files := map[file]*names{}
	looked := 0
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // the function itself returns no error
		if err != nil {
			return nil
		}
		if looked++; looked > linkLook {
			c.hole("not all of %s was searched for hard links, which are written wherever their other names are", root)
			return fs.SkipAll
		}
		if !d.Type().IsRegular() {
			return nil
		}
		var st syscall.Stat_t
		if syscall.Lstat(path, &st) != nil || st.Nlink < 2 {
			return nil
		}
		id := file{uint64(st.Dev), st.Ino}
		if files[id] == nil {
			files[id] = &names{all: uint64(st.Nlink), first: path}
		}
		files[id].seen++
		return nil
	})
	outside, first := 0, ""
	for _, f := range files {
		if f.seen < f.all {
			outside++
			if first == "" || f.first < first {
				first = f.first
			}
		}
	}
	if outside > 0 && looked <= linkLook {
		c.hole("%d files of %s have a further name (a hard link) outside of it and are written there too, %s for one", outside, root, first)
	}
}
