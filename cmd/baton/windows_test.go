package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Whoever builds for Windows is told in one line why that does not work, before anything is compiled: a package that the
// program imports is not there.
func TestWindowsIsRefused(t *testing.T) {
	const only = "github.com/batonmcp/baton/internal/notonwindows"
	run := func(argv ...string) (string, error) {
		cmd := exec.Command("go", argv...)
		cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("build", only); err == nil || !strings.Contains(out, "internal/notonwindows: build constraints exclude all Go files") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("list", "-e", "-f", "{{.Imports}}", "."); err != nil || !strings.Contains(out, only) {
		t.Errorf("%v\n%s", err, out)
	}
}
