package wire

import (
	"encoding/json"
	"fmt"
)

// Kind tells the three kinds of message apart.
type Kind uint8

// The kinds of message that an agent sends.
const (
	Notification Kind = iota + 1
	Request
	Response
)

func (k Kind) String() string {
	switch k {
	case Notification:
		return "notification"
	case Request:
		return "request"
	case Response:
		return "response"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Message is one message of the agent. Its raw fields are the agent's bytes, belong to the receiver and are nil where
// the agent left the member out.
type Message struct {
	Kind   Kind
	Method string          // Notification, Request; Response: the method of our call. "" on a Request whose method is no string
	Params json.RawMessage // Notification, Request
	ID     ID              // Request: the handle for Reply
	Call   *Call           // Response: the call that it answers
	Result json.RawMessage // Response without Err; "null" is a result
	Err    *ResponseError  // Response: the agent's error
}

// ID names one request of the agent. Two requests never share one, even where the agent gave both the same JSON id.
type ID struct {
	n   uint64
	raw string
}

// String is the agent's JSON id, byte for byte.
func (id ID) String() string { return id.raw }

// Call is one call of ours; it is compared by identity.
type Call struct {
	id     string
	method string
}

// ID is the id that the call carries on the wire.
func (c *Call) ID() string { return c.id }

// Method is the called method.
func (c *Call) Method() string { return c.method }

// JSON-RPC error codes.
const (
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternalError  = -32603
)

// ResponseError is the error that the agent answered a call with. Where it was no proper error object, Data is what
// was there instead, and a code that could not be read is CodeInternalError.
type ResponseError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *ResponseError) Error() string {
	return fmt.Sprintf("agent error %d: %s", e.Code, e.Message)
}
