package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonmcp/baton/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	got, err := Parse("/c", []byte(`
[host]
idle_exit = "90s"
idle_close = "2h"
allow_unconfined_full_access = true

[runners.opencode]
protocol = "acp"
command = ["opencode", "acp"]
env = { OPENCODE_MODE = "x" }
models = ["a", "b"]

[runners.codex]
command = ["~/bin/codex", "app-server"]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{path: "/c", Host: Host{IdleExit: Duration(90 * time.Second), IdleClose: Duration(2 * time.Hour), AllowUnconfinedFullAccess: true},
		Runners: map[string]Custom{
			"opencode": {Protocol: ACP, Command: []string{"opencode", "acp"}, Env: map[string]string{"OPENCODE_MODE": "x"}, Models: []string{"a", "b"}},
			"codex":    {Command: []string{"~/bin/codex", "app-server"}},
		}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestIdleExit(t *testing.T) {
	for text, want := range map[string]time.Duration{"": DefaultIdleExit, "[host]\nidle_exit='never'": -1, "[host]\nidle_exit='1h30m'": 90 * time.Minute} {
		c, err := Parse("/c", []byte(text))
		if err != nil || c.Host.Idle() != want {
			t.Errorf("%q: %v, %v", text, c, err)
		}
	}
}

func TestHiddenPaths(t *testing.T) {
	c, err := Parse("/c", []byte("[sandbox]\nhidden = ['/srv/keys/', '~/private/../private', '/srv/keys', '/etc/ssl/private']"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.HiddenPaths("/home/a", "/home/b", "", "/home/a"), []string{"/etc/ssl/private", "/home/a/private", "/home/b/private", "/srv/keys"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "[host]\n\nidel_exit = '1m'", "/c:3: unknown key host.idel_exit"},
		{"unknown key of a runner", "[runners.a]\nprotocol='acp'\ncommand=['a']\nargs=['b']", "/c:4: unknown key runners.a.args"},
		{"unknown section", "[hosts]\nx=1", "/c:1: unknown key hosts"},
		{"several", "a=1\nb=2", "/c:1: unknown key a; 2: unknown key b"},
		{"wrong type", "[host]\nallow_unconfined_full_access = 'yes'", "/c:2: host.allow_unconfined_full_access: cannot decode TOML string"},
		{"wrong type in a list", "[runners.a]\nprotocol='acp'\ncommand=['a', 3]", "/c:3: runners.a.command: cannot decode TOML integer"},
		{"no TOML", "[host", "/c:1: "},
		{"twice", "[host]\nidle_exit='1m'\nidle_exit='2m'", "/c:3: idle_exit: key idle_exit is already defined"},
		{"no duration", "[host]\nidle_exit = '10'", `/c:2: host.idle_exit: "10" is no duration`},
		{"negative duration", "[host]\nidle_exit = '-1s'", `/c:2: host.idle_exit: "-1s" is no duration`},
		{"zero duration", "[host]\nidle_exit = '0s'", `/c:2: host.idle_exit: "0s" is no duration`},
		{"no protocol", "\n[runners.a]\ncommand=['a']", `/c:2: runners.a.protocol is missing: it is "acp" or "app-server"`},
		{"other protocol", "[runners.a]\nprotocol='mcp'\ncommand=['a']", `/c:1: runners.a.protocol is "mcp"`},
		{"no command", "[runners.a]\nprotocol='acp'", "/c:1: runners.a.command is missing"},
		{"empty command", "[runners.codex]\ncommand=[]", "/c:1: runners.codex.command is missing or empty"},
		{"empty program", "[runners.a]\nprotocol='acp'\ncommand=['', 'x']", "/c:1: runners.a.command names an empty program"},
		{"zero byte", "[runners.a]\nprotocol='acp'\ncommand=['a', \"b\\u0000\"]", "/c:1: runners.a.command holds a zero byte"},
		{"built-in with another protocol only", "[runners.codex]\nprotocol='acp'", `/c:1: runners.codex.command is missing: codex itself speaks "app-server"`},
		{"name", "[runners.'../a']\nprotocol='acp'\ncommand=['a']", "/c:1: runners.../a: the name does not match"},
		{"upper case", "[runners.A]\nprotocol='acp'\ncommand=['a']", "/c:1: runners.A: the name does not match"},
		{"names of one variable", "[runners.a-b]\nprotocol='acp'\ncommand=['a']\n[runners.a_b]\nprotocol='acp'\ncommand=['a']",
			"/c:4: runners.a_b: the variable BATON_RUNNER_A_B belongs to runner a-b"},
		{"variable name", "[runners.a]\nprotocol='acp'\ncommand=['a']\nenv={'A=B'='1'}", `/c:1: runners.a.env."A=B" is no environment variable`},
		{"hidden by a relative path", "[sandbox]\nhidden=['secret']", `sandbox.hidden: "secret" is neither absolute nor below ~/`},
		{"hidden home", "[sandbox]\nhidden=['~/']", "whole home folder"},
		{"hidden home, at length", "[sandbox]\nhidden=['~/a/..']", "whole home folder"},
		{"hidden root", "[sandbox]\nhidden=['/']", "system's own"},
		{"hidden system", "[sandbox]\nhidden=['/usr/']", "system's own"},
		{"hidden zero byte", "[sandbox]\nhidden=[\"/a\\u0000\"]", "zero byte"},
		{"inline section", "runners.a = {protocol='acp'}", "/c: runners.a.command is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse("/c", []byte(c.text))
			if got != nil || sessions.CodeOf(err) != sessions.CodeInvalidParams || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v\nwant %s", got, err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "struct") || sessions.AsError(err).Action == "") {
				t.Errorf("that is no text for a user: %v", err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	c, err := Load(file)
	if err != nil || !reflect.DeepEqual(c, &Config{path: file}) {
		t.Errorf("missing file: %+v, %v", c, err)
	}
	if _, err := Load(dir); sessions.CodeOf(err) != sessions.CodeInvalidParams || !strings.Contains(err.Error(), dir) {
		t.Errorf("a folder: %v", err)
	}
	if err := os.WriteFile(file, []byte("x = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), file+":1: unknown key x") {
		t.Errorf("an unknown key: %v", err)
	}
}
