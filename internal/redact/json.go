package redact

import (
	"bytes"
	"encoding/json"
)

// JSON redacts the strings in a JSON text, names of members included, and tells whether there was anything. What has
// nothing to redact comes back as it was; of the rest the order of members is lost, never the value of a number.
//
// What keep names stays as it is, with everything in it: paths like "request.options.*.id", where * is every element of a
// list.
func (s *Set) JSON(text []byte, keep map[string]bool) ([]byte, bool) {
	if !s.may(text) {
		return text, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return text, false // it is no JSON, and nobody will read it as such
	}
	v, some := s.walk(v, "", keep)
	if !some {
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

func (s *Set) walk(v any, path string, keep map[string]bool) (_ any, some bool) {
	if keep[path] {
		return v, false
	}
	switch x := v.(type) {
	case string:
		return s.value(x)
	case []any:
		for i := range x {
			var here bool
			x[i], here = s.walk(x[i], path+".*", keep)
			some = some || here
		}
	case map[string]any:
		for name, member := range x {
			to := name
			if path != "" {
				to = path + "." + name
			}
			member, here := s.walk(member, to, keep)
			shown, named := s.Redact(name)
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

func (s *Set) value(text string) (any, bool) { return s.Redact(text) }
