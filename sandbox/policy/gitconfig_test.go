package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// configurations are texts that git reads; what it makes of them is what we must.
var configurations = map[string]string{
	"plain":        "[core]\n\tbare = false\n\thooksPath = .githooks\n",
	"one line":     "[core] hooksPath=x\n[filter \"a b\"] clean = ./c.sh %f\n",
	"subsections":  "[filter \"Big.One\"]\nclean = a\n[filter \"q\\\"u\\\\o\"]\nsmudge = b\n[Filter.Old]\nclean = c\n",
	"comments":     "# one\n; two\n[a] ; three\nb = c # four\nd = \"e # f\" ; five\n",
	"quotes":       "[a]\nb = \"  two  words  \"  end   \nc = x\"y\"z\nd = \"\"\n",
	"escapes":      "[a]\nb = one\\ttwo\\nthree\\\\four\\\"five\n",
	"continuation": "[a]\nb = one \\\n  two \\\n three\nc = d\n",
	"no value":     "[a]\nb\nc = \n[d]\n",
	"case":         "[CoRe]\nHooksPath = A\n[Diff \"X\"]\nTextConv = B\n",
	"windows":      "[a]\r\nb = c\r\nd = e\r\n",
	"no newline":   "[include]\npath = ../x",
	"blanks":       "\n\n  [a]\n\n   b   =   c   \n",
	"mark":         "\ufeff[a]\nb = c\n",
}

func TestGitConfigIsReadAsGitDoes(t *testing.T) {
	needGit(t)
	for name, text := range configurations {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("git", "config", "--file", file, "--no-includes", "--list", "-z").Output()
			if err != nil {
				t.Fatalf("git does not read it: %v", err)
			}
			var want []setting
			for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
				key, value, given := strings.Cut(line, "\n")
				if !given {
					value = "true"
				}
				if key != "" {
					want = append(want, setting{key, value})
				}
			}
			got, more, err := readGitConfig(file)
			if err != nil || more || !slices.Equal(got, want) {
				t.Errorf("%q, %v\nwant %q", got, err, want)
			}
		})
	}
}

// Whatever the text is, it is read to its end.
func FuzzGitConfig(f *testing.F) {
	for _, text := range configurations {
		f.Add(text)
	}
	f.Add("[")
	f.Add("[a \"")
	f.Add("[a \"b\\")
	f.Add("a = \"\\")
	f.Fuzz(func(_ *testing.T, text string) { parseGitConfig(text) })
}
