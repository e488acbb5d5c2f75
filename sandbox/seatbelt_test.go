package sandbox

import (
	"strings"
	"testing"
)

// The profile is compared as text: it was never run on a Mac.
func TestProfileOfSeatbelt(t *testing.T) {
	const head = `(version 1)
(allow default)
(deny file-mount file-unmount)
(deny appleevent-send)
(deny mach-lookup (global-name "com.apple.coreservices.launchservicesd"))
`
	const readOnly = `(deny file-write*)
(allow file-write* (literal "/dev/null"))
(allow file-write* (literal "/dev/zero"))
(allow file-write* (literal "/dev/tty"))
(allow file-write* (literal "/dev/ptmx"))
(allow file-write* (literal "/dev/dtracehelper"))
(allow file-write* (regex #"^/dev/(ttys[0-9]+|fd/[0-9]+)$"))
`
	for _, tt := range []struct {
		name  string
		plan  plan
		masks []mask
		want  string
	}{
		{"only masks", plan{}, []mask{{Path: "/s/b"}, {Path: "/s/a"}, {Path: "/s/b"}}, head +
			`(deny file-read* file-write* network-outbound (subpath "/s/a"))
(deny file-read* file-write* network-outbound (subpath "/s/b"))
`},
		{"read-only", plan{Name: "read-only", ReadOnly: true, Spots: []spot{{Path: "/private/tmp", Access: Private, Dir: true}, {Path: "/u/.ssh", Access: Hidden, Dir: true}}}, nil,
			head + readOnly + `(allow file-write* (subpath "/private/tmp"))
(deny file-write-unlink (literal "/private/tmp"))
(deny file-write-unlink (literal "/u/.ssh"))
(deny file-read* file-write* network-outbound (subpath "/u/.ssh"))
`},
		{"workspace-write", plan{Name: "workspace-write", ReadOnly: true, Spots: []spot{{Path: "/u/w", Access: Writable, Dir: true}, {Path: "/u/w/.git", Access: Writable, Dir: true},
			{Path: "/u/w/.git/hooks", Access: ReadOnly, Dir: true}}}, []mask{{Path: "/u/state"}},
			head + readOnly + `(allow file-write* (subpath "/u/w"))
(allow file-write* (subpath "/u/w/.git"))
(deny file-write* (subpath "/u/w/.git/hooks"))
(deny file-write-unlink (literal "/u/w"))
(deny file-write-unlink (literal "/u/w/.git"))
(deny file-write-unlink (literal "/u/w/.git/hooks"))
(deny file-read* file-write* network-outbound (subpath "/u/state"))
`},
		{"odd names", plan{Spots: []spot{{Path: `/a"b\c (d`, Access: ReadOnly}}}, nil, head +
			`(deny file-write* (subpath "/a\"b\\c (d"))
(deny file-write-unlink (literal "/a\"b\\c (d"))
`},
	} {
		if got, err := tt.plan.profile(tt.masks); got != tt.want || err != nil {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, got, tt.want)
		}
	}
	for _, path := range []string{"/a\nb", "/a\x00", "/a\x7f", "/\xff"} {
		if got, err := (&plan{Spots: []spot{{Path: path, Access: Writable}}}).profile(nil); err == nil || !strings.Contains(err.Error(), "cannot be written") {
			t.Errorf("%q: %q, %v", path, got, err)
		}
	}
}
