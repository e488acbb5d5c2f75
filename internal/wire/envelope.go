package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// envelope holds the members of one JSON-RPC message as slices of its line; nil is a member that is not there.
// encoding/json is no help here: it takes "ID" for "id", and costs a second decode of the whole line.
type envelope struct {
	id, method, params, result, err []byte
}

// parseEnvelope reads the members of the one JSON object on the line. It reports false for anything else.
func parseEnvelope(line []byte) (envelope, bool) {
	var e envelope
	if len(line) == 0 || line[0] != '{' || !valid(line) {
		return e, false
	}
	members(line, e.set)
	return e, true
}

// members gives each member of an object that is known to be valid JSON, so that nothing below runs past its end.
func members(line []byte, each func(key, value []byte)) {
	i := skipSpace(line, 1)
	for line[i] != '}' {
		end := skipString(line, i)
		key := line[i+1 : end-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			var s string
			if json.Unmarshal(line[i:end], &s) == nil {
				key = []byte(s)
			}
		}
		i = skipSpace(line, end)   // at the colon
		i = skipSpace(line, i+1)   // at the value
		end = skipValue(line, i)   // behind it
		each(key, line[i:end:end]) // full slice: an append by the receiver must not reach the next member
		i = skipSpace(line, end)
		if line[i] == ',' {
			i = skipSpace(line, i+1)
		}
	}
}

func (e *envelope) set(key, value []byte) {
	switch string(key) {
	case "id":
		e.id = value
	case "method":
		e.method = value
	case "params":
		e.params = value
	case "result":
		e.result = value
	case "error":
		e.err = value
	}
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r' {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(b[i:], '"')
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// skipValue returns the index behind the value that begins at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; ; {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	default:
		for ; ; i++ {
			switch b[i] {
			case ',', '}', ']', ' ', '\t', '\n', '\r':
				return i
			}
		}
	}
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// text is a JSON string's content, and the literal itself of anything else.
func text(raw []byte) string {
	if len(raw) >= 2 && raw[0] == '"' {
		if bytes.IndexByte(raw, '\\') < 0 {
			return string(raw[1 : len(raw)-1])
		}
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
	}
	return string(raw)
}

// parseError reads the error member of a response. Agents send codes as strings and floats, errors that are bare
// strings, and objects without a code; all of them are errors, none may end the link.
func parseError(raw []byte) *ResponseError {
	e := &ResponseError{Code: CodeInternalError}
	if raw[0] != '{' {
		e.Message, e.Data = text(raw), raw
		return e
	}
	// Decoded member by member: one of the wrong type must not cost the others.
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		e.Data = raw
		return e
	}
	malformed := false
	if code, err := strconv.ParseInt(string(members["code"]), 10, 64); err == nil {
		e.Code = code
	} else {
		malformed = true
	}
	if m := members["message"]; len(m) > 0 && m[0] == '"' {
		e.Message = text(m)
	} else {
		malformed = true
	}
	if malformed {
		e.Data = raw
	} else if data, ok := members["data"]; ok {
		e.Data = data
	}
	return e
}
