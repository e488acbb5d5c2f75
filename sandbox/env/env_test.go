package env

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostile is an environment as a front end may have it: tokens that are nobody's business, and everything that makes
// another program run code.
var hostile = []string{
	"FAKE_DB_PASSWORD=marker", "GITHUB_TOKEN=marker", "NPM_TOKEN=marker", "ANTHROPIC_API_KEY=marker", "AWS_SECRET_ACCESS_KEY=marker",
	"SSH_AUTH_SOCK=/marker", "XDG_RUNTIME_DIR=/marker", "DBUS_SESSION_BUS_ADDRESS=marker",
	"NODE_OPTIONS=--require=/marker", "NODE_PATH=/marker", "LD_PRELOAD=/marker", "LD_LIBRARY_PATH=/marker", "LD_AUDIT=/marker",
	"DYLD_INSERT_LIBRARIES=/marker", "BASH_ENV=/marker", "ENV=/marker", "PROMPT_COMMAND=marker", "BASH_FUNC_ls%%=() { marker; }",
	"GIT_DIR=/marker", "GIT_SSH_COMMAND=marker", "GIT_CONFIG_COUNT=1marker", "PYTHONSTARTUP=/marker", "PYTHONPATH=/marker",
	"PERL5OPT=-Mmarker", "RUBYOPT=-rmarker", "JAVA_TOOL_OPTIONS=-javaagent:marker", "EDITOR=marker", "PAGER=marker",
	"NOTIFY_SOCKET=/marker", "LISTEN_FDS=1marker", "CLAUDECODE=marker", "CLAUDE_CODE_ENTRYPOINT=marker",
	"BATON_MARK=marker", "BATON_SANDBOX=marker", "BATON_TOKEN=marker",
}

func TestAllowed(t *testing.T) {
	welcome := []string{
		"HOME=/home/u", "USER=u", "LOGNAME=u", "SHELL=/bin/zsh", "PATH=/a:/b", "LANG=de_DE.UTF-8", "LC_ALL=C", "LC_TIME=C", "TZ=UTC",
		"TERM=xterm", "COLORTERM=truecolor", "NO_COLOR=1", "TMPDIR=/tmp/x", "XDG_CONFIG_HOME=/home/u/.config",
		"HTTP_PROXY=http://p", "https_proxy=http://p", "no_proxy=localhost", "ALL_PROXY=socks5://p",
		"SSL_CERT_FILE=/c", "NODE_EXTRA_CA_CERTS=/c", "CODEX_CA_CERTIFICATE=/c",
		"CODEX_HOME=/home/u/.codex", "OPENAI_API_KEY=k", "CODEX_API_KEY=k", "CODEX_ACCESS_TOKEN=k",
		"CURSOR_CONFIG_DIR=/home/u/.cursor", "CURSOR_API_KEY=k", "CURSOR_AUTH_TOKEN=k",
		"GOPATH=/go", "CARGO_HOME=/cargo", "JAVA_HOME=/java", "BATON_FIXTURE_RECORD=/record",
	}
	if got := Allowed(slices.Concat(hostile, welcome, hostile)); !slices.Equal(got, welcome) {
		t.Errorf("allowed %q\nwant    %q", got, welcome)
	}
	for name, tt := range map[string]struct{ in, want []string }{
		"relative TMPDIR":   {[]string{"TMPDIR=tmp"}, nil},
		"empty TMPDIR":      {[]string{"TMPDIR="}, nil},
		"empty value":       {[]string{"LANG="}, []string{"LANG="}},
		"value with =":      {[]string{"HOME=/a=b"}, []string{"HOME=/a=b"}},
		"the last counts":   {[]string{"LANG=a", "HOME=/h", "LANG=b"}, []string{"HOME=/h", "LANG=b"}},
		"no variable":       {[]string{"HOME", "=x", ""}, nil},
		"NUL":               {[]string{"HOME=/a\x00LD_PRELOAD=/b"}, nil},
		"case counts":       {[]string{"home=/h", "Path=/p"}, nil},
		"only whole names":  {[]string{"HOMEX=1", "XPATH=1", "LC=1"}, nil},
		"prefixes only for": {[]string{"LC_=1"}, []string{"LC_=1"}},
	} {
		if got := Allowed(tt.in); !slices.Equal(got, tt.want) {
			t.Errorf("%s: Allowed(%q) = %q, want %q", name, tt.in, got, tt.want)
		}
	}
}

func TestBuildDropsLoaders(t *testing.T) {
	// Build gets what was allowed before, but must not rely on it: the caller may be another version, or lie.
	for _, v := range Build(hostile, nil, nil, "") {
		name, value, _ := strings.Cut(v, "=")
		if matches(loaders, name) {
			t.Errorf("%s passed with %q", name, value)
		}
	}
}

func TestBuild(t *testing.T) {
	for name, tt := range map[string]struct {
		caller []string
		extra  map[string]string
		unset  []string
		lead   string
		want   []string
	}{
		"nothing":                         {want: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}},
		"sorted":                          {caller: []string{"Z=1", "PATH=/p", "A=2"}, want: []string{"A=2", "PATH=/p", "Z=1"}},
		"lead first":                      {caller: []string{"PATH=/p:/opt/codex"}, lead: "/opt/codex", want: []string{"PATH=/opt/codex:/p"}},
		"relative entries go":             {caller: []string{"PATH=.:/p::bin:../x:/q"}, lead: "rel", want: []string{"PATH=/p:/q"}},
		"a lead cannot smuggle":           {caller: []string{"PATH=/p"}, lead: "/x:/y", want: []string{"PATH=/p"}},
		"extra wins":                      {caller: []string{"PATH=/p", "LANG=a"}, extra: map[string]string{"LANG": "b"}, want: []string{"LANG=b", "PATH=/p"}},
		"PATH of extra is filtered too":   {extra: map[string]string{"PATH": "x:/q"}, lead: "/l", want: []string{"PATH=/l:/q"}},
		"unset wins over both":            {caller: []string{"PATH=/p", "A=1"}, extra: map[string]string{"B": "2"}, unset: []string{"A", "B", "none"}, want: []string{"PATH=/p"}},
		"a user may name a loader":        {caller: []string{"PATH=/p", "NODE_OPTIONS=--a"}, extra: map[string]string{"NODE_OPTIONS": "--b"}, want: []string{"NODE_OPTIONS=--b", "PATH=/p"}},
		"Baton's own are never set":       {caller: []string{"PATH=/p"}, extra: map[string]string{"BATON_MARK": "x", "BATON_SANDBOX": "x"}, want: []string{"PATH=/p"}},
		"the fixtures' record passes":     {caller: []string{"PATH=/p", "BATON_FIXTURE_RECORD=/r"}, want: []string{"BATON_FIXTURE_RECORD=/r", "PATH=/p"}},
		"TMPDIR as given":                 {caller: []string{"PATH=/p", "TMPDIR=/var/tmp//x/"}, want: []string{"PATH=/p", "TMPDIR=/var/tmp//x/"}},
		"no relative TMPDIR":              {caller: []string{"PATH=/p"}, extra: map[string]string{"TMPDIR": "x"}, want: []string{"PATH=/p"}},
		"what execve would refuse is out": {caller: []string{"PATH=/p"}, extra: map[string]string{"A": "x\x00y", "B=C": "1", "": "1"}, want: []string{"PATH=/p"}},
	} {
		if got := Build(tt.caller, tt.extra, tt.unset, tt.lead); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
