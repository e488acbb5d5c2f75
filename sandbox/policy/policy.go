// Package policy turns the sandbox that was asked for a session into rules for its files.
//
// Where the agent has no sandbox of its own, the rules are the whole policy: everything is read-only but the workspace,
// the further roots (with read-only those alone), a /tmp of the session's own, and what the agent keeps its own state in;
// what other programs would run or obey later (hooks and configuration of git, start files of shells and editors,
// configuration of the agent and of Baton) is read-only inside of those too. Where the agent's own sandbox holds its
// commands, the rules only hide.
//
// Credentials of the user's other programs, and the sockets of container engines, are hidden under every sandbox but
// danger-full-access. Baton's own folders are not dealt with here: they are masked at every launch, under every sandbox.
//
// What git's configuration names as code within a workspace is read-only too: folders of hooks, included files, filters and
// drivers. What those call in their turn is not looked for.
//
// What no rule can do is said in Policy.Holes, and what is so for every session is this: a file or folder that is not
// there when the session starts cannot be protected, so that in a folder without .git a repository with hooks can be
// made, and start files of shells and editors too; in a .git the state of a rebase can be made, whose commands run when
// somebody continues it; the agent can read what it logs in with, and so can the commands that it runs. A file commondir in
// the .git of a plain repository can be made, and has to be looked for: Policy.Watched.
package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// Hidden is the name of a policy that only hides.
const Hidden = "hidden"

// Ask is what a session is to be held to.
type Ask struct {
	Sandbox    string   // one of the names of package sessions
	Around     bool     // the rules are the policy; false: the agent's own sandbox is, and they only hide
	Runner     string   // its name, which the table of agents knows
	Argv       []string // what is executed
	Executable string   // the real path of the program; "": nothing that needs to be seen
	Cwd        string
	Roots      []string // further writable ones
	Env        []string // the agent's
	Own        []string // Baton's own directories
	Config     string   // Baton's configuration file, which need not exist; "": none
	Bound      []string // real paths of folders that the caller's sessions work in and in no other; none: it is not bound
}

// Policy is what a launch needs of it. The zero value is that of a session without any.
type Policy struct {
	Filesystem *sandbox.Filesystem // nil: no rules
	Env        []string            // the agent's environment as it fits the rules
	Writable   []string            // what is writable, the session's private folders left out
	Private    []string
	Holes      []string // what was found that the rules cannot hold, a sentence each
	// Watched are folders of git's without a file commondir. git never makes one there, and whoever does has git take its
	// configuration, and so programs to run, from elsewhere. No rule holds a file that is not there: it has to be looked for.
	Watched []string
}

// Compile looks at the files that there are and makes the rules. It makes the folders of a known agent's own state, where
// they are missing, and the empty hooks folder of a repository: what is not there can be neither written nor protected.
func Compile(a Ask) (Policy, error) {
	if a.Sandbox == sessions.SandboxFullAccess {
		return Policy{Env: a.Env}, nil
	}
	c := &compiler{Ask: a, rules: map[string]sandbox.Access{}}
	c.home = c.real(c.getenv("HOME"))
	var err error
	if a.Around {
		err = c.around()
	}
	if err == nil {
		err = c.ownConfig()
	}
	if err == nil {
		err = c.hide()
	}
	if err != nil {
		return Policy{}, err
	}
	return c.policy(), nil
}

type compiler struct {
	Ask
	home  string // real path, "" when there is none
	rules map[string]sandbox.Access
	roots []string // real paths of what was asked to be writable
	holes []string

	watched     []string // folders of git's, see Policy.Watched
	userGit     []setting
	userGitRead bool
	gitCodes    int // protected because git's configuration names them
}

// around makes the rules of the whole policy.
func (c *compiler) around() error {
	roots, err := c.workspace()
	if err != nil {
		return err
	}
	c.private(roots)
	c.roots = roots
	if c.Sandbox == sessions.SandboxReadOnly {
		c.roots = roots[1:]
	}
	for _, root := range c.roots {
		c.rules[root] = sandbox.Writable
	}
	if err := c.state(); err != nil {
		return err
	}
	for _, root := range c.roots {
		c.repositories(root)
		c.startFiles(root)
		c.hardLinks(root)
	}
	c.bringBack(roots)
	return nil
}

// workspace resolves and checks the folders that the session works in, the cwd first.
func (c *compiler) workspace() ([]string, error) {
	var roots []string
	for i, dir := range append([]string{c.Cwd}, c.Roots...) {
		name := "cwd"
		if i > 0 {
			name = "writable_roots"
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, sessions.Errorf(sessions.CodeInvalidParams, "%s %.200q cannot be resolved: %w", name, dir, err)
		}
		for _, own := range c.Own {
			if o, err := filepath.EvalSymlinks(own); err == nil && within(real, o) {
				return nil, sessions.Errorf(sessions.CodeInvalidParams, "%s %.200q lies in Baton's own directory %s", name, dir, own).
					Do("name another directory")
			}
		}
		if (i > 0 || c.Sandbox == sessions.SandboxWorkspaceWrite) && slices.ContainsFunc(system, func(s string) bool { return within(s, real) }) {
			return nil, sessions.Errorf(sessions.CodeInvalidParams, "%s %.200q holds the system's own folders, and sandbox %s would protect nothing", name, dir, c.Sandbox).
				Do("name a directory of a project, or ask for sandbox %s", sessions.SandboxFullAccess)
		}
		if !slices.Contains(roots, real) {
			roots = append(roots, real)
		}
	}
	return roots, nil
}

