package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/batonmcp/baton/sessions"
)

// maxProblems bounds how many faults of one call are told at once.
const maxProblems = 5

// problem is one fault of the arguments. Values are never part of it, except where a closed set was missed: they may be
// secret.
type problem struct{ argument, message, action string }

// arguments checks the raw arguments of a call against the schema and returns them as one object that decodes into the
// tool's struct. null stands for an argument left out: assistants in a strict mode have to send every one.
func (s *schema) arguments(tool string, raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	if lone := loneSurrogate(raw); lone != "" {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "the arguments of %s hold %s, half of a character, which is no text", tool, lone).
			Do("send whole characters; nothing was done").With("tool", tool)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "the arguments of %s are %s, not a JSON object", tool, typeOf(raw)).
			Do("call %s again with an object of its arguments: %s", tool, strings.Join(s.names(), ", ")).With("tool", tool)
	}
	maps.DeleteFunc(given, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	var ps []problem
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if s.member(name) == nil {
			ps = append(ps, s.unknown(tool, "", name))
		}
	}
	for _, name := range s.Required {
		if _, ok := given[name]; !ok {
			ps = append(ps, s.missing(tool, "", name))
		}
	}
	for _, m := range s.Members {
		if v, ok := given[m.Name]; ok {
			ps = append(ps, m.check(tool, m.Name, v)...)
		}
	}
	if len(ps) > 0 {
		return nil, refusal(tool, s, ps)
	}
	return s.rebuild(given), nil
}

// loneSurrogate finds an escape like \ud800 without its other half, "" where there is none. Decoding would put another
// character in its place, without a word, and a prompt would reach the agent altered.
func loneSurrogate(raw []byte) string {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; raw[i] != 'u' {
			continue // an escape of another kind, \\ among them
		}
		first, ok := hexEscape(raw[i+1:])
		if !ok || !utf16.IsSurrogate(first) {
			continue
		}
		if rest := raw[i+5:]; len(rest) > 6-1 && rest[0] == '\\' && rest[1] == 'u' {
			if second, ok := hexEscape(rest[2:]); ok && utf16.DecodeRune(first, second) != utf8.RuneError {
				i += 10
				continue
			}
		}
		return fmt.Sprintf("\\u%04x", first)
	}
	return ""
}

func hexEscape(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil
}

