package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/internal/install"
	"github.com/batonmcp/baton/sessions"
)

// newPlace is a world in which nothing is started.
func newPlace(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.work = w.path("work")
	for _, d := range []string{w.work, w.path("home"), w.path("tmp"), w.path("baton")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.env = []string{"HOME=" + w.path("home"), "TMPDIR=" + w.path("tmp"), "BATON_HOME=" + w.path("baton")}
	w.settle()
	return w
}

// settle makes this process see the environment of the world, so that installations can be made in it: a process for
// each of them takes long with the race detector.
func (w *world) settle() {
	w.t.Helper()
	for _, name := range []string{"XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "OPENCODE_CONFIG"} {
		w.t.Setenv(name, "")
	}
	for _, e := range w.env {
		name, value, _ := strings.Cut(e, "=")
		w.t.Setenv(name, value)
	}
}

// install is `baton install` for a program. It returns what it answered.
func (w *world) install(host string, i installation, args ...string) (installed, error) {
	w.t.Helper()
	h, err := install.Find(host)
	if err != nil {
		w.t.Fatal(err)
	}
	var out bytes.Buffer
	i.host, i.name, i.asJSON, i.out = h, "baton", true, &out
	var done installed
	if err := i.run(w.t.Context(), args); err != nil {
		if out.Len() > 0 {
			w.t.Errorf("it failed and said %s", out.Bytes())
		}
		return done, err
	}
	if err := json.Unmarshal(out.Bytes(), &done); err != nil {
		w.t.Fatalf("%v in %s", err, out.Bytes())
	}
	return done, nil
}

func (w *world) read(file string) []byte {
	w.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// TestInstall registers with every host, in an empty HOME, as its user would. BATON_FULL=1 proves each of them, and else
// TestInstallProves one.
func TestInstall(t *testing.T) {
	full := os.Getenv("BATON_FULL") != ""
	w := newPlace(t)
	if full {
		w = newWorld(t)
		w.settle()
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range install.Hosts() {
		done, err := w.install(h.Name, installation{program: exe, prove: full})
		if err != nil || done.Action != "installed" || !strings.HasPrefix(done.File, w.path("home")) || done.Command == nil || done.Command.Env["BATON_HOME"] != w.path("baton") {
			t.Fatalf("%s: %+v %v", h.Name, done, err)
		}
		if full {
			proven(t, done)
		}
		text := w.read(done.File)
		if again, err := w.install(h.Name, installation{program: exe}); err != nil || again.Action != "unchanged" || !bytes.Equal(text, w.read(done.File)) {
			t.Errorf("%s again: %+v %v", h.Name, again, err)
		}
		if gone, err := w.install(h.Name, installation{uninstall: true}); err != nil || gone.Action != "uninstalled" || exists(done.File) {
			t.Errorf("%s uninstalled: %+v %v", h.Name, gone, err)
		}
		if gone, err := w.install(h.Name, installation{uninstall: true}); err != nil || gone.Action != "unchanged" {
			t.Errorf("%s uninstalled twice: %+v %v", h.Name, gone, err)
		}
	}
}

func proven(t *testing.T, done installed) {
	t.Helper()
	if p := done.Proof; p == nil || p.Tools != len(demoTools) || p.Turn != "completed" || p.Stopped == "" || p.Protocol == "" {
		t.Errorf("%s: proof %+v", done.Host, p)
	}
}

// TestInstallProves starts what it registered, and leaves nothing of that behind.
func TestInstallProves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, errs, status := w.verb("install", "codex", "--json", "--command", exe)
	var done installed
	if status != 0 || json.Unmarshal([]byte(out), &done) != nil || done.Action != "installed" {
		t.Fatalf("%d %s %s", status, out, errs)
	}
	proven(t, done)
	if left, err := filepath.Glob(w.path("tmp/baton-demo-*")); err != nil || len(left) > 0 {
		t.Errorf("the proof left %q, %v", left, err)
	}
}

// TestInstallTakesBackWhatDoesNotWork: the old bytes are there again, and nothing else is.
func TestInstallTakesBackWhatDoesNotWork(t *testing.T) {
	w := newPlace(t)
	file := w.path("home/mcp.json")
	const old = "{ /* mine */ }"
	for name, program := range map[string]string{
		"no program":      w.path("nowhere/baton"),
		"a folder":        w.path("work"),
		"it ends at once": "/bin/false",
	} {
		w.write("home/mcp.json", old)
		_, err := w.install("cursor", installation{file: file, program: program, prove: true})
		if err == nil || exitCode(err) != exitError || !strings.Contains(err.Error(), "is as it was") || !strings.Contains(err.Error(), program) {
			t.Errorf("%s: %v", name, err)
		}
		if got := w.read(file); string(got) != old {
			t.Errorf("%s: the file holds %s", name, got)
		}
		entries, err := os.ReadDir(w.path("home"))
		if err != nil || len(entries) != 1 {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

func TestInstallWithoutChanges(t *testing.T) {
	w := newPlace(t)
	file := w.path("home/mcp.json")
	w.write("home/mcp.json", "{\"mcpServers\": {}}")
	run := func(host string, i installation, args ...string) (string, error) {
		var out bytes.Buffer
		i.name, i.program, i.out = "baton", "/opt/baton", &out
		var err error
		if i.host, err = install.Find(host); err != nil {
			t.Fatal(err)
		}
		err = i.run(t.Context(), args)
		return out.String(), err
	}
	if out, err := run("cursor", installation{file: file, dry: true}); err != nil || !strings.Contains(out, "+{\"mcpServers\": {") || !strings.Contains(out, "/opt/baton") {
		t.Errorf("%s %v", out, err)
	}
	foreign := "{\"mcpServers\": {\"baton\": {\"command\": \"conductor\"}}}"
	w.write("home/foreign.json", foreign)
	for _, i := range []installation{{uninstall: true}, {uninstall: true, dry: true}} {
		i.file = w.path("home/foreign.json")
		if out, err := run("cursor", i); err != nil || !strings.Contains(out, "starts conductor: that is not Baton, and stays") || string(w.read(i.file)) != foreign {
			t.Errorf("%s %v", out, err)
		}
		i.asJSON = true
		if out, err := run("cursor", i); err != nil || !strings.Contains(out, `"foreign":"starts conductor"`) {
			t.Errorf("%s %v", out, err)
		}
	}
	if out, err := run("codex", installation{print: true}, "--principal", "codex"); err != nil || !strings.Contains(out, "[mcp_servers.baton]\ncommand = \"/opt/baton\"\nargs = [\"mcp\", \"--principal\", \"codex\"]\n") {
		t.Errorf("%s %v", out, err)
	}
	if got := w.read(file); string(got) != "{\"mcpServers\": {}}" {
		t.Errorf("the file holds %s", got)
	}
	w.write("home/mcp.json", "{\"mcpServers\": ")
	if out, err := run("cursor", installation{file: file}); err == nil || exitCode(err) != exitUsage || out != "" || !strings.Contains(err.Error(), file) {
		t.Errorf("%s %v", out, err)
	}
	for _, argv := range [][]string{nil, {"emacs"}, {"cursor", "zed"}} {
		c := newInstall()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs(argv)
		if err := c.ExecuteContext(t.Context()); err == nil || exitCode(err) != exitUsage {
			t.Errorf("%q: %v", argv, err)
		}
	}
}

// TestInstallIsReadByTheHost: the real programs read what was written, where a test finds them.
func TestInstallIsReadByTheHost(t *testing.T) {
	for _, tt := range []struct {
		host, variable string
		argv           []string
		says           []string
	}{
		{"codex", "BATON_TEST_CODEX", []string{"mcp", "get", "baton", "--json"}, []string{`"name": "baton"`, `"enabled": true`, `"BATON_HOME"`}},
		{"claude-code", "BATON_TEST_CLAUDE_CODE", []string{"mcp", "get", "baton"}, []string{"Connected", "User config", "BATON_HOME"}},
		{"opencode", "BATON_TEST_OPENCODE", []string{"mcp", "list"}, []string{"baton", "connected"}},
	} {
		t.Run(tt.host, func(t *testing.T) {
			program := os.Getenv(tt.variable)
			if program == "" {
				t.Skipf("%s is not set: the real %s does not read it", tt.variable, tt.host)
			}
			w := newWorld(t) // a host that lists its servers may start them
			w.settle()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.install(tt.host, installation{program: exe}); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program, tt.argv...)
			cmd.Env, cmd.Dir = w.env, w.work
			out, err := cmd.CombinedOutput()
			for _, want := range tt.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("%v: no %s in %s", err, want, out)
				}
			}
		})
	}
}

// A server of that name that Baton did not write is replaced for whoever asks for that, and for nobody else.
func TestInstallOverWhatIsNotBaton(t *testing.T) {
	w := newPlace(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		entry   string
		refused bool
	}{
		"another program":           {`{"command": "/usr/bin/other", "args": ["serve"]}`, true},
		"a server elsewhere":        {`{"url": "http://127.0.0.1:1/mcp"}`, true},
		"no table":                  {`"old"`, true},
		"baton, for something else": {`{"command": "/usr/bin/baton", "args": ["host", "run"]}`, true},
		"Baton of another place":    {`{"command": "/old/baton", "args": ["mcp", "--principal", "x"]}`, false},
		"this very program":         {`{"command": "` + exe + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "mcp.json")
			text := `{"mcpServers": {"baton": ` + tt.entry + `, "z": {"command": "z"}}}`
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, dry := range []bool{true, false} {
				_, err := w.install("cursor", installation{program: exe, file: file, dry: dry})
				if !tt.refused {
					if err != nil {
						t.Error(err)
					}
					continue
				}
				if e := sessions.AsError(err); err == nil || e.Code != sessions.CodeInvalidParams || !strings.Contains(e.Message, "baton") || !strings.Contains(e.Message, file) || !strings.Contains(e.Action, "--force") {
					t.Errorf("dry %t: %v", dry, err)
				}
				if left, err := os.ReadDir(filepath.Dir(file)); string(w.read(file)) != text || err != nil || len(left) != 1 {
					t.Errorf("dry %t: %s; %v, %v", dry, w.read(file), left, err)
				}
			}
			if !tt.refused {
				return
			}
			done, err := w.install("cursor", installation{program: exe, file: file, uninstall: true})
			if err != nil || done.Action != "foreign" || string(w.read(file)) != text {
				t.Errorf("uninstall: %+v, %v, %s", done, err, w.read(file))
			}
			done, err = w.install("cursor", installation{program: exe, file: file, force: true})
			if err != nil || done.Action != "installed" || done.Backup == "" || string(w.read(done.Backup)) != text {
				t.Errorf("with force: %+v, %v", done, err)
			}
		})
	}
}
