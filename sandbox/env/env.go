// Package env builds the environment of an agent. It is built from an allow list, never copied: an agent hands its whole
// environment to every command it runs (Codex 0.171 does), so whatever gets in is readable by all of them.
//
// Two rules hold whatever the source says: nothing of the caller's environment that makes a loader, an interpreter or git
// run other code gets through, and PATH has absolute entries only. What a user names explicitly for a session (extra) is
// the user's word and passes, Baton's own variables excepted. The package knows nothing of values: which of them are
// secret is decided elsewhere.
package env

import (
	"path/filepath"
	"slices"
	"strings"
)

// allowed are the names that pass from the environment of whoever asks for a session.
var allowed = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR",
	"LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "NO_COLOR",
	"XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CACHE_HOME", "XDG_STATE_HOME", // not XDG_RUNTIME_DIR: it leads to the user's sockets
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE",
	"CODEX_HOME", "CODEX_SQLITE_HOME", "OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN",
	"CURSOR_CONFIG_DIR", "CURSOR_DATA_DIR", "CURSOR_API_KEY", "CURSOR_AUTH_TOKEN",
	"GOPATH", "GOCACHE", "CARGO_HOME", "NVM_DIR", "ASDF_DATA_DIR", "PYENV_ROOT", "VIRTUAL_ENV", "JAVA_HOME",
	fixtureRecord, raceOptions,
}

// fixtureRecord names the file in which the scripted agents note what they received.
const fixtureRecord = "BATON_FIXTURE_RECORD"

// raceOptions are read by Go programs that were built with the race detector, such as the scripted agents in tests.
const raceOptions = "GORACE"

// loaders are the names that make some program load or run what they name, and those that pass descriptors, sockets or
// the state of another agent on.
var loaders = []string{
	"LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH",
	"NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "NPM_CONFIG_*", "npm_config_*", "BUN_OPTIONS",
	"BASH_ENV", "BASH_FUNC_*", "ENV", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "BASHOPTS", "ZDOTDIR",
	"PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PYTHONBREAKPOINT", "PYTHONUSERBASE",
	"PERL5OPT", "PERL5LIB", "PERLLIB", "PERL5DB", "RUBYOPT", "RUBYLIB",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "GOFLAGS", "RUSTC_WRAPPER",
	"GIT_*", "SSH_ASKPASS", "EDITOR", "VISUAL", "PAGER", "LESSOPEN", "LESSCLOSE", "MANPAGER", "BROWSER",
	"NOTIFY_SOCKET", "LISTEN_*", "CLAUDECODE", "CLAUDE_CODE_*", "CODEX_SANDBOX*", "CURSOR_AGENT",
	"BATON_*",
}

// defaultPath is for callers that have none.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// Allowed keeps what the allow list names, of the environment of a front end. The order is kept; of a name that comes
// twice the last one counts.
func Allowed(environ []string) []string {
	var out []string
	for _, v := range last(environ) {
		name, value, _ := strings.Cut(v, "=")
		if !matches(allowed, name) || name == "TMPDIR" && !filepath.IsAbs(value) {
			continue
		}
		out = append(out, v)
	}
	return out
}

// Build makes the environment of an agent, sorted by name: what the caller has, without loaders; over it extra; without
// the names of unset, wherever they came from. PATH begins with pathLead (the folder of the agent's executable; "" for
// none) and keeps the absolute entries, each once.
func Build(caller []string, extra map[string]string, unset []string, pathLead string) []string {
	vars := map[string]string{"PATH": defaultPath}
	for _, v := range last(caller) {
		if name, value, _ := strings.Cut(v, "="); name == fixtureRecord || !matches(loaders, name) {
			vars[name] = value
		}
	}
	for name, value := range extra {
		if valid(name, value) && (name == fixtureRecord || !strings.HasPrefix(name, "BATON_")) {
			vars[name] = value
		}
	}
	vars["PATH"] = path(pathLead, vars["PATH"])
	if !filepath.IsAbs(vars["TMPDIR"]) {
		delete(vars, "TMPDIR")
	}
	for _, name := range unset {
		delete(vars, name)
	}
	out := make([]string, 0, len(vars))
	for name, value := range vars {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// last drops what is no variable and all but the last of each name.
func last(environ []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, v := range slices.Backward(environ) {
		name, value, ok := strings.Cut(v, "=")
		if ok && valid(name, value) && !seen[name] {
			seen[name] = true
			out = append(out, v)
		}
	}
	slices.Reverse(out)
	return out
}

// valid refuses what execve would fail on or read as something else.
func valid(name, value string) bool {
	return name != "" && !strings.ContainsAny(name, "=\x00") && !strings.Contains(value, "\x00")
}

// matches compares with names and, where they end in *, prefixes.
func matches(list []string, name string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		if prefix, ok := strings.CutSuffix(entry, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return entry == name
	})
}

func path(lead, list string) string {
	var out []string
	for _, dir := range append([]string{lead}, filepath.SplitList(list)...) {
		if filepath.IsAbs(dir) && !strings.Contains(dir, string(filepath.ListSeparator)) && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return strings.Join(out, string(filepath.ListSeparator))
}
