package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// appendJSON appends v as JSON on one line that every peer can read.
func appendJSON(line []byte, v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return append(line, clean(bytes.TrimSuffix(b.Bytes(), []byte("\n")))...), nil
}

// appendText is appendJSON for a string, which is mostly a name.
func appendText(line []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendJSON(line, s)
		}
	}
	return append(append(append(line, '"'), s...), '"'), nil
}

// clean repairs what a json.RawMessage carries past the encoder.
//   - Bytes that are not UTF-8: Codex exits on the first (0.171.0), with every thread it holds.
//   - Escapes of half a surrogate pair: Codex drops the message without an answer (0.171.0).
//   - Raw U+2028 and U+2029: valid JSON, and the end of a line to some readers.
func clean(b []byte) []byte {
	if !utf8.Valid(b) {
		b = replaceInvalid(b)
	}
	if bytes.Contains(b, []byte("\xe2\x80")) {
		b = bytes.ReplaceAll(b, []byte("\u2028"), []byte(`\u2028`))
		b = bytes.ReplaceAll(b, []byte("\u2029"), []byte(`\u2029`))
	}
	if bytes.Contains(b, []byte(`\ud`)) || bytes.Contains(b, []byte(`\uD`)) {
		b = pairSurrogates(b)
	}
	return b
}

// replaceInvalid puts U+FFFD in place of each bad byte, as encoding/json does with a string of Go.
func replaceInvalid(b []byte) []byte {
	out := make([]byte, 0, len(b)+8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return out
}

func pairSurrogates(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		switch {
		case b[i] != '\\':
			out = append(out, b[i])
			i++
		case surrogate(b[i:], '8', 'b') && surrogate(b[i+6:], 'c', 'f'):
			out = append(out, b[i:i+12]...)
			i += 12
		case surrogate(b[i:], '8', 'f'):
			out = append(out, `\ufffd`...)
			i += 6
		default: // any other escape, of which only the first two bytes matter
			out = append(out, b[i], b[i+1])
			i += 2
		}
	}
	return out
}

// surrogate tells whether b begins with an escape from \ud<from>00 to \ud<to>ff.
func surrogate(b []byte, from, to byte) bool {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return false
	}
	c := b[3]
	if c > '9' {
		c |= 0x20
	}
	return from <= c && c <= to
}
