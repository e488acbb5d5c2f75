package sandbox

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// seatbelt is macOS's way to hold a program to rules for files. Deprecated by Apple and enforced all the same; it cannot
// be nested, so that an agent with such a sandbox of its own (Codex) must not get another one around it.
const seatbelt = "/usr/bin/sandbox-exec"

const hasSeatbelt = runtime.GOOS == "darwin"

// devices are what programs write to that own nothing else. macOS gives them these names.
var devices = []string{"/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/dtracehelper"}

// profile writes a plan in the language of Seatbelt, where of the rules that match the last one decides. Rules are by path
// and are looked up with all symbolic links resolved, as the paths of a plan are.
//
// What differs from a mount namespace: there is no private folder, what is to be private is shared and writable; a path
// that a rule names cannot be moved away, but what lies beside it is not frozen; everything that is no file is allowed, so
// that what other programs do for the agent (launchd and those that it starts) is not held. The ways that are known to
// lead there, mounting, Launch Services and Apple events, are closed.
func (p *plan) profile(masked []mask) (string, error) {
	var b strings.Builder
	rule := func(format string, path string) error {
		if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
			return fmt.Errorf("%q cannot be written in a profile of Seatbelt", path)
		}
		fmt.Fprintf(&b, format+"\n", `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path)+`"`)
		return nil
	}
	b.WriteString("(version 1)\n(allow default)\n(deny file-mount file-unmount)\n(deny appleevent-send)\n(deny mach-lookup (global-name \"com.apple.coreservices.launchservicesd\"))\n")
	if p.ReadOnly {
		b.WriteString("(deny file-write*)\n")
		for _, d := range devices {
			if err := rule("(allow file-write* (literal %s))", d); err != nil {
				return "", err
			}
		}
		b.WriteString("(allow file-write* (regex #\"^/dev/(ttys[0-9]+|fd/[0-9]+)$\"))\n")
	}
	var hidden []string
	for _, s := range p.Spots { // parents before what lies below them
		format := "(allow file-write* (subpath %s))"
		switch s.Access {
		case ReadOnly:
			format = "(deny file-write* (subpath %s))"
		case Hidden:
			hidden = append(hidden, s.Path)
			continue
		}
		if err := rule(format, s.Path); err != nil {
			return "", err
		}
	}
	for _, s := range p.Spots { // after everything that allows: else what is protected could be moved away as a whole
		if err := rule("(deny file-write-unlink (literal %s))", s.Path); err != nil {
			return "", err
		}
	}
	for _, m := range masked {
		hidden = append(hidden, m.Path)
	}
	slices.Sort(hidden)
	for _, path := range slices.Compact(hidden) { // last: whatever is allowed elsewhere, this goes on below
		if err := rule("(deny file-read* file-write* network-outbound (subpath %s))", path); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}
