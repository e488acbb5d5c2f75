package mcpserver

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

// messageKind is what a line of the client is.
type messageKind int

const (
	kindRequest messageKind = iota
	kindNotification
	kindResponse
)

// message is one line of the client. Names are matched exactly, not as encoding/json matches them: "ID" is no id.
type message struct {
	kind   messageKind
	id     json.RawMessage // request, response: as it was written
	method string
	params json.RawMessage // nil: none
	result json.RawMessage // response
	err    *rpcError       // response
}

// rpcError is the error member of a JSON-RPC message.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

// parse reads one line. A line that is no message comes back as the one error that answers it, and under which id.
func parse(line []byte) (m message, id json.RawMessage, bad *rpcError) {
	invalid := func(id json.RawMessage, text string) (message, json.RawMessage, *rpcError) {
		return message{}, id, &rpcError{Code: mcp.INVALID_REQUEST, Message: text}
	}
	if !utf8.Valid(line) { // decoding would replace what it cannot read, and a prompt would reach the agent altered
		return message{}, nil, &rpcError{Code: mcp.PARSE_ERROR, Message: "the line is not valid UTF-8"}
	}
	var o map[string]json.RawMessage
	if err := json.Unmarshal(line, &o); err != nil || o == nil {
		switch {
		case !json.Valid(line):
			return message{}, nil, &rpcError{Code: mcp.PARSE_ERROR, Message: "the line is not valid JSON: one message a line is expected"}
		case line[0] == '[':
			return invalid(nil, "batches are not supported: send one message a line")
		}
		return invalid(nil, "the line is not a JSON object")
	}
	rawID, hasID := o["id"]
	if hasID && !validID(rawID) {
		return invalid(nil, "an id must be a string or a number")
	}
	if string(o["jsonrpc"]) != `"2.0"` {
		return invalid(rawID, `the message lacks "jsonrpc":"2.0"`)
	}
	m = message{id: rawID, params: o["params"]}
	if string(m.params) == "null" {
		m.params = nil
	}
	if rawMethod, ok := o["method"]; ok {
		if json.Unmarshal(rawMethod, &m.method) != nil || m.method == "" {
			return invalid(rawID, "method must be a string")
		}
		if m.params != nil && m.params[0] != '{' {
			return message{}, rawID, &rpcError{Code: mcp.INVALID_PARAMS, Message: "params must be an object"}
		}
		if !hasID {
			m.kind = kindNotification
		}
		return m, nil, nil
	}
	rawError, failed := o["error"]
	result, answered := o["result"]
	if !hasID || failed == answered {
		return invalid(rawID, "the message has neither a method nor one of result and error")
	}
	m.kind, m.result = kindResponse, result
	if failed {
		m.err = new(rpcError)
		if json.Unmarshal(rawError, m.err) != nil {
			m.err = &rpcError{Code: mcp.INTERNAL_ERROR, Message: "the client answered with an error that cannot be read"}
		}
	}
	return m, nil, nil
}

// validID accepts what MCP allows, and numbers with a fraction, which JSON-RPC allows.
func validID(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// idKey makes ids comparable: strings by their value, numbers by their text, so that 7 and "7" differ and no number
// loses a digit.
func idKey(raw json.RawMessage) string {
	var s string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return "s" + s
	}
	return "n" + string(raw)
}

// wrap writes the request for mcp-go under an id of ours: mcp-go reads numbers as float64 and prints ids as text.
func (m *message) wrap(n uint64) (line []byte, id string) {
	id = "baton:" + strconv.FormatUint(n, 10)
	var b bytes.Buffer
	b.Grow(len(m.params) + len(m.method) + 64)
	b.WriteString(`{"jsonrpc":"2.0"`)
	if m.kind == kindRequest {
		b.WriteString(`,"id":"` + id + `"`)
	}
	method, _ := json.Marshal(m.method)
	b.WriteString(`,"method":`)
	b.Write(method)
	if m.params != nil {
		b.WriteString(`,"params":`)
		b.Write(m.params)
	}
	b.WriteByte('}')
	return b.Bytes(), id
}

// response writes an answer under the client's own id, byte for byte; nil is null.
func response(id json.RawMessage, name string, value any) ([]byte, error) {
	v, err := encodeResult(value)
	if err != nil {
		return nil, err
	}
	return written(id, name, v), nil
}

// written is an answer around the JSON of a result or an error.
func written(id json.RawMessage, name string, v []byte) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	b := make([]byte, 0, len(v)+len(id)+40)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"`+name+`":`...)
	b = append(b, v...)
	return append(b, '}')
}

// outgoing writes a notification, or a request when it has an id.
func outgoing(id, method string, params any) ([]byte, error) {
	return json.Marshal(struct {
		Version string `json:"jsonrpc"`
		ID      string `json:"id,omitempty"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{mcp.JSONRPC_VERSION, id, method, params})
}
