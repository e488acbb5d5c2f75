package acp

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What Cursor's own commands say, in the forms that were seen, and in none.
func TestAccount(t *testing.T) {
	const in, out = `{"isAuthenticated":true,"userInfo":{"email":"a@b.c"}}`, `{"isAuthenticated":false,"userInfo":null}`
	for name, c := range map[string]struct {
		about, status string
		want          account
	}{
		"JSON":            {`{"cliVersion":"2026.10.22","subscriptionTier":"Pro","userEmail":"a@b.c"}`, in, account{"2026.10.22", "yes"}},
		"signed out":      {`{"cliVersion":"2026.10.22","userEmail":null}`, out, account{"2026.10.22", "no"}},
		"API key":         {`{"cliVersion":"2026.10.22","userEmail":null}`, in, account{"2026.10.22", "yes"}},
		"text":            {"cursor-agent 1", "\n ✓ Logged in as a@b.c\n", account{"", "yes"}},
		"text, out":       {"", "Not logged in", account{"", "no"}},
		"noise before":    {`(node:1) Warning: x {"cliVersion":"1"}`, "", account{"1", "unknown"}},
		"no such command": {"error: unknown command 'about'", "error: unknown command", account{"", "unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for word, text := range map[string]string{"about": c.about, "status": c.status} {
				if err := os.WriteFile(filepath.Join(dir, word), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			// $0 is the folder, $1 the word; the rest must be the format.
			o := Options{Start: startProcess, AccountCommand: []string{"/bin/sh", "-c", `[ "$2 $3" = "--format json" ] && exec cat "$0/$1"`, dir}}.withDefaults()
			o.Env = []string{"PATH=" + os.Getenv("PATH")}
			if got := askAccount(testContext(t), o); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// A command that hangs, or whose child holds its output, costs its time and no more.
func TestAccountThatHangs(t *testing.T) {
	o := Options{Start: startProcess, AccountCommand: []string{"/bin/sh", "-c", `sleep 600 & echo '{"isAuthenticated":true}'; sleep 600`}}.withDefaults()
	o.Env = []string{"PATH=" + os.Getenv("PATH")}
	began := time.Now()
	got := askAccount(testContext(t), o)
	if took := time.Since(began); took < accountTimeout || took > patience {
		t.Errorf("took %s", took)
	}
	if got.login != "yes" { // what it said before counts
		t.Errorf("%+v", got)
	}
	o.AccountCommand = []string{"/no/such/program"}
	if got := askAccount(testContext(t), o); got.login != "unknown" {
		t.Errorf("%+v", got)
	}
}
