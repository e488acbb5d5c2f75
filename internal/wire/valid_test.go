package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

var texts = []string{
	``, ` `, `{}`, `[]`, ` { } `, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1}{`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[`, `]`, `}`, `{`, `{"`, `{"a`, `{"a":`, `[1`,
	`0`, `-0`, `00`, `01`, `-`, `-1`, `+1`, `1.`, `.5`, `1.5`, `1e5`, `1E+5`, `1e-5`, `1e`, `1e+`, `-a`, `1a`, `1.5.5`, `0x1`,
	`true`, `false`, `null`, `tru`, `nul`, `truex`, `True`, `"`, `""`, `"a"`, `"\"`, `"\\"`, `"\""`, `"\u00e9"`, `"\u00E9"`, `"\u00g9"`, `"\u00`, `"\u00"`, `"\x"`, `"\'"`, `"\/\b\f\n\r\t"`,
	"\"\x1f\"", "\"\x7f\"", "\"\n\"", "\"\xff\xfe\"", "\"é\u2028\"", "\xef\xbb\xbf{}", "{\"a\":\t[ 1 ,\r\n2 ] , \"b\" : { } }", "\v{}", "{}\x00",
	strings.Repeat("[", 50) + strings.Repeat("]", 50), strings.Repeat("[", 50) + strings.Repeat("]", 49),
	strings.Repeat("[", 10000) + strings.Repeat("]", 10000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
	strings.Repeat(`{"a":`, 10000) + "1" + strings.Repeat("}", 10000), strings.Repeat(`{"a":`, 10001) + "1" + strings.Repeat("}", 10001),
	update, strings.TrimSpace(update)[1:],
}

func TestValid(t *testing.T) {
	for _, text := range texts {
		if got, want := valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%.60q: %v, want %v", text, got, want)
		}
	}
	for end := range len(update) { // a message cut off anywhere
		if got, want := valid([]byte(update[:end])), json.Valid([]byte(update[:end])); got != want {
			t.Errorf("%q: %v, want %v", update[:end], got, want)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := valid(text), json.Valid(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	})
}
