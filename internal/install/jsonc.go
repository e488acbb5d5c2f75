package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonDocument is JSON with comments and trailing commas.
type jsonDocument struct {
	text []byte
	root hujson.Value
	all  map[string]any
}

var _ document = (*jsonDocument)(nil)

func parseJSONC(text []byte) (document, error) {
	d := &jsonDocument{text: text, all: map[string]any{}}
	if len(bytes.TrimSpace(text)) == 0 {
		return d, nil
	}
	var err error
	if d.root, err = hujson.Parse(bytes.Clone(text)); err != nil {
		return nil, err
	}
	if _, ok := d.root.Value.(*hujson.Object); !ok {
		return nil, errors.New("it is no JSON object")
	}
	plain, err := hujson.Standardize(bytes.Clone(text))
	if err != nil {
		return nil, err
	}
	return d, json.Unmarshal(plain, &d.all)
}

func (d *jsonDocument) values() map[string]any { return d.all }

// member finds a member by its exact name. One that stands twice is an error: readers differ in which of them counts.
func member(o *hujson.Object, name string, path []string) (*hujson.ObjectMember, error) {
	var found *hujson.ObjectMember
	for i := range o.Members {
		var n string
		if err := json.Unmarshal(o.Members[i].Name.Value.(hujson.Literal), &n); err != nil {
			return nil, err
		}
		if n != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s stands in it twice", place(append(slices.Clone(path), name)))
		}
		found = &o.Members[i]
	}
	return found, nil
}

// descend follows a path as far as it goes, and returns the last object, its value, and how many names led to it.
func (d *jsonDocument) descend(path []string) (at *hujson.Value, o *hujson.Object, depth int, err error) {
	at = &d.root
	o, _ = at.Value.(*hujson.Object)
	for depth = range path {
		m, err := member(o, path[depth], path[:depth])
		if err != nil || m == nil {
			return at, o, depth, err
		}
		next, ok := m.Value.Value.(*hujson.Object)
		if !ok {
			return &m.Value, nil, depth + 1, nil
		}
		at, o = &m.Value, next
	}
	return at, o, len(path), nil
}

func (d *jsonDocument) set(path []string, fields []field) ([]edit, error) {
	nl := newline(d.text)
	if d.root.Value == nil {
		return []edit{{0, len(d.text), d.nested(path, fields, "", nl) + nl}}, nil
	}
	at, o, depth, err := d.descend(path)
	switch {
	case err != nil:
		return nil, err
	case o == nil && depth == len(path): // something else is there, which no server can be
		return []edit{{at.StartOffset, at.EndOffset, d.nested(nil, fields, lineIndent(d.text, at.StartOffset), nl)}}, nil
	case o == nil:
		return nil, fmt.Errorf("%s is no object", place(path[:depth]))
	case depth < len(path):
		return d.add(at, o, []field{{path[depth], nest{path[depth+1:], fields}}}), nil
	}
	var edits []edit
	var missing []field
	for _, f := range fields {
		m, err := member(o, f.name, path)
		if err != nil {
			return nil, err
		}
		more, isMap := f.value.(map[string]string)
		switch {
		case m == nil:
			missing = append(missing, f)
		case isMap:
			var inner []field
			for _, name := range slices.Sorted(maps.Keys(more)) {
				inner = append(inner, field{name, more[name]})
			}
			deeper, err := d.set(append(slices.Clone(path), f.name), inner)
			if err != nil {
				return nil, err
			}
			edits = append(edits, deeper...)
		case !same(d.value(m), f.value):
			edits = append(edits, edit{m.Value.StartOffset, m.Value.EndOffset, encode(f.value)})
		}
	}
	return append(edits, d.add(at, o, missing)...), nil
}

// add puts members behind the last one of an object, in the way in which the object is written.
func (d *jsonDocument) add(at *hujson.Value, o *hujson.Object, fields []field) []edit {
	if len(fields) == 0 {
		return nil
	}
	nl := newline(d.text)
	outer := lineIndent(d.text, at.StartOffset)
	body := d.text[at.StartOffset:at.EndOffset]
	if len(o.Members) == 0 {
		unit := d.unit()
		text := ""
		for i, f := range fields {
			if i > 0 {
				text += ","
			}
			text += nl + outer + unit + d.written(f, outer+unit, nl)
		}
		open := at.StartOffset + 1
		if rest := d.text[open : at.EndOffset-1]; bytes.IndexByte(rest, '\n') < 0 {
			if len(bytes.TrimSpace(rest)) == 0 {
				return []edit{{open, at.EndOffset - 1, text + nl + outer}}
			}
			return []edit{{open, open, text}, {at.EndOffset - 1, at.EndOffset - 1, nl + outer}}
		}
		return []edit{{open + len(sameLine(d.text[open:at.EndOffset-1])), open + len(sameLine(d.text[open:at.EndOffset-1])), text}}
	}
	last := o.Members[len(o.Members)-1]
	end := last.Value.EndOffset
	indent, sep := lineIndent(d.text, last.Name.StartOffset), nl
	inline := bytes.IndexByte(body, '\n') < 0 || len(bytes.TrimSpace(d.text[bytes.LastIndexByte(d.text[:last.Name.StartOffset], '\n')+1:last.Name.StartOffset])) > 0
	trailing := last.Value.AfterExtra != nil // a comma follows the last member
	if after := end + len(last.Value.AfterExtra) + 1; inline && trailing && bytes.Contains(sameLine(d.text[after:at.EndOffset-1]), []byte("//")) {
		inline, indent = false, outer+d.unit() // what is put behind such a comment would be part of it
	}
	if inline {
		sep, indent = " ", ""
	}
	text := ""
	for i, f := range fields {
		if i > 0 {
			text += ","
		}
		if inline {
			text += sep + encode(f.name) + ": " + d.inline(f.value)
		} else {
			text += sep + indent + d.written(f, indent, nl)
		}
	}
	if trailing {
		end += len(last.Value.AfterExtra) + 1
		end += len(sameLine(d.text[end : at.EndOffset-1]))
		return []edit{{end, end, text + ","}}
	}
	rest := sameLine(d.text[end : at.EndOffset-1]) // a comment behind the last member stays with it
	if len(bytes.TrimSpace(rest)) == 0 {
		return []edit{{end, end, "," + text}}
	}
	if inline {
		return []edit{{end, end, ","}, {at.EndOffset - 1, at.EndOffset - 1, text}}
	}
	return []edit{{end, end, ","}, {end + len(rest), end + len(rest), text}}
}

