package install

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlDocument is a TOML text with the places of its expressions.
type tomlDocument struct {
	text  []byte
	exprs []tomlExpr // in their order
	all   map[string]any
}

var _ document = (*tomlDocument)(nil)

// tomlExpr is a table header, or a key with its value.
type tomlExpr struct {
	header bool
	path   []string // from the root of the document
	scope  []string // the table that it stands in; of a member of an inline table, that one
	from   int      // of the key, or of the line of a header
	end    int      // after the value, or after the line of a header with its end
	value  int      // where the value begins
	inline bool     // the value is an inline table
	inner  []tomlExpr
}

func parseTOML(text []byte) (document, error) {
	d := &tomlDocument{text: text, all: map[string]any{}}
	if err := toml.Unmarshal(text, &d.all); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, column := at.Position()
			return nil, fmt.Errorf("line %d, column %d: %w", row, column, err)
		}
		return nil, err
	}
	var p unstable.Parser
	p.Reset(text)
	var scope []string
	for p.NextExpression() {
		n := p.Expression()
		switch n.Kind {
		case unstable.Table, unstable.ArrayTable:
			names, last := keys(n.Key())
			scope = names
			start := bytes.LastIndexByte(text[:last], '\n') + 1
			d.exprs = append(d.exprs, tomlExpr{header: true, path: scope, from: start, end: d.lineEnd(last)})
		case unstable.KeyValue:
			d.exprs = append(d.exprs, d.keyValue(n, scope))
		}
	}
	return d, p.Error()
}

// keys returns the names of a dotted key, and the offset of its end.
func keys(it unstable.Iterator) (names []string, end int) {
	for it.Next() {
		k := it.Node()
		names = append(names, string(k.Data))
		end = int(k.Raw.Offset + k.Raw.Length)
	}
	return names, end
}

func (d *tomlDocument) keyValue(n *unstable.Node, scope []string) tomlExpr {
	names, at := keys(n.Key())
	e := tomlExpr{path: slices.Concat(scope, names), scope: scope, from: int(n.Raw.Offset), end: int(n.Raw.Offset + n.Raw.Length)}
	e.value = at + bytes.IndexByte(d.text[at:], '=') + 1
	for d.text[e.value] == ' ' || d.text[e.value] == '\t' {
		e.value++
	}
	if e.inline = n.Value().Kind == unstable.InlineTable; e.inline {
		for it := n.Value().Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				e.inner = append(e.inner, d.keyValue(it.Node(), e.path))
			}
		}
	}
	return e
}

func (d *tomlDocument) values() map[string]any { return d.all }

