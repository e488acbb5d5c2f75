package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
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
