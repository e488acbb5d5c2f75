package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestCommandLine runs every script of testdata/script over the real binary, each in a world of its own. Beside the
// commands of testscript a script has:
//
//	exits N COMMAND...   the command ends with exactly that status
//	take NAME            the last standard output, trimmed, becomes the variable NAME
func TestCommandLine(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			bin := w.path("bin")
			if err := os.Mkdir(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(exe, filepath.Join(bin, "baton")); err != nil {
				t.Fatal(err)
			}
			testscript.Run(t, testscript.Params{
				Files:               []string{file},
				RequireExplicitExec: true,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits": scriptExits,
					"take":  scriptTake,
				},
				Setup: func(env *testscript.Env) error {
					for _, e := range w.env {
						name, value, _ := strings.Cut(e, "=")
						env.Setenv(name, value)
					}
					env.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
					env.Setenv("work", w.work)
					return nil
				},
			})
		})
	}
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("status %d, want %d\n%s\n%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

func scriptTake(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: take NAME")
	}
	text := strings.TrimSpace(ts.ReadFile("stdout"))
	if text == "" {
		ts.Fatalf("there is no output to take")
	}
	ts.Setenv(args[0], text)
}
