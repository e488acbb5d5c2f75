package install

import (
	"bytes"
	"fmt"
	"strings"
)

// diffContext is how many unchanged lines a diff shows around what changes.
const diffContext = 3

// Diff is the change as one hunk of a unified diff, which `git apply` and `patch -p1` take in the root folder; "" when
// nothing changes. Lines keep their ends, so that of a file with CRLF it applies too.
func (c *Change) Diff() string {
	if !c.Changed() {
		return ""
	}
	old, now := linesOf(c.Before), linesOf(c.After)
	head := 0
	for head < len(old) && head < len(now) && bytes.Equal(old[head], now[head]) {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(now)-head && bytes.Equal(old[len(old)-1-tail], now[len(now)-1-tail]) {
		tail++
	}
	from, rest := max(0, head-diffContext), max(0, tail-diffContext)

	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", diffName("a", c.File, c.Before), diffName("b", c.File, c.After))
	fmt.Fprintf(&b, "@@ -%s +%s @@\n", diffRange(from, len(old)-rest-from), diffRange(from, len(now)-rest-from))
	for _, part := range []struct {
		mark  byte
		lines [][]byte
	}{{' ', old[from:head]}, {'-', old[head : len(old)-tail]}, {'+', now[head : len(now)-tail]}, {' ', old[len(old)-tail : len(old)-rest]}} {
		for _, l := range part.lines {
			b.WriteByte(part.mark)
			b.Write(l)
			if !bytes.HasSuffix(l, []byte("\n")) {
				b.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	return b.String()
}

// linesOf are the lines of a text with their ends; none of an empty one.
func linesOf(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	return lines[:len(lines)-1+min(1, len(lines[len(lines)-1]))]
}

// diffRange is a range of lines: where it begins, counted from 1, and how many there are. An empty one names the line
// before it.
func diffRange(from, count int) string {
	if count > 0 {
		from++
	}
	return fmt.Sprintf("%d,%d", from, count)
}

// diffName is a file as the head of a diff names it, below the root: programs that apply diffs take no absolute names.
// A tab ends a name with spaces, and one with other special characters is quoted as git does.
func diffName(side, file string, text []byte) string {
	if text == nil {
		return "/dev/null"
	}
	name := side + "/" + strings.TrimLeft(file, "/")
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' || r == '\\' }) {
		var b strings.Builder
		for i := range len(name) {
			switch c := name[i]; {
			case c == '"' || c == '\\':
				b.WriteByte('\\')
				b.WriteByte(c)
			case c < ' ' || c == 0x7f:
				fmt.Fprintf(&b, "\\%03o", c)
			default:
				b.WriteByte(c)
			}
		}
		return `"` + b.String() + `"`
	}
	if strings.Contains(name, " ") {
		name += "\t"
	}
	return name
}
