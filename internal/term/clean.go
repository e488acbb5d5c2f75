package term

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns text in which nothing can command a terminal or hide what is there: control characters become visible
// ones, except newline and tab; a carriage return before a newline goes; what reorders text is named.
func Clean(text string) string {
	if !strings.ContainsFunc(text, commands) && utf8.ValidString(text) {
		return text
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text { // an invalid byte comes as U+FFFD
		switch {
		case !commands(r):
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune('\u2400' + r) // the control pictures of Unicode
		case r == 0x7f:
			b.WriteRune('\u2421')
		default:
			b.WriteString("<U+" + strings.ToUpper(hex4(r)) + ">")
		}
	}
	return b.String()
}

// commands tells whether a terminal may take a character for more than itself.
func commands(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.IsControl(r): // C0, DEL, and C1, whose U+009B begins a sequence as ESC [ does
		return true
	case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r == '\u200e', r == '\u200f', r == '\u061c': // bidirectional
		return true
	case r == '\u2028' || r == '\u2029': // line and paragraph separators
		return true
	}
	return false
}

func hex4(r rune) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]})
}

// OneLine is text on one line of at most width cells; 0 is any width.
func OneLine(text string, width int) string {
	return OneCut(strings.Join(strings.Fields(Clean(text)), " "), width)
}

// OneCut cuts a line to at most width cells; 0 is any width.
func OneCut(text string, width int) string {
	if width <= 0 || Cells(text) <= width {
		return text
	}
	used := 0
	for i, r := range text {
		n := cells(r)
		if used+n > width-1 {
			return text[:i] + "…"
		}
		used += n
	}
	return text
}

// Cells is how many columns a line of text takes.
func Cells(text string) int {
	n := 0
	for _, r := range text {
		n += cells(r)
	}
	return n
}

// cells is the width of a character as terminals draw it: nothing for a mark on the one before, two for East Asian wide
// ones and pictures.
func cells(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff ||
		r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff ||
		r >= 0x20000 && r <= 0x3fffd):
		return 2
	}
	return 1
}

// CleanJSON is a JSON text in which nothing can command a terminal, and which means the same: such a character can stand
// in strings alone, where it is written as an escape.
func CleanJSON(text string) string {
	if !strings.ContainsFunc(text, commands) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if commands(r) {
			b.WriteString(`\u` + hex4(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
