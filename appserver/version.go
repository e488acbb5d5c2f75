package appserver

import (
	"regexp"
	"strconv"

	"github.com/batonmcp/baton/sessions"
)

// version is Codex's, as its userAgent has it: "<client>/0.171.0 (...)"; before about 0.111 it begins with "codex_cli_rs".
type version struct {
	text                string
	major, minor, patch int
}

// oldestMinor is of the oldest version that the tests run with. 0.77, with the same names of sandboxes and approval
// policies, cannot steer, asks no questions, and does not tell when it drops a request.
const oldestMinor = 125

var versionIn = regexp.MustCompile(`/((\d+)\.(\d+)\.(\d+)\S*)`)

func parseVersion(userAgent string) (version, error) {
	m := versionIn.FindStringSubmatch(userAgent)
	if m == nil {
		return version{}, sessions.Errorf(sessions.CodeAgentProtocol, "Codex named no version, only %q", userAgent).
			Do("check that the executable is Codex")
	}
	v := version{text: m[1]}
	for i, field := range []*int{&v.major, &v.minor, &v.patch} {
		*field, _ = strconv.Atoi(m[2+i])
	}
	if v.text == "0.0.0" { // what a build from source calls itself
		return v, nil
	}
	if !v.atLeast(oldestMinor) {
		return v, sessions.Errorf(sessions.CodeUnsupported, "Codex %s is too old", v.text).
			Do("install Codex 0.%d or later", oldestMinor)
	}
	return v, nil
}

func (v version) atLeast(minor int) bool {
	return v.major > 0 || v.minor >= minor || v.text == "0.0.0"
}

// modes are changed with thread/settings/update, which came between 0.125 and 0.144. It is tried in every version; this
// is for what is told beforehand.
func (v version) modes() []string {
	if v.atLeast(144) {
		return []string{modeDefault, modePlan}
	}
	return nil
}