// rebuild writes the arguments that were given, each as it came: a form must reach the agent unchanged.
func (s *schema) rebuild(given map[string]json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, m := range s.Members {
		v, ok := given[m.Name]
		if !ok {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(m.Name) + ":")
		if n, ok := integer(v); ok && m.Type == "integer" { // 20.0 is the integer 20, but no Go int
			b.WriteString(strconv.FormatInt(n, 10))
			continue
		}
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func refusal(tool string, s *schema, ps []problem) error {
	var what, todo, which []string
	more := 0
	for i, p := range ps {
		if i >= maxProblems {
			more++
			continue
		}
		what, which = append(what, p.message), append(which, p.argument)
		if !slices.Contains(todo, p.action) {
			todo = append(todo, p.action)
		}
	}
	if more > 0 {
		what = append(what, fmt.Sprintf("+%d more", more))
	}
	return sessions.Errorf(sessions.CodeInvalidParams, "%s", strings.Join(what, "; ")).Do("%s", strings.Join(todo, "; ")).
		With("tool", tool).With("arguments", which).With("known", s.names())
}

func (s *schema) unknown(tool, path, name string) problem {
	p := problem{argument: join(path, name), message: fmt.Sprintf("%s has no argument %.80q", tool, join(path, name))}
	if near := s.nearest(name); near != "" {
		p.action = fmt.Sprintf("use %s", join(path, near))
	} else {
		p.action = fmt.Sprintf("leave %.80q out, or use one of %s", join(path, name), strings.Join(s.names(), ", "))
	}
	return p
}

func (s *schema) missing(tool, path, name string) problem {
	p := problem{argument: join(path, name), message: fmt.Sprintf("%s needs %s, which was not given", tool, join(path, name))}
	p.action = fmt.Sprintf("give %s", join(path, name))
	if d := s.member(name).Description; d != "" {
		p.action += ": " + d
	}
	return p
}

// check finds what is wrong with one value.
func (s *schema) check(tool, path string, raw json.RawMessage) []problem {
	raw = bytes.TrimSpace(raw)
	if s.Type == "" {
		return nil
	}
	if got := typeOf(raw); got != s.article() && !(s.Type == "number" && got == "an integer") {
		return []problem{{path, fmt.Sprintf("%s of %s is %s", path, tool, got), fmt.Sprintf("give %s as %s", path, s.article())}}
	}
	switch s.Type {
	case "integer":
		return s.checkRange(tool, path, raw)
	case "string":
		return s.checkEnum(tool, path, raw)
	case "array":
		return s.checkItems(tool, path, raw)
	case "object":
		return s.checkMembers(tool, path, raw)
	}
	return nil
}

func (s *schema) checkRange(tool, path string, raw json.RawMessage) []problem {
	n, _ := integer(raw)
	switch {
	case s.Max != nil && n > int64(*s.Max):
		action := fmt.Sprintf("give at most %d", *s.Max)
		if path == "wait_seconds" {
			action += " and call again to go on waiting: the work itself has no such limit"
		}
		return []problem{{path, fmt.Sprintf("%s of %s is %d, more than %d", path, tool, n, *s.Max), action}}
	case s.Min != nil && n < int64(*s.Min):
		return []problem{{path, fmt.Sprintf("%s of %s is %d, less than %d", path, tool, n, *s.Min), fmt.Sprintf("give at least %d", *s.Min)}}
	}
	return nil
}

func (s *schema) checkEnum(tool, path string, raw json.RawMessage) []problem {
	var v string
	_ = json.Unmarshal(raw, &v)
	if len(s.Enum) == 0 || v == "" || slices.Contains(s.Enum, v) { // "" is an argument left out
		return nil
	}
	return []problem{{path, fmt.Sprintf("%s of %s is %.80q", path, tool, v), fmt.Sprintf("use one of %s", strings.Join(s.Enum, ", "))}}
}

func (s *schema) checkItems(tool, path string, raw json.RawMessage) []problem {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items)
	if s.MaxItems > 0 && len(items) > s.MaxItems {
		return []problem{{path, fmt.Sprintf("%s of %s has %d entries, more than %d", path, tool, len(items), s.MaxItems),
			fmt.Sprintf("give at most %d", s.MaxItems)}}
	}
	var ps []problem
	for i, item := range items {
		ps = append(ps, s.Items.check(tool, fmt.Sprintf("%s[%d]", path, i), item)...)
	}
	return ps
}

func (s *schema) checkMembers(tool, path string, raw json.RawMessage) []problem {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(raw, &given)
	var ps []problem
	for _, name := range slices.Sorted(maps.Keys(given)) {
		m := s.Values
		if s.Members != nil {
			m = s.member(name)
		}
		switch {
		case m != nil:
			ps = append(ps, m.check(tool, join(path, name), given[name])...)
		case s.Closed:
			ps = append(ps, s.unknown(tool, path, name))
		}
	}
	for _, name := range s.Required {
		if _, ok := given[name]; !ok {
			ps = append(ps, s.missing(tool, path, name))
		}
	}
	return ps
}

// typeOf names the JSON type of a valid value as a sentence needs it.
func typeOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch c := raw[0]; {
	case c == '{':
		return (&schema{Type: "object"}).article()
	case c == '[':
		return (&schema{Type: "array"}).article()
	case c == '"':
		return (&schema{Type: "string"}).article()
	case c == 't' || c == 'f':
		return (&schema{Type: "boolean"}).article()
	case c == 'n':
		return "null"
	default:
		if _, ok := integer(raw); ok {
			return (&schema{Type: "integer"}).article()
		}
		return (&schema{Type: "number"}).article()
	}
}

func (s *schema) article() string {
	switch s.Type {
	case "integer", "array":
		return "an " + s.Type
	case "object":
		return "a JSON object"
	}
	return "a " + s.Type
}

// integer reads a number without a fraction, however it is written.
func integer(raw json.RawMessage) (int64, bool) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
