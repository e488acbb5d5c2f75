package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// What a value must have to be looked for: a mask in the place of every "true" or "production" would hide more than it
// protects.
const (
	shortest = 8  // bytes
	plain    = 16 // bytes below which it needs characters of two classes
	longest  = 4096
	encoded  = 512 // bytes above which only the value itself and its lines are looked for
	lineLen  = 24  // bytes of a line that are worth looking for
)

// Usable tells whether a value can be looked for.
func Usable(v string) bool {
	if len(v) < shortest || len(v) > longest || strings.TrimSpace(v) == "" {
		return false
	}
	if len(v) >= plain {
		return true
	}
	var lower, upper, digit, other int
	for i := range len(v) {
		switch b := v[i]; {
		case b >= 'a' && b <= 'z':
			lower = 1
		case b >= 'A' && b <= 'Z':
			upper = 1
		case b >= '0' && b <= '9':
			digit = 1
		default:
			other = 1
		}
	}
	return lower+upper+digit+other >= 2
}

// variants are the forms in which a value is looked for.
func variants(v string) []string {
	out := []string{v}
	add := func(s string) {
		if len(s) >= shortest {
			out = append(out, s)
		}
	}
	for line := range strings.Lines(v) {
		if line = strings.TrimRight(line, "\r\n"); len(line) >= lineLen {
			add(line)
		}
	}
	once := escaped(v, false)
	add(once)
	html := escaped(v, true) // < > & as most encoders of Go write them
	add(html)
	add(escaped(html, false))
	add(strings.ReplaceAll(once, "/", `\/`))
	add(escaped(once, false)) // JSON within a string of JSON
	if len(v) > encoded {
		return out
	}
	for _, e := range encoders { // again, JSON within a string of JSON
		add(e.escape(once))
	}
	add(url.QueryEscape(v))
	add(url.PathEscape(v))
	add(percent(v, false))
	add(percent(v, true))
	add(hex.EncodeToString([]byte(v)))
	add(strings.ToUpper(hex.EncodeToString([]byte(v))))
	// base64 at each of the three alignments, without the characters that depend on what stands around the value.
	for offset := range 3 {
		padded := append(make([]byte, offset), v...)
		whole := len(padded) / 3 * 3
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			s := e.EncodeToString(padded[:whole])
			s = s[min(len(s), []int{0, 4, 4}[offset]):]
			add(s)
			add(strings.ReplaceAll(s, "/", `\/`))
		}
	}
	return out
}

// encoder is how others than Go write a string in JSON: characters that they escape although they need not.
type encoder struct {
	more  string // of ASCII
	ascii bool   // everything else, too
	digit string // of its hexadecimal
	quote bool   // quotes, too
}

var encoders = []encoder{
	{"", true, "%04x", false},       // Python
	{"<>&='", false, "%04x", false}, // Gson
	{"<>&'+`", true, "%04X", true},  // .NET
}

// escape takes a string that has the escapes that it needs.
func (e encoder) escape(s string) string {
	if e.quote {
		s = strings.NewReplacer(`\\`, `\\`, `\"`, `\u0022`).Replace(s)
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= utf8.RuneSelf && e.ascii:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u`+e.digit, unit)
			}
		case strings.ContainsRune(e.more, r):
			fmt.Fprintf(&b, `\u`+e.digit, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func escaped(v string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if e.Encode(v) != nil {
		return ""
	}
	s := strings.TrimSuffix(b.String(), "\n")
	return s[1 : len(s)-1]
}

// percent escapes everything but letters and digits.
func percent(v string, lower bool) string {
	const up, low = "0123456789ABCDEF", "0123456789abcdef"
	digits := up
	if lower {
		digits = low
	}
	var b strings.Builder
	for i := range len(v) {
		if c := v[i]; alnum[c] {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}
