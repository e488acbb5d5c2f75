package mcpserver

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// twinLimit is the size of a text twin in bytes. The twin is for hosts that show no structured content; a host that
// shows both pays for it twice.
const twinLimit = 1024

// moreRoom is kept free in a list for the line that says how many entries are left out.
const moreRoom = 24

// twin builds the text that stands beside a structured result. It never exceeds twinLimit.
type twin struct{ b strings.Builder }

func (t *twin) room() int { return max(0, twinLimit-t.b.Len()-1) }

// line adds one line, cut to what fits.
func (t *twin) line(format string, args ...any) {
	text := clip(oneLine(fmt.Sprintf(format, args...)), t.room())
	if text == "" {
		return
	}
	if t.b.Len() > 0 {
		t.b.WriteByte('\n')
	}
	t.b.WriteString(text)
}

// list adds a line for each entry while they fit, then how many are left out.
func (t *twin) list(n int, entry func(i int) string) {
	for i := range n {
		text := clip(oneLine(entry(i)), 320)
		need := len(text)
		if i < n-1 {
			need += moreRoom
		}
		if need > t.room() {
			t.line("+%d more", n-i)
			return
		}
		t.line("%s", text)
	}
}

// quote adds the beginning of a long text as it is, and says where the rest is.
func (t *twin) quote(text string) {
	text = strings.TrimSpace(text)
	if text == "" || t.room() < 40 {
		return
	}
	t.b.WriteByte('\n')
	if len(text) <= t.room() {
		t.b.WriteString(text)
		return
	}
	const rest = "… +%d more characters in the structured content"
	head := clipTo(text, t.room()-len(rest)-8)
	t.b.WriteString(head + fmt.Sprintf(rest, utf8.RuneCountInString(text)-utf8.RuneCountInString(head)))
}

func (t *twin) String() string { return t.b.String() }

// oneLine keeps a title or a command from looking like lines of ours.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// clip cuts a text to at most n bytes, between characters, and marks the cut.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if n < len("…") {
		return ""
	}
	return clipTo(s, n-len("…")) + "…"
}

func clipTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
