package config

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// tree makes files below a folder of its own, whose path has no symlinks: "x" executable, "-" not, "/" a folder, "> to"
// a symlink, "#" a script that begins with that line.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, what := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch to, link := strings.CutPrefix(what, "> "); {
		case err != nil:
		case link:
			err = os.Symlink(to, path)
		case what == "/":
			err = os.MkdirAll(path, 0o755)
		case what == "x":
			err = os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)
		case what == "-":
			err = os.WriteFile(path, nil, 0o644)
		default:
			err = os.WriteFile(path, []byte(what), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestSameAgent(t *testing.T) {
	c, err := Parse("x", []byte(`
[runners.mine]
protocol = "app-server"
command = ["/opt/codex-nightly", "serve"]
[runners.open2]
protocol = "acp"
command = ["~/bin/opencode", "acp"]
[runners.npx-a]
protocol = "acp"
command = ["npx", "a"]
[runners.npx-b]
protocol = "acp"
command = ["npx", "b"]
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range []struct {
		a, b string
		same bool
	}{
		{"codex", "codex", true}, {"codex", "mine", true}, {"codex", "codex-acp", true}, {"opencode", "open2", true}, {"codex", "a name of old", true},
		{"codex", "cursor", false}, {"npx-a", "npx-b", false}, {"gemini", "qwen", false}, {"codex-acp", "claude", false},
	} {
		if c.SameAgent(pair.a, pair.b) != pair.same || c.SameAgent(pair.b, pair.a) != pair.same {
			t.Errorf("%s and %s: want %v", pair.a, pair.b, pair.same)
		}
	}
}

func TestResolve(t *testing.T) {
	triple, suffix, ok := codexTarget(runtime.GOOS, runtime.GOARCH)
	if !ok {
		t.Skip("Codex has no program for this system")
	}
	own := "npm/node_modules/@openai/codex-" + suffix + "/vendor/" + triple
	below := "nested/node_modules/@openai/codex/node_modules/@openai/codex-" + suffix + "/vendor/" + triple
	old := "old/node_modules/@openai/codex/vendor/"
	root := tree(t, map[string]string{
		"bin/codex": "x", "bin/cursor-agent": "x", "bin/with space": "x", "bin/agent": "x",
		"second/codex": "x", "second/agent": "x",
		"not/codex": "-", "not/cursor-agent": "-", "dir/codex": "/", "dir/cursor-agent": "/",
		"home/tools/agent": "x", "work/tools/agent": "x", "work/codex": "x",
		"cursor/bin/cursor-agent": "> ../versions/7/cursor-agent", "cursor/versions/7/cursor-agent": "x",
		"volta/codex": "> volta-shim", "volta/volta-shim": "x",
		"dangling/codex": "> nowhere",
		"npm/bin/codex":  "> ../node_modules/@openai/codex/bin/codex.js", "npm/node_modules/@openai/codex/bin/codex.js": "x",
		own + "/bin/codex": "x",
		"nested/node_modules/@openai/codex/bin/codex.js": "x", below + "/codex/codex": "x",
		"old/node_modules/@openai/codex/bin/codex.js": "x", old + triple + "/codex/codex": "x", old + "other-target/codex/codex": "x",
		"bare/node_modules/@openai/codex/bin/codex.js": "x", "bare/bin/codex": "> ../node_modules/@openai/codex/bin/codex.js",
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	selfWord := self
	if runtime.GOOS == "linux" {
		selfWord = "/proc/self/exe"
	}
	configuration := `
[runners.plain]
protocol = "acp"
command = ["agent", "one", "two"]
[runners.absolute]
protocol = "app-server"
command = ["ROOT/second/agent"]
env = { A = "b" }
models = ["m"]
[runners.at-home]
protocol = "acp"
command = ["~/tools/agent"]
[runners.relative]
protocol = "acp"
command = ["tools/agent"]
[runners.gone]
protocol = "acp"
command = ["ROOT/none"]
[runners.demo]
protocol = "acp"
command = ["baton:agent", "acp", "--slow"]
`
	parsed, err := Parse("/etc/c.toml", []byte(strings.ReplaceAll(configuration, "ROOT", root)))
	if err != nil {
		t.Fatal(err)
	}
	with := func(text string) *Config {
		c, err := Parse("/etc/c.toml", []byte(strings.ReplaceAll(text, "ROOT", root)))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}

	for _, c := range []struct {
		name   string
		config *Config // nil: the one above
		runner string
		env    string // NAME=value, one a word; ROOT stands for the folder
		cwd    string
		want   Runner // Argv and Executable below the folder
		err    string // part of the error
	}{
		{name: "codex in PATH", runner: "codex", env: "PATH=ROOT/none:ROOT/bin:ROOT/second",
			want: Runner{Protocol: AppServer, Argv: []string{"bin/codex", "app-server"}, Source: "PATH"}},
		{name: "cursor in PATH, by its link", runner: "cursor", env: "PATH=ROOT/cursor/bin",
			want: Runner{Protocol: ACP, Argv: []string{"cursor/versions/7/cursor-agent", "acp"}, Source: "PATH"}},
		{name: "PATH beyond what is no program", runner: "codex", env: "PATH=ROOT/not:ROOT/dir:ROOT/dangling:ROOT/second",
			want: Runner{Protocol: AppServer, Argv: []string{"second/codex", "app-server"}, Source: "PATH"}},
		{name: "relative entries of PATH", runner: "codex", env: "PATH=.:bin::ROOT/second", cwd: "work",
			want: Runner{Protocol: AppServer, Argv: []string{"second/codex", "app-server"}, Source: "PATH"}},
		{name: "the variable over PATH", runner: "codex", env: "PATH=ROOT/bin BATON_RUNNER_CODEX=ROOT/second/codex",
			want: Runner{Protocol: AppServer, Argv: []string{"second/codex", "app-server"}, Source: "BATON_RUNNER_CODEX"}},
		{name: "the variable over the configuration", runner: "at-home", env: "BATON_RUNNER_AT_HOME=ROOT/bin/agent",
			want: Runner{Protocol: ACP, Argv: []string{"bin/agent"}, Source: "BATON_RUNNER_AT_HOME"}},
		{name: "the variable, with the configuration's arguments", runner: "plain", env: "BATON_RUNNER_PLAIN=ROOT/second/agent",
			want: Runner{Protocol: ACP, Argv: []string{"second/agent", "one", "two"}, Source: "BATON_RUNNER_PLAIN"}},
		{name: "configured, by name", runner: "plain", env: "PATH=ROOT/second:ROOT/bin",
			want: Runner{Protocol: ACP, Argv: []string{"second/agent", "one", "two"}, Source: "/etc/c.toml"}},
		{name: "configured, absolute", runner: "absolute",
			want: Runner{Protocol: AppServer, Argv: []string{"second/agent"}, Source: "/etc/c.toml", Env: map[string]string{"A": "b"}, Models: []string{"m"}}},
		{name: "configured, at home", runner: "at-home", env: "HOME=ROOT/home",
			want: Runner{Protocol: ACP, Argv: []string{"home/tools/agent"}, Source: "/etc/c.toml"}},
		{name: "configured, in the session's folder", runner: "relative", cwd: "work",
			want: Runner{Protocol: ACP, Argv: []string{"work/tools/agent"}, Source: "/etc/c.toml"}},
		{name: "codex configured", config: with("[runners.codex]\ncommand=['ROOT/bin/with space','app-server','-c','x=1']"), runner: "codex", env: "PATH=ROOT/second",
			want: Runner{Protocol: AppServer, Argv: []string{"bin/with space", "app-server", "-c", "x=1"}, Source: "/etc/c.toml"}},
		{name: "codex behind another protocol", config: with("[runners.codex]\nprotocol='acp'\ncommand=['ROOT/bin/agent']"), runner: "codex",
			want: Runner{Protocol: ACP, Argv: []string{"bin/agent"}, Source: "/etc/c.toml"}},
		{name: "codex with further environment only", config: with("[runners.codex]\nenv={A='b'}"), runner: "codex", env: "PATH=ROOT/bin",
			want: Runner{Protocol: AppServer, Argv: []string{"bin/codex", "app-server"}, Source: "PATH", Env: map[string]string{"A": "b"}}},

		{name: "npm launcher", runner: "codex", env: "PATH=ROOT/npm/bin",
			want: Runner{Protocol: AppServer, Argv: []string{own + "/bin/codex", "app-server"}, Source: "PATH"}},
		{name: "npm launcher, nested package", runner: "codex", env: "BATON_RUNNER_CODEX=ROOT/nested/node_modules/@openai/codex/bin/codex.js",
			want: Runner{Protocol: AppServer, Argv: []string{below + "/codex/codex", "app-server"}, Source: "BATON_RUNNER_CODEX"}},
		{name: "npm launcher, all targets in one package", runner: "codex", env: "BATON_RUNNER_CODEX=ROOT/old/node_modules/@openai/codex/bin/codex.js",
			want: Runner{Protocol: AppServer, Argv: []string{old + triple + "/codex/codex", "app-server"}, Source: "BATON_RUNNER_CODEX"}},
		{name: "npm launcher without its program", runner: "codex", env: "PATH=ROOT/bare/bin",
			want: Runner{Protocol: AppServer, Argv: []string{"bare/node_modules/@openai/codex/bin/codex.js", "app-server"}, Source: "PATH"}},
		{name: "a version manager's link keeps its name", runner: "codex", env: "PATH=ROOT/volta",
			want: Runner{Protocol: AppServer, Argv: []string{"volta/codex", "app-server"}, Executable: "volta/volta-shim", Source: "PATH"}},

		{name: "embedded by the configuration", runner: "demo",
			want: Runner{Protocol: ACP, Argv: []string{selfWord, "agent", "acp", "--slow"}, Executable: self, Embedded: true, Source: "/etc/c.toml"}},
		{name: "embedded by the variable", runner: "codex", env: "BATON_RUNNER_CODEX=baton:agent",
			want: Runner{Protocol: AppServer, Argv: []string{selfWord, "agent", "app-server"}, Executable: self, Embedded: true, Source: "BATON_RUNNER_CODEX"}},

		{name: "unknown runner", runner: "nope", err: `there is no runner "nope"`},
		{name: "nowhere in PATH", runner: "codex", env: "PATH=ROOT/none:ROOT/home", err: "no codex is in PATH"},
		{name: "no PATH", runner: "codex", err: `PATH is "", without an absolute entry`},
		{name: "relative PATH", runner: "codex", env: "PATH=bin", cwd: "work", err: `PATH is "bin", without an absolute entry`},
		{name: "not executable in PATH", runner: "codex", env: "PATH=ROOT/not", err: "not/codex is not executable, and no other codex is in PATH"},
		{name: "a directory in PATH", runner: "cursor", env: "PATH=ROOT/dir", err: "dir/cursor-agent is a directory, and no other"},
		{name: "the variable is relative", runner: "codex", env: "PATH=ROOT/bin BATON_RUNNER_CODEX=bin/codex", cwd: "work",
			err: `BATON_RUNNER_CODEX is "bin/codex", which is not an absolute path`},
		{name: "the variable is a name", runner: "codex", env: "PATH=ROOT/bin BATON_RUNNER_CODEX=codex", err: "not an absolute path"},
		{name: "the variable leads nowhere", runner: "codex", env: "PATH=ROOT/bin BATON_RUNNER_CODEX=ROOT/none",
			err: "none, which BATON_RUNNER_CODEX names, does not exist"},
		{name: "the variable names a directory", runner: "cursor", env: "PATH=ROOT/bin BATON_RUNNER_CURSOR=ROOT/bin",
			err: "bin, which BATON_RUNNER_CURSOR names, is a directory"},
		{name: "the variable names what is not executable", runner: "codex", env: "PATH=ROOT/bin BATON_RUNNER_CODEX=ROOT/not/codex",
			err: "not/codex, which BATON_RUNNER_CODEX names, is not executable"},
		{name: "the configuration leads nowhere", runner: "gone", env: "PATH=ROOT/bin", err: "none, which /etc/c.toml names, does not exist"},
		{name: "the configuration's name is not in PATH", runner: "plain", env: "PATH=ROOT/none", err: "no agent is in PATH"},
		{name: "at home without HOME", runner: "at-home", err: `/etc/c.toml names "~/tools/agent", and HOME is ""`},
		{name: "relative without a session", runner: "relative", err: "relative to the cwd of a session"},
		{name: "relative, and not in this session's folder", runner: "relative", cwd: "home/none", err: "does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := c.config
			if config == nil {
				config = parsed
			}
			getenv := func(name string) string {
				for _, word := range strings.Fields(c.env) {
					if value, ok := strings.CutPrefix(word, name+"="); ok {
						return strings.ReplaceAll(value, "ROOT", root)
					}
				}
				return ""
			}
			cwd := ""
			if c.cwd != "" {
				cwd = filepath.Join(root, c.cwd)
			}
			got, err := config.Resolve(c.runner, cwd, getenv)
			if c.err != "" {
				e := sessions.AsError(err)
				if err == nil || e.Code != sessions.CodeRunnerMissing || !strings.Contains(e.Message, c.err) || e.Action == "" {
					t.Fatalf("got %+v, %v\nwant %s", got, err, c.err)
				}
				return
			}
			want := c.want
			want.Name = c.runner
			if !want.Embedded {
				want.Argv = slices.Clone(want.Argv)
				want.Argv[0] = filepath.Join(root, want.Argv[0])
				if want.Executable == "" {
					want.Executable = want.Argv[0]
				} else {
					want.Executable = filepath.Join(root, want.Executable)
				}
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

// What the user needs: where was looked, how to install, how to name another place.
func TestMissingRunnerSaysWhatToDo(t *testing.T) {
	c := &Config{path: "/etc/c.toml"}
	_, err := c.Resolve("codex", "", func(name string) string {
		return map[string]string{"PATH": "/nowhere/a:rel:/nowhere/b"}[name]
	})
	e := sessions.AsError(err)
	if !reflect.DeepEqual(e.Details["looked"], []string{"/nowhere/a", "/nowhere/b"}) || e.Details["runner"] != "codex" {
		t.Errorf("details %v", e.Details)
	}
	for _, part := range []string{"npm install -g @openai/codex", "BATON_RUNNER_CODEX", "[runners.codex] of /etc/c.toml"} {
		if !strings.Contains(e.Action, part) {
			t.Errorf("%q does not say %q", e.Action, part)
		}
	}
}

func TestNames(t *testing.T) {
	c, err := Parse("/c", []byte("[runners.z]\nprotocol='acp'\ncommand=['z']\n[runners.codex]\nenv={A='1'}\n[runners.a]\nprotocol='acp'\ncommand=['a']"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Names(); !slices.Equal(got, []string{"claude", "codex", "codex-acp", "cursor", "gemini", "opencode", "qwen", "a", "z"}) {
		t.Errorf("got %v", got)
	}
}

// Runners that nobody installed and nobody named are not shown, but for the two that everybody looks for.
func TestShown(t *testing.T) {
	root := tree(t, map[string]string{"bin/opencode": "x", "not/gemini": "-"})
	c, err := Parse("/c", []byte("[runners.qwen]\ncommand=['/nowhere/qwen']\n[runners.z]\nprotocol='acp'\ncommand=['z']"))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PATH": filepath.Join(root, "bin") + ":" + filepath.Join(root, "not"), "BATON_RUNNER_CLAUDE": "/nowhere/claude"}
	got := c.Shown(func(name string) string { return env[name] })
	if !slices.Equal(got, []string{"claude", "codex", "cursor", "opencode", "qwen", "z"}) {
		t.Errorf("shown %v", got)
	}
}

func TestAsdfShims(t *testing.T) {
	const shim = "#!/usr/bin/env bash\n# asdf-plugin: nodejs 20.1.0\n# asdf-plugin: nodejs 22.2.0\n# asdf-plugin: nodejs ../../evil\nexec asdf exec \"codex\" \"$@\"\n"
	root := tree(t, map[string]string{
		"home/.asdf/shims/codex":                      shim,
		"home/.asdf/installs/nodejs/20.1.0/bin/codex": "x",
		"home/.asdf/installs/nodejs/22.2.0/bin/codex": "x",
		"home/.tool-versions":                         "python 3.1\nnodejs 20.1.0 # the old one\n",
		"work/.tool-versions":                         "nodejs 22.2.0\n",
		"work/deep/er/x":                              "-",
		"missing/.tool-versions":                      "nodejs 23.0.0\n",
		"evil/.tool-versions":                         "nodejs ../../evil\n",
		"home/evil/bin/codex":                         "x",
		"home/.asdf/evil/bin/codex":                   "x",
		"data/shims/codex":                            shim,
		"data/installs/nodejs/22.2.0/.npm/bin/codex":  "x",
		"elsewhere/codex":                             shim,
	})
	for _, c := range []struct{ name, path, cwd, data, version, want string }{
		{"the version at home", "home/.asdf/shims", "", "", "", "home/.asdf/installs/nodejs/20.1.0/bin/codex"},
		{"the session's version", "home/.asdf/shims", "work", "", "", "home/.asdf/installs/nodejs/22.2.0/bin/codex"},
		{"of a folder above", "home/.asdf/shims", "work/deep/er", "", "", "home/.asdf/installs/nodejs/22.2.0/bin/codex"},
		{"of the variable", "home/.asdf/shims", "work", "", "20.1.0", "home/.asdf/installs/nodejs/20.1.0/bin/codex"},
		{"the first that is installed", "home/.asdf/shims", "", "", "23.0.0 22.2.0", "home/.asdf/installs/nodejs/22.2.0/bin/codex"},
		{"a version that is not installed", "home/.asdf/shims", "missing", "", "", "home/.asdf/shims/codex"},
		{"a version that leaves its folder", "home/.asdf/shims", "evil", "", "", "home/.asdf/shims/codex"},
		{"another data folder", "data/shims", "work", "data", "", "data/installs/nodejs/22.2.0/.npm/bin/codex"},
		{"no shim", "elsewhere", "work", "", "", "elsewhere/codex"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{"PATH": filepath.Join(root, c.path), "HOME": filepath.Join(root, "home"), "ASDF_NODEJS_VERSION": c.version}
			if c.data != "" {
				env["ASDF_DATA_DIR"] = filepath.Join(root, c.data)
			}
			cwd := ""
			if c.cwd != "" {
				cwd = filepath.Join(root, c.cwd)
			}
			got, err := (&Config{}).Resolve("codex", cwd, func(name string) string { return env[name] })
			if err != nil || got.Executable != filepath.Join(root, c.want) {
				t.Errorf("got %s, %v", got.Executable, err)
			}
		})
	}
}
