package install

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// appliers are the programs that take a diff in a folder; only the first must be there.
var appliers = [][]string{{"git", "apply", "-"}, {"patch", "-p1", "-s", "--binary"}}

// TestDiffApplies: what --dry-run prints makes the new text of the old one, for every configuration there is here, and the
// old one of the new one.
func TestDiffApplies(t *testing.T) {
	type texts struct{ before, after []byte }
	all := map[string]texts{
		"made":     {nil, []byte("a\n")},
		"removed":  {[]byte("a\nb"), nil},
		"emptied":  {[]byte("a\n"), []byte{}},
		"filled":   {[]byte{}, []byte("a\nb\n")},
		"no end":   {[]byte("a\nb"), []byte("a\nb\n")},
		"in midst": {[]byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), []byte("1\n2\n3\n4\nx\ny\n6\n7\n8\n9\n")},
	}
	for name, tt := range hairy {
		all[name] = texts{[]byte(tt.text), []byte(expand(tt.after))}
	}
	for name, tt := range older {
		all["older "+name] = texts{[]byte(tt.text), []byte(expand(tt.after))}
	}
	for name, tt := range all {
		t.Run(name, func(t *testing.T) {
			applied(t, "conf", tt.before, tt.after)
			applied(t, "conf", tt.after, tt.before)
		})
	}
	for _, name := range []string{"two words/mcp.json", "qu\"ote/b\\ack", "Ü/täb\tfile"} {
		t.Run(name, func(t *testing.T) { applied(t, name, []byte("{}"), []byte("{\n}\n")) })
	}
	if d := (&Change{File: "/x", Before: []byte("a"), After: []byte("a")}).Diff(); d != "" {
		t.Errorf("nothing changes, and the diff is %s", d)
	}
}

// applied wants a change to be made by applying its diff.
func applied(t *testing.T, name string, before, after []byte) {
	t.Helper()
	for i, argv := range appliers {
		if _, err := exec.LookPath(argv[0]); err != nil {
			if i == 0 {
				t.Fatal(err)
			}
			continue
		}
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if before != nil {
			if err := os.WriteFile(file, before, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		diff := (&Change{File: "/" + name, Before: before, After: after}).Diff()
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Stdin, cmd.Env = dir, strings.NewReader(diff), append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		out, err := cmd.CombinedOutput()
		got, _ := os.ReadFile(file)
		if argv[0] == "patch" && len(after) == 0 { // it removes what it has emptied
			got, after = nil, nil
		}
		if err != nil || !bytes.Equal(got, after) {
			t.Errorf("%s: %v %s\n%s\n--- got\n%q\n--- want\n%q", argv[0], err, out, diff, got, after)
		}
	}
}
