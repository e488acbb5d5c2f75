package term

import "strings"

// wrap breaks what is printed piece by piece at spaces, where a terminal would break it within a word. A word is shown as it
// comes; when it does not fit behind what is there, what is shown of it is taken back and it begins the next line. A word
// that is longer than a line is left to the terminal, so that it can be copied whole.
type wrap struct {
	col   int    // the column of the cursor
	word  string // what the line has of the word that the cursor is behind
	fixed bool   // that word goes over the line and cannot be moved any more
}

// put returns text as it is to be written at a width of columns; 0 is any width.
func (w *wrap) put(text string, width int) string {
	if width < 2 {
		return text
	}
	var b strings.Builder
	fresh := 0 // where in b the word begins, below 0: it began before
	if w.word != "" {
		fresh = -1
	}
	for _, r := range text {
		n := cells(r)
		switch {
		case r == '\n':
			b.WriteRune(r)
			*w = wrap{}
		case r == '\t' || r == ' ':
			if r == '\t' {
				n = 8 - w.col%8
			}
			if w.col += n; w.col > width-1 { // the last column stays free: some terminals begin a new line when it is used
				r = '\n'
				w.col = 0
			}
			b.WriteRune(r)
			w.word, w.fixed = "", false
		case w.col+n <= width-1 || w.fixed || w.col == Cells(w.word):
			if w.col+n > width-1 {
				w.fixed = true
			}
			if w.word == "" {
				fresh = b.Len()
			}
			b.WriteRune(r)
			if !w.fixed || w.word == "" {
				w.word += string(r)
			}
			if w.col += n; w.col > width {
				w.col = n
			}
			continue
		default:
			if w.word == "" {
				fresh = b.Len()
			}
			shown := w.word
			if fresh >= 0 {
				before := b.String()[:fresh]
				b.Reset()
				b.WriteString(before)
			} else {
				here := b.Len() // of the word, and so not yet shown
				b.Reset()
				if back := Cells(shown[:len(shown)-here]); back > 0 {
					b.WriteString(strings.Repeat("\b", back) + "\x1b[K")
				}
			}
			b.WriteByte('\n')
			fresh = b.Len()
			b.WriteString(shown)
			b.WriteRune(r)
			w.word += string(r)
			w.col = Cells(w.word)
			continue
		}
		fresh = b.Len()
	}
	return b.String()
}