// system are folders that no root may contain.
var system = []string{"/proc", "/dev", "/sys", "/etc", "/usr", "/bin"}

// private gives the session its own temporary folders, unless one of them is what it is to work in.
func (c *compiler) private(roots []string) {
	for _, dir := range []string{"/tmp", "/dev/shm", c.runtimeDir()} {
		real := c.real(dir)
		if fi, err := os.Lstat(real); real == "" || err != nil || !fi.IsDir() {
			continue
		}
		if slices.ContainsFunc(roots, func(root string) bool { return within(real, root) }) {
			c.hole("%s is shared with every other program, because the session is to work in it", dir)
			continue
		}
		c.rules[real] = sandbox.Private
	}
}

// bringBack shows what lies in a private folder and is needed there: what the session works in, its program, and whatever
// the agent's environment and command line name.
func (c *compiler) bringBack(roots []string) {
	wanted := slices.Clone(roots)
	for _, root := range roots {
		if common, err := worktree(filepath.Join(root, ".git")); err == nil {
			wanted = append(wanted, common)
		}
	}
	if c.Executable != "" {
		wanted = append(wanted, c.program(c.Executable))
	}
	wanted = append(wanted, c.Argv...)
	for _, v := range c.Env {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "TMPDIR":
		case "PATH":
			wanted = append(wanted, filepath.SplitList(value)...)
		default:
			wanted = append(wanted, value)
			if fi, err := os.Stat(value); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
				wanted = append(wanted, c.program(c.real(value)))
			}
		}
	}
	for _, path := range wanted {
		if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
			continue
		}
		path = filepath.Clean(path)
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if c.below(sandbox.Private, path) && path != real {
			c.hole("%s is not there for the session: it is a symbolic link in a folder that the session has for itself", path)
		}
		if _, ruled := c.rules[real]; !ruled && c.below(sandbox.Private, real) && !c.below(sandbox.Writable, real) {
			c.rules[real] = sandbox.ReadOnly
		}
	}
	if c.below(sandbox.Private, c.home) && c.rules[c.home] == "" {
		c.rules[c.home] = sandbox.ReadOnly
	}
}

// program is what of a program has to be seen: its folder, that above a bin (Codex 0.171 has its bubblewrap beside it), or
// for a script of npm everything that was installed with it.
func (c *compiler) program(path string) string {
	if i := strings.Index(path, "/node_modules/"); i > 0 {
		return path[:i] + "/node_modules"
	}
	dir := filepath.Dir(path)
	if above := filepath.Dir(dir); filepath.Base(dir) == "bin" && c.below(sandbox.Private, above) {
		return above
	}
	if c.below(sandbox.Private, dir) {
		return dir
	}
	return path
}

// policy gives the rules. What lies below something hidden needs none.
func (c *compiler) policy() Policy {
	slices.Sort(c.watched)
	p := Policy{Env: c.Env, Holes: c.holes, Watched: slices.Compact(c.watched)}
	fs := &sandbox.Filesystem{Name: Hidden, ReadOnly: c.Around}
	if c.Around {
		fs.Name = c.Sandbox
		p.Env = append(slices.DeleteFunc(slices.Clone(c.Env), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") }), "TMPDIR=/tmp")
	}
	for path, access := range c.rules {
		if c.below(sandbox.Hidden, path) {
			continue
		}
		fs.Rules = append(fs.Rules, sandbox.Rule{Path: path, Access: access})
		switch {
		case access == sandbox.Private:
			p.Private = append(p.Private, path)
		case access == sandbox.Writable && !c.below(sandbox.Writable, path):
			p.Writable = append(p.Writable, path)
		}
	}
	slices.SortFunc(fs.Rules, func(a, b sandbox.Rule) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(p.Private)
	slices.Sort(p.Writable)
	p.Filesystem = fs
	return p
}

// keep makes a path below a writable one read-only. What lies between both becomes a mount of its own: a folder that is
// none could be moved away as a whole, and another one put in its place.
func (c *compiler) keep(root, path string) {
	if real, err := filepath.EvalSymlinks(path); err != nil || real != path {
		return // not there, or elsewhere
	}
	c.rules[path] = sandbox.ReadOnly
	for dir := filepath.Dir(path); strings.HasPrefix(dir, root+"/"); dir = filepath.Dir(dir) {
		if c.rules[dir] == "" {
			c.rules[dir] = sandbox.Writable
		}
	}
}

// below tells whether a path lies in a folder of an access, and is not that folder itself.
func (c *compiler) below(a sandbox.Access, path string) bool {
	for dir := filepath.Dir(path); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if c.rules[dir] == a {
			return true
		}
	}
	return false
}

// within tells whether path is dir or lies in it.
func within(path, dir string) bool {
	return dir != "" && (path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/"))
}

// real is a path without symbolic links, "" when it is not there.
func (c *compiler) real(path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return real
}

func (c *compiler) getenv(name string) string {
	for _, v := range c.Env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
