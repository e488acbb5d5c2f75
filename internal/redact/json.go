package redact

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON redacts the strings in a JSON text, names of members included, and tells whether there was anything. What has
// nothing to redact comes back as it was, but for members that are there twice; of the rest the order of members is lost, never the value of a number that is no secret.
//
// What keep names stays as it is, with everything in it: paths like "request.options.*.id", where * is every element of a
// list.
func (s *Set) JSON(text []byte, keep map[string]bool) ([]byte, bool) {
	if !s.may(text) && !unusual(text) {
		return text, false
	}
	return walker{keep, s.Redact, func(_, text string) (string, bool) { return s.Redact(text) }}.text(text)
}

// Strings has each string of a JSON text redacted by its path, which has the numbers of what stands in lists, and names of
// members like any text. open says that something may be there to redact that a look at the text does not find.
func (s *Set) Strings(text []byte, open bool, redact func(path, text string) (string, bool)) ([]byte, bool) {
	if !open && !s.mayEnd(text) && !unusual(text) {
		return text, false
	}
	return walker{nil, s.Redact, redact}.text(text)
}

// walker goes through a JSON text.
type walker struct {
	keep   map[string]bool // nil: paths have numbers
	name   func(string) (string, bool)
	redact func(path, text string) (string, bool)
}

func (w walker) text(text []byte) ([]byte, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return text, false // it is no JSON, and nobody will read it as such
	}
	v, some := w.walk(v, "")
	// Of a member that is there twice only one was looked at, and only that one is kept. Half a character hides nothing: who
	// writes in JavaScript may divide one.
	if !some && jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true)) {
		return text, false
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return text, false // what was decoded can be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), true
}

// unusual tells whether a JSON text has escapes that nobody needs, and no variant of a secret has: some encoders write
// everything so that is no ASCII, or that means something in HTML.
func unusual(text []byte) bool {
	for {
		i := bytes.Index(text, []byte(`\u`))
		if i < 0 || len(text) < i+6 {
			return false
		}
		switch code := string(text[i+2 : i+6]); {
		case strings.HasPrefix(code, "000"), strings.HasPrefix(code, "001"), code == "003c", code == "003e", code == "0026", code == "2028", code == "2029":
		default:
			return true
		}
		text = text[i+6:]
	}
}

func (w walker) walk(v any, path string) (_ any, some bool) {
	if w.keep[path] {
		return v, false
	}
	switch x := v.(type) {
	case string:
		return w.redact(path, x)
	case json.Number: // where it is the agent's own: what is ours must stay a number
		if free(path) {
			if told, some := w.redact(path, x.String()); some {
				return told, true
			}
		}
	case []any:
		for i := range x {
			var here bool
			at := ".*"
			if w.keep == nil {
				at = "." + strconv.Itoa(i)
			}
			x[i], here = w.walk(x[i], path+at)
			some = some || here
		}
	case map[string]any:
		for name, member := range x {
			to := name
			if path != "" {
				to = path + "." + name
			}
			member, here := w.walk(member, to)
			shown, named := w.name(name)
			if named {
				delete(x, name)
			}
			if here || named {
				x[shown], some = member, true
			}
		}
	}
	return v, some
}

// free tells whether what stands at a path has whatever shape its writer gave it.
func free(path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		switch name {
		case "raw", "detail", "details", "data", "schema":
			return true
		}
	}
	return path == ""
}