// sameLine is what stands before the first line end that is not inside a comment, without white space at its end.
func sameLine(extra []byte) []byte {
	for i := 0; i < len(extra); i++ {
		switch {
		case extra[i] == '\n':
			return bytes.TrimRight(extra[:i], " \t\r")
		case bytes.HasPrefix(extra[i:], []byte("/*")):
			j := bytes.Index(extra[i+2:], []byte("*/"))
			if j < 0 {
				return bytes.TrimRight(extra, " \t\r\n")
			}
			i += j + 3
		case bytes.HasPrefix(extra[i:], []byte("//")):
			if j := bytes.IndexByte(extra[i:], '\n'); j >= 0 {
				return bytes.TrimRight(extra[:i+j], " \t\r")
			}
		}
	}
	return bytes.TrimRight(extra, " \t\r\n")
}

func (d *jsonDocument) remove(path []string) ([]edit, error) {
	if d.root.Value == nil {
		return nil, nil
	}
	_, o, depth, err := d.descend(path[:len(path)-1])
	if err != nil || o == nil || depth < len(path)-1 {
		return nil, err
	}
	m, err := member(o, path[len(path)-1], path[:len(path)-1])
	if err != nil || m == nil {
		return nil, err
	}
	i := slices.IndexFunc(o.Members, func(x hujson.ObjectMember) bool { return x.Name.StartOffset == m.Name.StartOffset })
	from, to := m.Name.StartOffset, m.Value.EndOffset
	comma := m.Value.AfterExtra != nil || i < len(o.Members)-1
	if comma {
		to += len(m.Value.AfterExtra) + 1
	}
	// The line goes with the member, when nothing else stands in it.
	start := from - len(d.text[:from]) + len(bytes.TrimRight(d.text[:from], " \t"))
	end := to
	for end < len(d.text) && (d.text[end] == ' ' || d.text[end] == '\t' || d.text[end] == '\r') {
		end++
	}
	alone := start > 0 && d.text[start-1] == '\n' && end < len(d.text) && d.text[end] == '\n'
	switch {
	case alone:
		start--
		if start > 0 && d.text[start-1] == '\r' {
			start--
		}
		to = end
		if to > 0 && d.text[to-1] == '\r' {
			to--
		}
		from = start
	case comma && i == 0:
		to = end
	default:
		from = start
	}
	edits := []edit{{from, to, ""}}
	if !comma && i > 0 { // the comma before was only for this member
		before := o.Members[i-1].Value
		at := before.EndOffset + len(before.AfterExtra)
		edits = append(edits, edit{at, at + 1, ""})
	}
	return edits, nil
}

// nest is a value: objects within objects, and fields in the innermost.
type nest struct {
	path   []string
	fields []field
}

func (d *jsonDocument) nested(path []string, fields []field, indent, nl string) string {
	return d.object(nest{path, fields}.list(), indent, nl)
}

func (n nest) list() []field {
	if len(n.path) == 0 {
		return n.fields
	}
	return []field{{n.path[0], nest{n.path[1:], n.fields}}}
}

func (d *jsonDocument) object(fields []field, indent, nl string) string {
	var b strings.Builder
	b.WriteString("{")
	for i, f := range fields {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(nl + indent + d.unit() + d.written(f, indent+d.unit(), nl))
	}
	b.WriteString(nl + indent + "}")
	return b.String()
}

func (d *jsonDocument) written(f field, indent, nl string) string {
	if n, ok := f.value.(nest); ok {
		return encode(f.name) + ": " + d.object(n.list(), indent, nl)
	}
	return encode(f.name) + ": " + encode(f.value)
}

func (d *jsonDocument) inline(v any) string {
	n, ok := v.(nest)
	if !ok {
		return encode(v)
	}
	var parts []string
	for _, f := range n.list() {
		parts = append(parts, encode(f.name)+": "+d.inline(f.value))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// unit is one step of indentation: that of the first member of the document.
func (d *jsonDocument) unit() string {
	if o, ok := d.root.Value.(*hujson.Object); ok && len(o.Members) > 0 {
		if in := lineIndent(d.text, o.Members[0].Name.StartOffset); in != "" {
			return in
		}
	}
	return "  "
}

func (d *jsonDocument) value(m *hujson.ObjectMember) any {
	v := m.Value.Clone()
	v.BeforeExtra, v.AfterExtra = nil, nil
	v.Standardize()
	var out any
	if json.Unmarshal(v.Pack(), &out) != nil {
		return nil
	}
	return out
}

func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if list, ok := v.([]string); ok {
		parts := make([]string, len(list))
		for i, s := range list {
			parts[i] = encode(s)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if m, ok := v.(map[string]string); ok {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(m)) {
			parts = append(parts, encode(name)+": "+encode(m[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	if err := e.Encode(v); err != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// same compares what a file says with a field.
func same(have, want any) bool {
	h, err := json.Marshal(have)
	w, werr := json.Marshal(want)
	return err == nil && werr == nil && bytes.Equal(h, w)
}
