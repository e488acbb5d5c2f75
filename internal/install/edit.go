package install

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/batonmcp/baton/sessions"
)

// edit replaces a part of a text.
type edit struct {
	from, to int
	text     string
}

// apply makes edits that do not overlap. Those at one place are made in their order.
func apply(text []byte, edits []edit) []byte {
	sorted := slices.Clone(edits)
	slices.SortStableFunc(sorted, func(a, b edit) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, e := range sorted {
		out = append(append(out, text[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, text[at:]...)
}

// document is a configuration in one syntax. All of its methods leave it as it is.
type document interface {
	// values is everything that it says.
	values() map[string]any
	// set gives the edits after which the table at path has the fields: each is replaced where it is there, else added.
	set(path []string, fields []field) ([]edit, error)
	// remove gives the edits after which nothing is at path.
	remove(path []string) ([]edit, error)
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// parse reads a configuration without its byte order mark. The error says where it cannot be read.
func (h Host) parse(file string, text []byte) (document, error) {
	if !utf8.Valid(text) {
		return nil, unreadable(file, "it is not UTF-8")
	}
	var d document
	var err error
	if h.syntax == tomls {
		d, err = parseTOML(text)
	} else {
		d, err = parseJSONC(text)
	}
	if err != nil {
		return nil, unreadable(file, "%w", err)
	}
	return d, nil
}

func unreadable(file, format string, args ...any) error {
	return sessions.Errorf(sessions.CodeInvalidParams, "%s cannot be edited: %w", file, fmt.Errorf(format, args...)).
		Do("correct the file, or add the entry by hand (baton install HOST --print shows it); nothing was changed").With("file", file)
}

// newline is the line end of a text: of its first line.
func newline(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lineIndent is the white space at the beginning of the line that holds an offset.
func lineIndent(text []byte, at int) string {
	start := bytes.LastIndexByte(text[:at], '\n') + 1
	end := start
	for end < at && (text[end] == ' ' || text[end] == '\t') {
		end++
	}
	return string(text[start:end])
}

// place names a path for a person.
func place(path []string) string { return strings.Join(path, ".") }