// lineEnd is the offset behind the end of a line.
func (d *tomlDocument) lineEnd(at int) int {
	if i := bytes.IndexByte(d.text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(d.text)
}

func (d *tomlDocument) lineStart(at int) int { return bytes.LastIndexByte(d.text[:at], '\n') + 1 }

// each visits every expression, those inside of inline tables too.
func each(exprs []tomlExpr, visit func(*tomlExpr)) {
	for i := range exprs {
		visit(&exprs[i])
		each(exprs[i].inner, visit)
	}
}

func (d *tomlDocument) find(ok func(*tomlExpr) bool) (found *tomlExpr) {
	each(d.exprs, func(e *tomlExpr) {
		if found == nil && ok(e) {
			found = e
		}
	})
	return found
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

func (d *tomlDocument) set(path []string, fields []field) ([]edit, error) {
	for i := range path {
		if v := lookup(d.all, path[:i+1]); v != nil {
			if _, ok := v.(map[string]any); !ok {
				return nil, fmt.Errorf("%s is no table", place(path[:i+1]))
			}
		}
	}
	nl := newline(d.text)
	if lookup(d.all, path) == nil {
		return d.addTable(path, fields, nl), nil
	}
	var edits []edit
	for _, f := range flat(fields) {
		full := slices.Concat(path, strings.Split(f.name, "\x00"))
		if e := d.find(func(e *tomlExpr) bool { return !e.header && slices.Equal(e.path, full) }); e != nil {
			if !same(lookup(d.all, full), f.value) {
				edits = append(edits, edit{e.value, e.end, tomlValue(f.value)})
			}
			continue
		}
		if lookup(d.all, full) != nil {
			return nil, fmt.Errorf("%s is a table", place(full))
		}
		e, err := d.addKey(path, full, f.value, nl)
		if err != nil {
			return nil, err
		}
		edits = append(edits, e)
	}
	return edits, nil
}

// flat takes maps apart: the names of their members follow after a NUL.
func flat(fields []field) (out []field) {
	for _, f := range fields {
		m, ok := f.value.(map[string]string)
		if !ok {
			out = append(out, f)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			out = append(out, field{f.name + "\x00" + name, m[name]})
		}
	}
	return out
}

// addKey adds one key to a table that is there, in the innermost form in which the table is written.
func (d *tomlDocument) addKey(table, full []string, value any, nl string) (edit, error) {
	for n := len(full) - 1; n >= len(table); n-- {
		outer := full[:n]
		if e := d.find(func(e *tomlExpr) bool { return e.header && slices.Equal(e.path, outer) }); e != nil {
			text := tomlKey(full[n:]) + " = " + tomlValue(value) + nl
			if e.end == len(d.text) && !bytes.HasSuffix(d.text, []byte("\n")) {
				text = nl + strings.TrimSuffix(text, nl)
			}
			return edit{e.end, e.end, text}, nil
		}
		if e := d.find(func(e *tomlExpr) bool { return e.inline && slices.Equal(e.path, outer) }); e != nil {
			return d.intoInline(e, tomlKey(full[n:])+" = "+tomlValue(value)), nil
		}
	}
	e := d.find(func(e *tomlExpr) bool { return !e.header && hasPrefix(e.path, table) && len(e.scope) < len(table) })
	if e == nil {
		return edit{}, fmt.Errorf("%s is written in a way that cannot be added to", place(table))
	}
	at := d.lineStart(e.from)
	return edit{at, at, lineIndent(d.text, e.from) + tomlKey(full[len(e.scope):]) + " = " + tomlValue(value) + nl}, nil
}

func (d *tomlDocument) intoInline(e *tomlExpr, text string) edit {
	if len(e.inner) > 0 {
		return edit{e.value + 1, e.value + 1, " " + text + ","}
	}
	return edit{e.value + 1, e.value + 1, " " + text + " "}
}

// addTable adds the whole table: to an inline table above it, else at the end of the text.
func (d *tomlDocument) addTable(path []string, fields []field, nl string) []edit {
	for n := len(path) - 1; n > 0; n-- {
		if e := d.find(func(e *tomlExpr) bool { return e.inline && slices.Equal(e.path, path[:n]) }); e != nil {
			return []edit{d.intoInline(e, tomlKey(path[n:])+" = "+inlineTable(fields))}
		}
	}
	text := "[" + tomlKey(path) + "]" + nl
	for _, f := range fields {
		text += tomlKey([]string{f.name}) + " = " + tomlValue(f.value) + nl
	}
	if len(bytes.TrimSpace(d.text)) > 0 {
		text = nl + text
		if !bytes.HasSuffix(d.text, []byte("\n")) {
			text = nl + text
		}
	}
	return []edit{{len(d.text), len(d.text), text}}
}

func (d *tomlDocument) remove(path []string) ([]edit, error) {
	var edits []edit
	for i := 0; i < len(d.exprs); i++ {
		e := &d.exprs[i]
		if !hasPrefix(e.path, path) {
			edits = append(edits, d.removeInner(e, path)...)
			continue
		}
		from, to := d.lineStart(e.from), d.lineEnd(e.end-1)
		for e.header && i+1 < len(d.exprs) && !d.exprs[i+1].header { // with what is between its keys
			i++
			to = d.lineEnd(d.exprs[i].end)
		}
		if nl := newline(d.text); e.header && bytes.HasSuffix(d.text[:from], []byte("\n"+nl)) && (to == len(d.text) || bytes.HasPrefix(d.text[to:], []byte(nl))) {
			from -= len(nl) // the blank line before it
		}
		if n := len(edits); n > 0 && edits[n-1].to >= from {
			edits[n-1].to = to
			continue
		}
		edits = append(edits, edit{from, to, ""})
	}
	return edits, nil
}

// removeInner takes a member out of an inline table, with its comma.
func (d *tomlDocument) removeInner(e *tomlExpr, path []string) (edits []edit) {
	for i := range e.inner {
		m := &e.inner[i]
		if !hasPrefix(m.path, path) {
			edits = append(edits, d.removeInner(m, path)...)
			continue
		}
		from, to := m.from, m.end
		rest := bytes.TrimLeft(d.text[to:], " \t\r\n")
		if bytes.HasPrefix(rest, []byte(",")) {
			to = len(d.text) - len(rest) + 1
			if i == 0 { // as it was put in: a space, the member and its comma
				from -= len(d.text[:from]) - len(bytes.TrimRight(d.text[:from], " "))
			}
		} else if before := bytes.TrimRight(d.text[:from], " \t\r\n"); bytes.HasSuffix(before, []byte(",")) {
			from = len(before) - 1
		}
		edits = append(edits, edit{from, to, ""})
	}
	return edits
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlKey(path []string) string {
	out := make([]string, len(path))
	for i, name := range path {
		if out[i] = name; !bareKey.MatchString(name) {
			out[i] = tomlString(name)
		}
	}
	return strings.Join(out, ".")
}

func tomlValue(v any) string {
	switch v := v.(type) {
	case string:
		return tomlString(v)
	case []string:
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = tomlString(s)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]string:
		var fields []field
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, field{name, v[name]})
		}
		return inlineTable(fields)
	default:
		return fmt.Sprint(v) // a bool
	}
}

func inlineTable(fields []field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = tomlKey([]string{f.name}) + " = " + tomlValue(f.value)
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// tomlString writes a basic string; what JSON escapes is escaped alike, and DEL beside it.
func tomlString(s string) string { return strings.ReplaceAll(encode(s), "\x7f", `\u007F`) }

// lookup follows a path through tables.
func lookup(all map[string]any, path []string) any {
	var at any = all
	for _, name := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[name]
	}
	return at
}
