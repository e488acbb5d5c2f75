package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/internal/config"
)

// bare is a world with an empty HOME, as a user has it who never set BATON_HOME.
func bare(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	if err := os.MkdirAll(w.path("run"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "TMPDIR=" + w.path("tmp"), "XDG_RUNTIME_DIR=" + w.path("run"),
		"BATON_RUNNER_CODEX=" + config.EmbeddedAgent, "GORACE=" + os.Getenv("GORACE")}
	return w
}

// tree is every file and directory below a directory.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// One command undoes everything: sessions of every principal, the host, registrations by default and in a project's file,
// sockets, and with --purge the journal and the configuration. A dry run does none of it. What is not Baton's stays, byte
// for byte, and is named.
func TestUninstall(t *testing.T) {
	t.Parallel()
	w := bare(t)
	before := tree(t, w.path("home"))
	mine := w.start("-r", "codex")
	theirs := w.start("-r", "codex", "--principal", "somebody")
	w.says("send", mine, "[say 3][wait]")
	w.says("install", "codex", "--prove=false", "--command", self(t))
	w.says("install", "vscode", "--prove=false", "--command", self(t), "--file", w.path("project.json"), "--name", "second")
	w.write("home/.claude.json", `{"mcpServers": {"baton": {"command": "/usr/bin/music", "args": []}}}`)
	foreign := w.read(w.path("home/.claude.json"))
	w.write("home/.local/state/baton/mine.txt", "a user's own")
	if err := os.MkdirAll(w.path("home/.config/baton"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.write("home/.config/baton/config.toml", "[host]\n")

	// Dry: everything is said, and all is as it was. What the host and the agent make by themselves is there by then.
	await(t, "the turn", func() bool { return strings.Contains(w.says("logs", mine), "w1 w2 w3") })
	await(t, "the host's reserve", func() bool { return exists(w.path("home/.local/state/baton/reserve")) })
	was := append(tree(t, w.path("home")), tree(t, w.path("run"))...)
	out := w.says("uninstall", "--purge", "--dry-run")
	for _, want := range []string{"stops: session " + mine + " of local, running, codex in ", "stops: session " + theirs + " of somebody, idle", "stops: the host, pid ",
		"removes: baton from " + w.path("home/.codex/config.toml"), "removes: second from " + w.path("project.json"),
		"leaves: baton in " + w.path("home/.claude.json") + " (claude-code): it is not Baton's: it starts /usr/bin/music", "stays: every `baton mcp`", "removes for good: ", "nothing was done"} {
		if !strings.Contains(out, want) {
			t.Errorf("the dry run does not say %q:\n%s", want, out)
		}
	}
	if is := append(tree(t, w.path("home")), tree(t, w.path("run"))...); !slices.Equal(was, is) {
		t.Errorf("a dry run changed files: %q, then %q", was, is)
	}
	if left := w.says("list", "-o", "id"); strings.TrimSpace(left) != mine {
		t.Errorf("a dry run stopped sessions: %q", left)
	}

	// Without --purge the journal stays, and a host finds the sessions closed.
	var done uninstalled
	if err := json.Unmarshal([]byte(w.says("uninstall", "--json")), &done); err != nil {
		t.Fatal(err)
	}
	if len(done.Sessions) != 2 || done.Sessions[0].Stopped == "" || done.Host == 0 {
		t.Errorf("stopped: %+v", done)
	}
	if left := w.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, gone := range []string{w.path("run/baton"), w.path("home/.codex/config.toml"), w.path("project.json")} {
		if exists(gone) {
			t.Errorf("%s is still there", gone)
		}
	}
	if got := w.read(w.path("home/.claude.json")); string(got) != string(foreign) {
		t.Errorf("what is not Baton's was changed: %s", got)
	}
	if out := w.says("list", "--all", "--json"); strings.Count(out, `"state":"closed"`) != 1 || !strings.Contains(out, mine) {
		t.Errorf("after an uninstall that keeps the journal: %s", out)
	}

	// With it nothing of Baton's is left, and a user's file is.
	out = w.says("uninstall", "--purge")
	if !strings.Contains(out, "left: "+w.path("home/.local/state/baton/mine.txt")) {
		t.Errorf("what is left is not named: %s", out)
	}
	for _, f := range []string{"home/.local/state/baton/mine.txt", "home/.claude.json"} {
		if err := os.Remove(w.path(f)); err != nil {
			t.Error(err)
		}
	}
	if out = w.says("uninstall", "--purge"); strings.Contains(out, "stops:") {
		t.Errorf("there is nothing to stop: %s", out)
	}
	left := slices.DeleteFunc(tree(t, w.path("home")), func(p string) bool {
		return slices.Contains(before, p) || strings.HasPrefix(p, w.path("home/.codex")) || // the agent's own
			p == w.path("home/.local") || p == w.path("home/.local/state") || p == w.path("home/.config")
	})
	if len(left) > 0 || len(tree(t, w.path("run"))) != 1 {
		t.Errorf("left: %q and %q", left, tree(t, w.path("run")))
	}
	w.env[0] = "PATH=" + os.Getenv("PATH")
	if _, _, status := w.verb("uninstall", "now"); status != exitUsage {
		t.Errorf("an argument: status %d", status)
	}
}

// On a machine without anything of Baton's an uninstall says that, names nothing that is not there, and makes nothing.
func TestUninstallOfNothing(t *testing.T) {
	t.Parallel()
	w := bare(t)
	before := tree(t, w.dir)
	named := regexp.MustCompile(`/[^\s,;:()"]+`)
	check := func(say string, argv ...string) string {
		t.Helper()
		out := w.says(append([]string{"uninstall"}, argv...)...)
		if !strings.Contains(out, say) || strings.Contains(out, "removes: ") || strings.Contains(out, "removes for good: ") || strings.Contains(out, "stops: ") {
			t.Errorf("uninstall %q does not say %q, or more: %s", argv, say, out)
		}
		for _, path := range named.FindAllString(out, -1) {
			if !exists(path) {
				t.Errorf("uninstall %q names %s, which is not there: %s", argv, path, out)
			}
		}
		return out
	}
	for _, argv := range [][]string{{"--dry-run"}, {"--purge", "--dry-run"}, {"--purge"}, {}} {
		check("there is nothing to undo", argv...)
		check(`"registrations":[],"removed":[]`, append(argv, "--json")...)
	}
	if after := tree(t, w.dir); !slices.Equal(before, after) {
		t.Errorf("it made %q of %q", after, before)
	}
	if err := os.MkdirAll(w.path("home/.config/baton"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := w.path("home/.config/baton/config.toml")
	w.write("home/.config/baton/config.toml", "[music]\n") // another program's
	if out := check("leaves: "+config+": Baton cannot read it as its own", "--purge", "--dry-run"); !strings.Contains(out, "there is nothing to undo") {
		t.Errorf("another's configuration is taken for Baton's: %s", out)
	}
	w.write("home/.config/baton/config.toml", "[host]\n")
	check("stays: the configuration: "+config+" (--purge removes it)", "--dry-run")
	if out := w.says("uninstall", "--purge", "--dry-run"); !strings.Contains(out, "removes for good: "+config+"\n") {
		t.Errorf("of a configuration alone: %s", out)
	}
	if out := w.says("uninstall", "--purge"); !strings.Contains(out, "removed: "+config+"\n") || exists(w.path("home/.config/baton")) {
		t.Errorf("of a configuration alone: %s", out)
	}
}

// Sessions that a host left behind when it was killed are ended too, and an entry for another BATON_HOME is left.
func TestUninstallWithoutHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.start()
	w.json("home/.cursor/mcp.json", args{"mcpServers": args{"baton": args{"command": "/x/baton", "args": []string{"mcp"}, "env": args{"BATON_HOME": "/elsewhere"}}}})
	w.killHost()
	out := w.says("uninstall", "--purge", "--dry-run")
	if !strings.Contains(out, "no host runs; sessions that one left behind") {
		t.Errorf("dry: %s", out)
	}
	out = w.says("uninstall", "--purge")
	if !strings.Contains(out, "stopped: session "+id) || !strings.Contains(out, `it is for BATON_HOME "/elsewhere"`) {
		t.Errorf("uninstall: %s", out)
	}
	if !exists(w.path("home/.cursor/mcp.json")) {
		t.Error("the entry of another BATON_HOME is gone")
	}
	if left := w.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if exists(w.path("baton/state")) || exists(w.path("baton/run")) {
		t.Errorf("left: %q", tree(t, w.path("baton")))
	}
	w.write("baton/config.toml", "[host]\n") // for the end of the test
}

// On a terminal it says what it will do and asks first; who says no has lost nothing.
func TestUninstallAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.start()
	for _, answer := range []string{"n\n", "\n", ctrlD} {
		c := w.terminal("uninstall", "--purge")
		c.sees("stops: session " + id)
		c.sees("removes for good: ")
		c.sees("go on? [y/N]")
		c.types(answer)
		c.sees("nothing was done")
		c.ends(exitUsage)
	}
	if out := w.says("list", "-o", "id"); strings.TrimSpace(out) != id {
		t.Errorf("who said no lost %s: %q", id, out)
	}
	config := w.read(w.path("baton/config.toml"))
	c := w.terminal("uninstall", "--purge")
	c.sees("go on? [y/N]")
	c.types("y\n")
	c.sees("stopped: session " + id)
	c.ends(0)
	if exists(w.path("baton/state")) {
		t.Error("the state is still there")
	}
	w.write("baton/config.toml", string(config)) // for the end of the test
}
