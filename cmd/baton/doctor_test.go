package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// doctor runs `baton doctor --json` in a world.
func (w *world) doctor() map[string]finding {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(exe, "doctor", "--json")
	cmd.Env = w.env
	out, _ := cmd.Output() // its status says what its lines say
	found := map[string]finding{}
	for line := range bytes.Lines(out) {
		var f finding
		if err := json.Unmarshal(line, &f); err != nil {
			w.t.Fatalf("%v in %s", err, line)
		}
		if f.Says == "" || (!f.OK && f.Fix == "") {
			w.t.Errorf("%+v does not say what is so, or what to do", f)
		}
		found[f.Part] = f
	}
	return found
}

func TestDoctor(t *testing.T) {
	w := newWorld(t)
	f := w.open()
	defer f.close()
	f.tools()
	well := w.doctor()
	for _, part := range []string{"folders", "config", "runner codexlike", "runner cursorlike"} {
		if !well[part].OK {
			t.Errorf("%s: %+v", part, well[part])
		}
	}
	w.write("baton/config.toml", "[host]\ncolour = \"red\"\n")
	if ill := w.doctor(); ill["config"].OK {
		t.Errorf("a broken configuration passes: %+v", ill["config"])
	}
	w.write("baton/config.toml", "")
	if ill := w.doctor(); ill["runner codexlike"].Part != "" {
		t.Errorf("a runner that is no longer configured: %+v", ill)
	}
}

// What cannot be written is no place for state, and a runner that is not installed is neither well nor a fault.
func TestDoctorSaysWhatIsMissing(t *testing.T) {
	if got, err := writable("/dev/null/state"); err == nil {
		t.Errorf("%s, %v", got, err)
	}
	dir := t.TempDir()
	if closed := filepath.Join(dir, "closed"); os.Getuid() != 0 { // root may write everywhere
		if err := os.Mkdir(closed, 0o500); err != nil {
			t.Fatal(err)
		}
		if got, err := writable(filepath.Join(closed, "a/b")); got != closed || err == nil {
			t.Errorf("%s, %v", got, err)
		}
	}
	if got, err := writable(filepath.Join(dir, "a/b")); got != dir || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	w := newWorld(t)
	w.env = append(w.env, "PATH=/none")
	found := w.doctor()
	if f := found["runner codex"]; f.OK || !f.Absent || strings.HasPrefix(f.Says, "runner codex") {
		t.Errorf("%+v", f)
	}
	if f := found["folders"]; !f.OK {
		t.Errorf("%+v", f)
	}
	w.env = append(w.env, "BATON_HOME=/dev/null/none")
	if f := w.doctor()["folders"]; f.OK || f.Fix == "" {
		t.Errorf("%+v", f)
	}
	open := w.path("open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env, "BATON_HOME="+open)
	if f := w.doctor()["folders"]; f.OK || !strings.Contains(f.Fix, "chmod go-w "+open) {
		t.Errorf("%+v", f)
	}
	w.env = w.env[:len(w.env)-3]
}

// A newcomer without any agent is told that nothing else is wrong and what there is to install; to a script it is a fault.
func TestDoctorWithoutAgents(t *testing.T) {
	w := newPlace(t)
	w.env = append(w.env, "PATH=/none")
	f := w.doctor()[noAgents]
	if f.OK || f.Absent || !strings.Contains(f.Fix, "opencode") || !strings.Contains(f.Fix, "baton demo") {
		t.Errorf("%+v", f)
	}
	fine, absent, none, broken := finding{Part: "host", OK: true}, finding{Part: "runner codex", Absent: true}, finding{Part: noAgents}, finding{Part: "config"}
	for _, c := range []struct {
		found  []finding
		status int
		says   string
	}{
		{[]finding{fine, absent}, 0, ""},
		{[]finding{fine, absent, none}, exitError, "all else works here"},
		{[]finding{fine, broken, absent}, exitError, "not everything works: config;"},
		{[]finding{broken, absent, none}, exitError, "not everything works: config, runners;"},
	} {
		err := verdict(c.found)
		if (err == nil) != (c.status == 0) || err != nil && (exitCode(err) != c.status || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v", c.found, err)
		}
	}
}
