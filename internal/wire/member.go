package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// Member returns the value of a member of an object that is valid JSON, as the params and results of messages are: a
// slice of it, nil when there is no such member. It spares the reader of a large message a second decode of the whole.
func Member(object json.RawMessage, name string) json.RawMessage {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	var found json.RawMessage
	members(object, func(key, value []byte) {
		if string(key) == name {
			found = value // the last one, as encoding/json has it
		}
	})
	return found
}

// Each gives the members of an object that is valid JSON, names without their escapes, values as they stand there and good
// for as long as the object is. Anything else has none.
func Each(object json.RawMessage, member func(name, value []byte)) {
	if len(object) > 0 && object[0] == '{' {
		members(object, member)
	}
}

// Text is a JSON string's content; it reports false for another value, and for a string that is no UTF-8.
func Text(value []byte) (s string, ok bool) {
	if len(value) < 2 || value[0] != '"' || !utf8.Valid(value) {
		return "", false
	}
	return text(value), true
}

// String returns a member that is a string, "" for none and for any other value.
func String(object json.RawMessage, name string) string {
	value := Member(object, name)
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	return text(value)
}

// Without is an object without some of its members, the others as they are and in their order; nil for anything else.
func Without(object json.RawMessage, names ...string) json.RawMessage {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	rest := append(make([]byte, 0, len(object)), '{')
	members(object, func(key, value []byte) {
		if slices.Contains(names, string(key)) {
			return
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		if bytes.ContainsAny(key, "\"\\") || !json.Valid(append(append([]byte{'"'}, key...), '"')) {
			quoted, _ := json.Marshal(string(key)) // strings always encode
			rest = append(rest, quoted...)
		} else {
			rest = append(append(append(rest, '"'), key...), '"')
		}
		rest = append(append(rest, ':'), value...)
	})
	return append(rest, '}')
}
