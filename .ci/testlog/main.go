// Command testlog reads the output of `go test -json` and prints what a person wants of it: the line of every package,
// everything about what failed, and every test that was skipped. Its status is 1 when a test or a build failed, when a
// test was skipped that allowed-skips does not name, or when nothing ran.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

type log struct {
	out     io.Writer
	allowed []*regexp.Regexp
	outputs map[string]*strings.Builder // by package and test
	passed  int
	failed  []string
	skipped []string
	refused []string
	slow    []event // every test that ended
}

func main() {
	l := &log{out: os.Stdout, outputs: map[string]*strings.Builder{}}
	for _, name := range os.Args[1:] {
		if err := l.allow(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	began := time.Now()
	if err := l.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !l.sum(time.Since(began)) {
		os.Exit(1)
	}
}

// allow reads the list of skips that are no failure.
func (l *log) allow(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		re, err := regexp.Compile("^(?:" + line + ")$")
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		l.allowed = append(l.allowed, re)
	}
	return nil
}

func (l *log) read(in io.Reader) error {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(l.out, line) // what go itself says
			} else {
				l.take(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (l *log) take(e event) {
	name := e.Package + " " + e.Test
	if (e.Action == "pass" || e.Action == "fail") && e.Test != "" {
		l.slow = append(l.slow, e)
	}
	switch e.Action {
	case "output":
		if e.Test == "" && (strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "FAIL\t") || strings.HasPrefix(e.Output, "?   ")) {
			fmt.Fprint(l.out, e.Output)
			return
		}
		b := l.outputs[name]
		if b == nil {
			b = &strings.Builder{}
			l.outputs[name] = b
		}
		b.WriteString(e.Output)
	case "build-output":
		fmt.Fprint(l.out, e.Output)
	case "build-fail":
		l.failed = append(l.failed, "build of "+e.ImportPath)
	case "pass":
		if e.Test != "" {
			l.passed++
		}
		delete(l.outputs, name)
	case "fail":
		l.failed = append(l.failed, strings.TrimSpace(name))
		fmt.Fprintf(l.out, "\n%s", l.said(name))
	case "skip":
		if e.Test == "" {
			return // a package without tests
		}
		what := name + ": " + why(l.said(name))
		l.skipped = append(l.skipped, what)
		if !l.mayskip(name) {
			l.refused = append(l.refused, what)
		}
		delete(l.outputs, name)
	}
}

func (l *log) said(name string) string {
	if b := l.outputs[name]; b != nil {
		return b.String()
	}
	return ""
}

func (l *log) mayskip(name string) bool {
	for _, re := range l.allowed {
		if re.MatchString(name) {
			return true
		}
	}
	return false
}

// why is the reason that a skipped test gave.
func why(said string) string {
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			return line
		}
	}
	return "no reason given"
}

func (l *log) sum(took time.Duration) bool {
	fmt.Fprintf(l.out, "%d tests passed in %s, %d skipped, %d failed\n", l.passed, took.Round(time.Second), len(l.skipped), len(l.failed))
	slices.SortFunc(l.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range l.slow[:min(8, len(l.slow))] {
		fmt.Fprintf(l.out, "  %5.1fs  %s %s\n", e.Elapsed, e.Package, e.Test)
	}
	for _, s := range l.skipped {
		fmt.Fprintf(l.out, "  skipped: %s\n", s)
	}
	for _, s := range l.refused {
		fmt.Fprintf(l.out, "  NOT ALLOWED TO BE SKIPPED HERE: %s\n", s)
	}
	for _, s := range l.failed {
		fmt.Fprintf(l.out, "  FAILED: %s\n", s)
	}
	return l.passed > 0 && len(l.refused) == 0 && len(l.failed) == 0
}
