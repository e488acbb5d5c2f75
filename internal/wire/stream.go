package wire

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/sourcegraph/jsonrpc2"
)

// stream is the library's view of a Conn. The library (v0.2.3) pairs calls with responses and serialises writes; it
// never sees the agent's own bytes. Its plain stream ends with the first stray line, charges an error without an id to
// call 0, echoes the id -1 as 2^64-1, decodes every message three times and sorts the keys of params.
type stream Conn

var _ jsonrpc2.ObjectStream = (*stream)(nil)

// ReadObject reads up to the next message that concerns the library and gives it a stand-in. The message itself waits
// in current until the library, on this same goroutine, calls OnRecv: that keeps the order of the wire.
func (s *stream) ReadObject(v any) error {
	c := (*Conn)(s)
	for {
		line, err := c.lines.next()
		if err != nil {
			c.end(err)
			c.queue.set(func(q *queue) { q.ended = true })
			close(c.read)
			return err
		}
		c.tap(FromAgent, line)
		if line = trim(line); len(line) == 0 {
			continue
		}
		standIn := c.accept(line)
		if standIn != nil {
			return json.Unmarshal(standIn, v)
		}
	}
}

// accept sorts one line. What it returns is for the library.
func (c *Conn) accept(line []byte) []byte {
	e, ok := parseEnvelope(line)
	if !ok {
		c.diag.add(func(d *Diagnostics) { d.Noise++ }, line)
		return nil
	}
	answers := e.result != nil || e.err != nil
	isMethod := e.method != nil && !isNull(e.method)
	if e.id != nil && (answers || !isMethod) {
		if call := c.answered(text(e.id)); call != nil {
			return c.response(call, e, line)
		}
	}
	switch {
	case isMethod && e.id != nil:
		return c.request(e)
	case isMethod && e.method[0] == '"':
		c.queue.put(Message{Kind: Notification, Method: c.intern(e.method), Params: e.params})
	case e.err != nil && (e.id == nil || isNull(e.id)):
		c.diag.add(func(d *Diagnostics) { d.Unnamed++ }, line)
	case answers && e.id != nil:
		c.diag.add(func(d *Diagnostics) { d.Unmatched++ }, line)
	default:
		c.diag.add(func(d *Diagnostics) { d.Malformed++ }, line)
	}
	return nil
}

// answered takes the open call with this id, whatever JSON type the agent made of it.
func (c *Conn) answered(id string) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.pending[id]
	delete(c.pending, id)
	return call
}

func (c *Conn) response(call *Call, e envelope, line []byte) []byte {
	m := Message{Kind: Response, Method: call.method, Call: call}
	switch {
	case e.err != nil && !isNull(e.err):
		m.Err = parseError(e.err)
	case e.result != nil:
		m.Result = e.result
	default:
		m.Err = &ResponseError{Code: CodeInternalError, Message: "the response has neither result nor error", Data: line}
	}
	c.current = m
	id, _ := json.Marshal(call.id)
	return append(append([]byte(`{"result":null,"id":`), id...), '}')
}

// request keeps the agent's id out of the library, which knows only strings and unsigned numbers.
func (c *Conn) request(e envelope) []byte {
	c.requests++
	m := Message{Kind: Request, Params: e.params, ID: ID{n: c.requests, raw: string(e.id)}}
	if e.method[0] == '"' {
		m.Method = c.intern(e.method)
	}
	c.current = m
	return append(strconv.AppendUint([]byte(`{"method":"request","id":`), c.requests, 10), '}')
}

// intern spares an allocation a message: agents send few methods, many times.
func (c *Conn) intern(raw []byte) string {
	if s, ok := c.methods[string(raw)]; ok {
		return s
	}
	s := text(raw)
	if len(c.methods) < 256 && len(raw) < 128 {
		c.methods[string(raw)] = s
	}
	return s
}

// received is called by the library for each stand-in, before anything else is read.
func (c *Conn) received(*jsonrpc2.Request, *jsonrpc2.Response) {
	m := c.current
	c.current = Message{}
	c.queue.put(m)
}

// WriteObject writes the line that send prepared. The library's own encoding would sort, escape and decode again.
func (s *stream) WriteObject(any) error {
	c := (*Conn)(s)
	c.left, c.writeErr = c.write(c.outgoing)
	return c.writeErr
}

// Close is called by the library when it gives up.
func (s *stream) Close() error {
	(*Conn)(s).end(ErrClosed)
	return nil
}

type ignore struct{}

func (ignore) Handle(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request) {}
