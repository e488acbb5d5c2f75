package term

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain ✓ text\tand\nlines": "plain ✓ text\tand\nlines",
		"dos\r\nlines":             "dos\nlines",
		"over\rwritten":            "over␍written",
		"\x1b[31mred\x1b[0m\x07":   "␛[31mred␛[0m␇",
		"\u009b31m":                "<U+009B>31m",
		"del\x7f":                  "del␡",
		"a\u202eb\u2066c":          "a<U+202E>b<U+2066>c",
		"two\u2028lines":           "two<U+2028>lines",
		"bad \xff byte":            "bad \ufffd byte",
		"joined 👩\u200d💻":          "joined 👩\u200d💻",
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// Whatever it is given, what comes out commands nothing, is valid, and comes out of Clean as it is.
func TestCleanAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		got := Clean(text)
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q lets %q through", text, r)
			}
		}
		if !utf8.ValidString(got) || Clean(got) != got {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// A JSON text means the same afterwards.
func TestCleanJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := map[string]string{rapid.String().Draw(t, "name"): rapid.String().Draw(t, "value") + "\u009b\x7f\u202e\u2028"}
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		text := CleanJSON(string(raw))
		var out map[string]string
		if err := json.Unmarshal([]byte(text), &out); err != nil || !reflect.DeepEqual(in, out) {
			t.Fatalf("%s became %s, which is %q (%v)", raw, text, out, err)
		}
		if strings.ContainsFunc(text, commands) {
			t.Fatalf("%q commands a terminal", text)
		}
	})
}

func TestOneLine(t *testing.T) {
	for _, tc := range []struct {
		text  string
		width int
		want  string
	}{
		{"a\nb\t c ", 0, "a b c"}, {"abcdef", 6, "abcdef"}, {"abcdef", 5, "abcd…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"},
		{"日本語", 4, "日…"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"x", 1, "x"}, {"xy", 1, "…"}, {"", 3, ""},
	} {
		got := OneLine(tc.text, tc.width)
		if got != tc.want || tc.width > 0 && Cells(got) > tc.width {
			t.Errorf("%q in %d columns is %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}
