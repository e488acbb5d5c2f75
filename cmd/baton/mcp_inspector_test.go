package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// TestInspector: the official inspector (@modelcontextprotocol/inspector 2.12, which needs Node 22 or later) reads and calls
// the server over stdio, in both eras of the protocol. BATON_TEST_INSPECTOR is its program, a JavaScript file.
func TestInspector(t *testing.T) {
	node, program := os.Getenv("BATON_TEST_NODE"), os.Getenv("BATON_TEST_INSPECTOR")
	if node == "" || program == "" {
		t.Skip("BATON_TEST_NODE and BATON_TEST_INSPECTOR are not set: the official inspector does not look at the server")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	inspect := func(server []string, method string, more ...string) []byte {
		t.Helper()
		argv := []string{program, "--cli"}
		for _, e := range w.env { // the inspector hands its servers no environment of its own
			if !strings.HasSuffix(e, "=") { // which it takes for an error
				argv = append(argv, "-e", e)
			}
		}
		argv = append(append(argv, exe, "mcp"), server...)
		cmd := exec.Command(node, append(append(argv, "--method", method), more...)...)
		var out, errs bytes.Buffer
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = w.env, w.work, &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s %v: %v\n%s\n%s", method, more, err, errs.Bytes(), out.Bytes())
		}
		return out.Bytes()
	}
	for _, era := range []string{"legacy", "modern", "auto"} {
		var list struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal(inspect(nil, "tools/list", "--strict", "--protocol-era", era), &list); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, x := range list.Tools {
			names = append(names, x.Name)
		}
		if slices.Sort(names); !slices.Equal(names, demoTools) {
			t.Errorf("%s: tools %q", era, names)
		}
		var result struct {
			IsError bool
			Runners sessions.RunnerListResult `json:"structuredContent"`
		}
		if err := json.Unmarshal(inspect(nil, "tools/call", "--tool-name", "runner_list", "--protocol-era", era), &result); err != nil || result.IsError ||
			!slices.ContainsFunc(result.Runners.Runners, func(r sessions.Runner) bool { return r.Name == "codexlike" }) {
			t.Errorf("%s: %v, %+v", era, err, result)
		}
		var made struct {
			IsError bool
			Result  sessions.CreateResult `json:"structuredContent"`
		}
		if err := json.Unmarshal(inspect(nil, "tools/call", "--tool-name", "session_create", "--tool-arg", "runner=codexlike", "--tool-arg", "cwd="+w.work, "--protocol-era", era), &made); err != nil ||
			made.IsError || made.Result.Session.State != sessions.SessionIdle {
			t.Errorf("%s: %v, %+v", era, err, made)
		}
	}
	if got := inspect([]string{"--compat", "codex"}, "tools/list", "--strict"); !strings.Contains(string(got), `"codex-reply"`) {
		t.Errorf("compat: %s", got)
	}
	if got := inspect(nil, "prompts/list"); !strings.Contains(string(got), `"handoff"`) {
		t.Errorf("prompts: %s", got)
	}
	if got := inspect(nil, "resources/read", "--uri", "baton://sessions"); !strings.Contains(string(got), "codexlike") {
		t.Errorf("resources: %s", got)
	}
}
