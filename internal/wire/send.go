package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/batonmcp/baton/sessions"
)

// All sending follows one rule. An error that wraps sessions.ErrNotWritten means that no byte of the message left, one
// that wraps sessions.ErrBroken that some may have. A context counts until the first byte; a write that has begun is
// finished or, at its timeout, ends the link, because half a line cannot be taken back.

// Call sends a call. Its response comes through the inbox. nil params are sent as {}: Codex refuses a call without
// (0.171.0).
func (c *Conn) Call(ctx context.Context, method string, params any) (*Call, error) {
	body, err := message(method, params)
	if err != nil {
		return nil, notWritten(method, err)
	}
	c.mu.Lock()
	c.calls++
	call := &Call{id: strconv.FormatUint(c.calls, 10), method: method}
	if c.o.Generation != "" {
		call.id = c.o.Generation + "-" + call.id
	}
	c.pending[call.id] = call // before the write: the response may be read before the write returns
	c.mu.Unlock()

	line, err := appendText([]byte(`{"jsonrpc":"2.0","id":`), call.id)
	if err == nil {
		line = append(append(line, ','), body...)
		id := jsonrpc2.ID{Str: call.id, IsString: true}
		err = c.send(ctx, method, line, func() error {
			_, err := c.rpc.DispatchCall(ctx, method, nil, jsonrpc2.PickID(id))
			return err
		})
	}
	if err != nil {
		c.answered(call.id)
		return nil, err
	}
	return call, nil
}

// Notify sends a notification. nil params are sent as {}.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	body, err := message(method, params)
	if err != nil {
		return notWritten(method, err)
	}
	line := append([]byte(`{"jsonrpc":"2.0",`), body...)
	return c.send(ctx, method, line, func() error { return c.rpc.Notify(ctx, method, nil) })
}

// Reply answers a request of the agent. Answering one twice is the caller's mistake, and sent.
func (c *Conn) Reply(ctx context.Context, id ID, result any) error {
	return c.reply(ctx, id, `,"result":`, result)
}

// ReplyError answers a request of the agent with an error.
func (c *Conn) ReplyError(ctx context.Context, id ID, code int64, message string) error {
	return c.reply(ctx, id, `,"error":`, ResponseError{Code: code, Message: message})
}

func (c *Conn) reply(ctx context.Context, id ID, member string, v any) error {
	if id.n == 0 {
		return notWritten("reply", errors.New("the id is of no request"))
	}
	line := []byte(`{"jsonrpc":"2.0","id":` + id.raw)
	if !utf8.Valid(line) { // the one thing that must not come back as it was
		line = replaceInvalid(line)
	}
	line, err := appendJSON(append(line, member...), v)
	if err != nil {
		return notWritten("reply", err)
	}
	line = append(line, '}')
	return c.send(ctx, "reply", line, func() error {
		return c.rpc.Reply(ctx, jsonrpc2.ID{Num: id.n}, nil)
	})
}

// message is the part of a line from "method" to its end.
func message(method string, params any) ([]byte, error) {
	line, err := appendText([]byte(`"method":`), method)
	if err != nil {
		return nil, err
	}
	line = append(line, `,"params":`...)
	at := len(line)
	if line, err = appendJSON(line, params); err != nil {
		return nil, err
	}
	if isNull(line[at:]) {
		line = append(line[:at], '{', '}')
	}
	return append(line, '}'), nil
}

// send has the library write one line, alone.
func (c *Conn) send(ctx context.Context, what string, line []byte, dispatch func() error) error {
	select {
	case <-c.done:
		return notWritten(what, c.Err())
	default:
	}
	select {
	case c.lock <- struct{}{}:
	case <-c.done:
		return notWritten(what, c.Err())
	case <-ctx.Done():
		return notWritten(what, context.Cause(ctx))
	}
	defer func() { <-c.lock }()
	if ctx.Err() != nil {
		return notWritten(what, context.Cause(ctx))
	}
	if c.shut {
		return notWritten(what, os.ErrClosed)
	}
	c.tap(ToAgent, line)
	c.outgoing, c.left, c.writeErr = append(line, '\n'), 0, nil
	err := dispatch()
	c.outgoing = nil
	switch {
	case err == nil:
		return nil
	case c.writeErr == nil: // the library had closed before it got here
		return notWritten(what, cmp.Or(c.Err(), err))
	case c.left == 0:
		return notWritten(what, c.writeErr)
	default:
		return fmt.Errorf("%w: %s, after %d bytes: %w", sessions.ErrBroken, what, c.left, c.writeErr)
	}
}

func notWritten(what string, why error) error {
	return fmt.Errorf("%w: %s: %w", sessions.ErrNotWritten, what, why)
}

// write writes one line in time, or ends what it has to: after a timeout the link, after any other failure the agent's
// input alone, because what a dying agent has said before is still to be read.
func (c *Conn) write(line []byte) (int, error) {
	c.queue.set(func(q *queue) { q.writing = true })
	defer c.queue.set(func(q *queue) { q.writing = false })

	disarm := c.arm()
	n, err := c.in.Write(line)
	timedOut := disarm() || errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case n == len(line):
		return n, nil
	case timedOut:
		err = fmt.Errorf("%w: %d bytes in %s", ErrWriteTimeout, n, c.o.WriteTimeout)
		c.shut = true
		c.end(err)
	default:
		if err == nil {
			err = io.ErrShortWrite
		}
		c.shut = true
		c.in.Close()
	}
	return n, err
}

// arm sets the deadline of a write. The returned function takes it off and tells whether a watchdog, which stands in
// where the writer knows no deadlines, has ended the link.
func (c *Conn) arm() (disarm func() bool) {
	if w, ok := c.in.(interface{ SetWriteDeadline(time.Time) error }); ok &&
		w.SetWriteDeadline(time.Now().Add(c.o.WriteTimeout)) == nil {
		return func() bool {
			_ = w.SetWriteDeadline(time.Time{})
			return false
		}
	}
	fired := make(chan struct{})
	timer := time.AfterFunc(c.o.WriteTimeout, func() {
		c.end(ErrWriteTimeout)
		close(fired)
	})
	return func() bool {
		if timer.Stop() {
			return false
		}
		<-fired
		return true
	}
}

// writePatience is how long the end of the input waits for a write that is under way.
const writePatience = time.Second

// CloseInput closes the agent's input, which tells most agents to leave. A write that is under way has a moment to be taken
// and is broken off then: an agent that reads nothing must not keep anybody from stopping it.
func (c *Conn) CloseInput() error {
	patience := time.NewTimer(writePatience)
	defer patience.Stop()
	select {
	case c.lock <- struct{}{}:
	case <-c.done:
		return nil
	case <-patience.C:
		return c.in.Close() // the writer finds it so, and notes it
	}
	defer func() { <-c.lock }()
	if c.shut {
		return nil
	}
	c.shut = true
	return c.in.Close()
}
