package install

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestRecords(t *testing.T) {
	r := Records{Path: filepath.Join(t.TempDir(), "installed.json")}
	a, b := Registration{"codex", "/c", "baton"}, Registration{"vscode", "/p/.vscode/mcp.json", "other"}
	for _, step := range []struct {
		do   func(Registration) error
		with Registration
		want []Registration
	}{{r.Remove, a, nil}, {r.Add, a, []Registration{a}}, {r.Add, a, []Registration{a}}, {r.Add, b, []Registration{a, b}}, {r.Remove, a, []Registration{b}}} {
		if err := step.do(step.with); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Load(); err != nil || !slices.Equal(got, step.want) {
			t.Errorf("got %v, %v, want %v", got, err, step.want)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(r.Path)); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.WriteFile(r.Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(a); err == nil {
		t.Error("a record that cannot be read was overwritten")
	}
}
