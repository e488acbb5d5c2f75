package journal

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// measure counts the characters of event bodies without decoding them.
type measure struct {
	dec *jsontext.Decoder
	err bool // the body is none of those that are known here
	n   int
}

// of counts a body whose members are those of most events and of their types, so that it is certain to be decoded as an event;
// for any other ok is false.
func (m *measure) of(body []byte) (characters int, ok bool) {
	if !bytes.HasPrefix(body, []byte(noKind)) {
		return 0, false
	}
	in := bytes.NewBuffer(body)
	if m.dec == nil {
		m.dec = jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	} else {
		m.dec.Reset(in, m.dec.Options())
	}
	m.err, m.n = false, 0
	m.object(m.member)
	return m.n, !m.err && int(m.dec.InputOffset()) == len(body)
}

// object reads an object, with each of its members by name.
func (m *measure) object(member func(name string)) {
	if m.dec.PeekKind() != '{' {
		m.err = true
		return
	}
	m.dec.ReadToken()
	for !m.err && m.dec.PeekKind() == '"' {
		name, err := m.dec.ReadValue()
		if err != nil {
			m.err = true
			return
		}
		member(string(name[1 : len(name)-1]))
	}
	if end, err := m.dec.ReadToken(); err != nil || end.Kind() != '}' {
		m.err = true
	}
}

// value reads a value, which must be of one of the kinds.
func (m *measure) value(kinds string) jsontext.Value {
	v, err := m.dec.ReadValue()
	if err != nil || kinds != "" && bytes.IndexByte([]byte(kinds), byte(v.Kind())) < 0 {
		m.err = true
	}
	return v
}

func (m *measure) member(name string) {
	switch name {
	case "kind": // also when it comes again
		m.err = string(m.value(`"`)) != `""` || m.err
	case "text":
		m.text()
	case "turn", "item", "agent", "lease", "code":
		m.value(`"`)
	case "final", "abandoned", "late", "replay", "redacted":
		m.value("tf")
	case "raw":
		m.n += len(m.value(""))
	case "tool":
		m.object(m.tool)
	default:
		m.err = true
	}
}

func (m *measure) tool(name string) {
	switch name {
	case "output":
		m.text()
	case "name", "title", "status":
		m.value(`"`)
	case "exit":
		_, err := strconv.ParseInt(string(m.value("0")), 10, strconv.IntSize)
		m.err = m.err || err != nil
	case "detail":
		m.n += len(m.value(""))
	case "paths":
		m.strings()
	default:
		m.err = true
	}
}

func (m *measure) strings() {
	if m.dec.PeekKind() != '[' {
		m.err = true
		return
	}
	m.dec.ReadToken()
	for !m.err && m.dec.PeekKind() == '"' {
		m.value(`"`)
	}
	if end, err := m.dec.ReadToken(); err != nil || end.Kind() != ']' {
		m.err = true
	}
}

func (m *measure) text() {
	if v := m.value(`"`); !m.err {
		m.n += quoted(v[1 : len(v)-1])
	}
}

// quoted counts the characters of what stands between the quotes of a string.
func quoted(s []byte) (n int) {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return n + utf8.RuneCount(s)
		}
		n += utf8.RuneCount(s[:i]) + 1
		if s = s[i:]; s[1] != 'u' {
			s = s[2:]
			continue
		}
		if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' && utf16.DecodeRune(unit(s), unit(s[6:])) != utf8.RuneError {
			s = s[6:]
		}
		s = s[6:]
	}
}

// unit is the number of an escape, \u0000 to \uffff.
func unit(s []byte) rune {
	n, _ := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(n)
}
