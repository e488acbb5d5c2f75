package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/rs/zerolog"
)

// output takes messages for a client. Those that one goroutine sends keep their order.
type output interface {
	send(ctx context.Context, line []byte) error
}

// conn is one client, whatever carries its messages: a pair of streams, a session over HTTP, or one request of a client
// that has no session.
type conn struct {
	server  *Server
	log     zerolog.Logger
	session *session
	out     output
	calls   *calls
	asked   *asked
	ctx     context.Context // of every call; ends with the connection
	end     context.CancelCauseFunc
	wrapped atomic.Uint64
}

// newConn makes a connection for as long as ctx lasts and end is not called. Whoever made it calls leave at its end.
func (s *Server) newConn(ctx context.Context, out output) *conn {
	c := &conn{server: s, log: s.log, out: out, calls: newCalls(), asked: newAsked()}
	c.session = newSession(c)
	c.ctx, c.end = context.WithCancelCause(ctx)
	s.peers.add(c.session)
	return c
}

// leave ends what is left of the connection.
func (c *conn) leave(cause error) {
	c.server.peers.remove(c.session)
	c.closeIn()
	c.end(cause)
}

// closeIn lets nothing begin any more, and no answer of the client be waited for.
func (c *conn) closeIn() {
	c.calls.close()
	c.asked.close()
}

// within waits for everything that runs for the connection to end.
func (c *conn) within(grace time.Duration) bool {
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-c.calls.idle:
		return true
	case <-t.C:
		return false
	}
}

// hear takes a message that is not answered.
func (c *conn) hear(m message) {
	switch {
	case m.kind == kindResponse:
		if !c.asked.resolve(m) {
			c.log.Debug().Str("id", string(m.id)).Msg("response that nobody waits for")
		}
	case m.method == "notifications/cancelled":
		c.cancel(m)
	default:
		line, _ := m.wrap(0)
		c.server.mcp.HandleMessage(c.server.mcp.WithContext(c.ctx, c.session), line)
	}
}

func (c *conn) cancel(m message) {
	var p map[string]json.RawMessage
	if m.params == nil || json.Unmarshal(m.params, &p) != nil || !validID(p["requestId"]) {
		return
	}
	c.calls.cancel(idKey(p["requestId"]))
}

// answer is what a request is answered with.
type answer struct {
	line   []byte
	code   int    // of an error; 0: a result
	result []byte // the part of the line that says what a tool found; nil: it is none of a tool, or failed
}

// refusing answers with an error; a nil id is null.
func refusing(id json.RawMessage, e *rpcError) answer {
	line, err := response(id, "error", e)
	if err != nil { // data that is no JSON
		line, _ = response(id, "error", &rpcError{Code: e.Code, Message: e.Message})
	}
	return answer{line: line, code: e.Code}
}

// handle finds the answer to a request.
func (c *conn) handle(ctx context.Context, m message) (a answer) {
	failed := func(err error) answer {
		c.log.Error().Err(err).Str("method", m.method).Msg("request failed")
		return refusing(m.id, &rpcError{Code: mcp.INTERNAL_ERROR, Message: err.Error()})
	}
	defer func() {
		if p := recover(); p != nil {
			c.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Str("method", m.method).Msg("handler panicked")
			a = failed(errors.New("the handler of this request panicked; the server goes on"))
		}
	}()
	wrapped, id := m.wrap(c.wrapped.Add(1))
	ctx, f := withFault(withParams(ctx, m.params))
	serve := func(s server.ClientSession) answer {
		switch r := c.server.mcp.HandleMessage(c.server.mcp.WithContext(ctx, s), wrapped).(type) {
		case mcp.JSONRPCResponse:
			result, err := encodeResult(r.Result)
			if err != nil {
				return failed(err)
			}
			a := answer{line: written(m.id, "result", result)}
			if t, ok := r.Result.(*mcp.CallToolResult); ok && !t.IsError {
				a.result = result
			}
			return a
		case mcp.JSONRPCError:
			if f.code != 0 {
				r.Error.Code, r.Error.Data = f.code, f.data
			}
			line, err := response(m.id, "error", r.Error)
			if err != nil {
				return failed(err)
			}
			return answer{line: line, code: r.Error.Code}
		default:
			return failed(fmt.Errorf("no answer to %s", m.method))
		}
	}
	if m.method != string(mcp.MethodSubscriptionsListen) {
		return serve(c.session)
	}
	restore := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(strconv.Quote(id)), m.id) }
	return c.listen(ctx, m.id, restore, serve)
}

func (c *conn) notify(ctx context.Context, method string, params any) error {
	line, err := outgoing("", method, params)
	if err != nil {
		return err
	}
	return c.out.send(ctx, line)
}
