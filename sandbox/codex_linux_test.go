package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Codex puts bubblewrap, a user namespace of its own, around every command. BATON_TEST_CODEX names its native binary;
// seen with 0.171.
func TestCodexSandboxesInside(t *testing.T) {
	needNamespace(t)
	codex := os.Getenv("BATON_TEST_CODEX")
	if codex == "" {
		t.Skip("NOT TESTED: BATON_TEST_CODEX does not name a codex binary")
	}
	base := t.TempDir()
	other, err := os.MkdirTemp("/var/tmp", "sandbox") // Codex lets its commands write to all of /tmp
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(other)
	for _, d := range []string{"home", "work", "tmp", "state"} {
		if err := os.Mkdir(filepath.Join(base, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(base, "state", "secret")
	if err := os.WriteFile(secret, []byte("marker"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startBridge(t, Launch{Rung: PIDNamespace, Mask: []string{filepath.Join(base, "state")}})
	run := func(script string) reply {
		t.Helper()
		command := fmt.Sprintf("cd %s/work && exec %s sandbox -c 'sandbox_mode=\"workspace-write\"' -- /bin/sh -c %q", base, codex, script)
		return b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", command}, Env: []string{
			"PATH=/usr/bin:/bin", "HOME=" + base + "/home", "CODEX_HOME=" + base + "/home", "TMPDIR=" + base + "/tmp"}})
	}
	if a := run("echo hello > here && cat here"); a.Exit != 0 || !strings.Contains(a.Text, "hello") {
		t.Fatalf("exit %d %s: %s", a.Exit, a.Signal, a.Text)
	}
	if text, err := os.ReadFile(filepath.Join(base, "work", "here")); err != nil || string(text) != "hello\n" {
		t.Errorf("the workspace has %q, %v", text, err)
	}
	if a := run("echo hello > " + other + "/there"); a.Exit == 0 || !strings.Contains(a.Text, "Read-only") {
		t.Errorf("outside of the workspace: exit %d: %s", a.Exit, a.Text)
	}
	if a := run("cat " + secret); a.Exit == 0 || strings.Contains(a.Text, "marker") {
		t.Errorf("masked state: exit %d: %s", a.Exit, a.Text)
	}
	if v := b.Stop(within(t)); v.State != Confirmed {
		t.Errorf("%+v", v)
	}
}
