package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

func TestStart(t *testing.T) {
	workspace := sessions.Selection{Sandbox: sessions.SandboxWorkspaceWrite, Model: "m", ApprovalPolicy: sessions.ApprovalOnRequest}
	full := sessions.Selection{Sandbox: sessions.SandboxFullAccess}
	type options = map[string]any
	for _, c := range []struct {
		name string
		argv []string
		wish Wish
		want string // the arguments
		rest options
		err  string
	}{
		{"cursor", []string{"acp"}, Wish{Selection: workspace, Roots: []string{"/a", "/b"}}, "--trust --sandbox enabled --add-dir /a --add-dir /b acp", options{}, ""},
		{"cursor", []string{"acp"}, Wish{Selection: full}, "--trust --sandbox disabled acp", options{}, ""},
		{"cursor", []string{"acp"}, Wish{Selection: full, Options: options{"force": true, "trust": false, "sandbox": "default", "fast": "true"}},
			"--force acp", options{"fast": "true"}, ""},
		{"cursor", []string{"acp"}, Wish{Selection: workspace, Options: options{"sandbox": "disabled"}}, "--trust --sandbox disabled acp", options{}, ""},
		{"cursor", []string{"x.js", "acp"}, Wish{Selection: full}, "x.js --trust --sandbox disabled acp", options{}, ""},
		{"cursor", []string{"acp"}, Wish{Options: options{"force": "yes"}}, "", nil, "force"},
		{"cursor", []string{"acp"}, Wish{Options: options{"sandbox": true}}, "", nil, "sandbox"},
		{"cursor", []string{"acp"}, Wish{Options: options{"sandbox": "loose"}}, "", nil, "default"},
		{"gemini", []string{"--acp"}, Wish{Selection: workspace}, "--acp --model m", nil, ""},
		{"gemini", []string{"--acp"}, Wish{Selection: sessions.Selection{Mode: "plan"}, Options: options{"trust": true}},
			"--acp --skip-trust --approval-mode plan", options{}, ""},
		{"gemini", []string{"--acp"}, Wish{Selection: sessions.Selection{ApprovalPolicy: sessions.ApprovalNever}}, "--acp --approval-mode yolo", nil, ""},
		{"opencode", []string{"acp"}, Wish{Selection: workspace, Options: options{"force": true}}, "acp", options{"force": true}, ""},
		{"mine", []string{"acp"}, Wish{Selection: workspace}, "acp", nil, ""},
	} {
		r, rest, err := Runner{Name: c.name, Argv: append([]string{"/bin/p"}, c.argv...)}.Start(c.wish)
		if c.err != "" {
			if sessions.CodeOf(err) != sessions.CodeInvalidParams || !strings.Contains(sessions.AsError(err).Error(), c.err) {
				t.Errorf("%s %+v: %v", c.name, c.wish, err)
			}
			continue
		}
		if err != nil || strings.Join(r.Argv, " ") != strings.TrimSpace("/bin/p "+c.want) {
			t.Errorf("%s %+v: %q, %v", c.name, c.wish, r.Argv, err)
		}
		if !maps.Equal(rest, c.rest) {
			t.Errorf("%s %+v: left %v, want %v", c.name, c.wish, rest, c.rest)
		}
	}
	// The scripted agent keeps its sub-command in front.
	r, _, err := Runner{Name: "cursor", Argv: []string{"/proc/self/exe", "agent", "acp"}, Embedded: true}.Start(Wish{Selection: full})
	if err != nil || !slices.Equal(r.Argv, []string{"/proc/self/exe", "agent", "acp", "--trust", "--sandbox", "disabled"}) {
		t.Errorf("embedded: %q, %v", r.Argv, err)
	}
}

func TestVariables(t *testing.T) {
	c, err := Parse("/c", []byte("[runners.claude]\ncommand=['/bin/sh']\nenv={ANTHROPIC_MODEL='own', X='y'}"))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"ANTHROPIC_MODEL": "callers", "CLAUDE_CODE_OAUTH_TOKEN": "t", "NODE_OPTIONS": "--require x", "GEMINI_API_KEY": "g"}
	getenv := func(name string) string { return env[name] }
	r, err := c.Resolve("claude", "/", getenv)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"ANTHROPIC_MODEL": "own", "CLAUDE_CODE_OAUTH_TOKEN": "t", "X": "y"}
	if got := r.Variables(getenv); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	passed := Passed()
	for _, name := range []string{"CLAUDE_CODE_OAUTH_TOKEN", "GEMINI_API_KEY", "OPENCODE_CONFIG"} {
		if !slices.Contains(passed, name) {
			t.Errorf("%s does not reach the host", name)
		}
	}
	for _, p := range passed {
		if strings.HasPrefix(p, "BATON_") || p == "NODE_OPTIONS" || p == "GITHUB_TOKEN" {
			t.Errorf("%s is passed", p)
		}
	}
}
