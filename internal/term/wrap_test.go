package term

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// terminal is what one of a width shows of what is written to it.
func terminal(text string, width int) string {
	rows, col := [][]rune{{}}, 0
	for _, r := range strings.ReplaceAll(text, "\x1b[K", "\x00") {
		row := &rows[len(rows)-1]
		switch {
		case r == '\b':
			col--
			continue
		case r == 0:
			*row = (*row)[:col]
			continue
		case r == '\n':
			rows, col = append(rows, nil), 0
			continue
		case col >= width:
			rows, col = append(rows, nil), 0
			row = &rows[len(rows)-1]
		}
		*row = append((*row)[:col], r)
		col++
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return strings.Join(lines, "\n")
}

// However a text comes in pieces, its lines are broken between words, and where a word is too long for a line by the terminal.
func TestPrintBreaksAtSpaces(t *testing.T) {
	for text, want := range map[string]string{
		"one two three four five six":             "one two three four\nfive six",
		"a\nsecond line that is longer than that": "a\nsecond line that is\nlonger than that",
		"short":                                   "short",
		"nineteen characters":                     "nineteen characters",
		"twenty characters ..":                    "twenty characters\n..",
		"https://example.org/a/b/c/d?":            "https://example.org/\na/b/c/d?",
		"see https://example.org/a/b/c/d? for it": "see\nhttps://example.org/\na/b/c/d? for it",
		"  indented and then quite long":          "  indented and then\nquite long",
	} {
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			s, b := lively(seed%2 == 0)
			for rest := text; rest != ""; {
				n := 1 + rnd.IntN(len(rest))
				if seed == 0 {
					n = len(rest)
				}
				s.Print(Plain, rest[:n])
				rest = rest[n:]
			}
			if got := terminal(b.String(), 20); got != want {
				t.Fatalf("seed %d: %q shows %q, want %q", seed, b.String(), got, want)
			}
		}
	}
	s, b := lively(false)
	s.Print(Plain, "a text that was begun")
	s.Line(Plain, "a line")
	s.Print(Plain, "another text")
	if got, want := terminal(b.String(), 20), "a text that was\nbegun\na line\nanother text"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var plain strings.Builder
	PlainScreen(&plain).Print(Plain, strings.Repeat("word ", 50))
	if plain.String() != strings.Repeat("word ", 50) {
		t.Errorf("what is no terminal got %q", plain.String())
	}
}
