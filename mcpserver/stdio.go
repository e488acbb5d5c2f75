package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/rs/zerolog"
)

// How long the end of a connection takes at most: calls may finish after the end of the input, then their contexts are
// cancelled and they have to return, then the client may read what is left.
const (
	drainGrace = 500 * time.Millisecond
	callGrace  = 5 * time.Second
	writeGrace = 2 * time.Second
)

// Causes of the end of a connection, as a call's context shows them.
var (
	errInputEnded = errors.New("the client closed its end of the connection")
	errStopped    = errors.New("the server was asked to stop")
)

// conn is one client on a pair of streams.
type conn struct {
	server  *Server
	log     zerolog.Logger
	session *session
	out     *lineWriter
	calls   *calls
	asked   *asked
	ctx     context.Context // of every call; ends with the connection
	end     context.CancelCauseFunc
	wrapped atomic.Uint64
}

// ServeStdio serves one client until its input or output ends, or ctx does. All of these are clean ends and return
// nil; a line over MaxLine and failures of the streams are errors. Sessions and their work go on in any case.
//
// It takes the streams over and may close them. A read or write that hangs in a file without deadlines (an inherited
// pipe) is left behind, since only the end of the process ends it; everything else has ended when ServeStdio returns.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	if _, ok := out.(*os.File); ok {
		// A Go program dies of a write to a closed standard output, before any of its code runs, unless it takes SIGPIPE.
		pipe := make(chan os.Signal, 1)
		signal.Notify(pipe, syscall.SIGPIPE)
		defer signal.Stop(pipe)
	}
	c := &conn{server: s, log: s.log, out: newLineWriter(out), calls: newCalls(), asked: newAsked()}
	c.session = newSession(c)
	c.ctx, c.end = context.WithCancelCause(ctx)
	defer c.end(nil)
	return c.serve(ctx, in)
}

func (c *conn) serve(ctx context.Context, in io.Reader) error {
	read := make(chan error, 1)
	go func() { read <- c.readLoop(newLineReader(in, c.server.maxLine)) }()

	var err error
	cause := errInputEnded
	select {
	case err = <-read:
		c.closeIn()
		c.within(drainGrace)
	case <-ctx.Done():
		cause = errStopped
		defer c.leave(in, read)
	case <-c.out.dead:
		err = c.out.err
		defer c.leave(in, read)
	}
	c.closeIn()
	c.end(cause)
	ended := c.within(callGrace)
	if !ended { // the calls may be waiting for a client that does not read
		c.out.abort(errors.New("the client does not read"))
		ended = c.within(writeGrace)
	}
	c.out.finish(writeGrace)
	if err == nil || errors.Is(err, io.EOF) {
		err = c.out.failure()
	}
	c.log.Debug().AnErr("cause", cause).AnErr("stream", err).Bool("ended", ended).Msg("connection ended")
	switch {
	case !ended:
		return fmt.Errorf("calls did not end within %s of the end of their connection", callGrace+writeGrace)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe), errors.Is(err, os.ErrClosed):
		return nil
	}
	return err
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

// leave waits for the read loop where its read can be interrupted.
func (c *conn) leave(in io.Reader, read <-chan error) {
	if interrupt(in) {
		<-read
	}
}

// interrupt ends a pending read or write of a stream, and reports whether it could.
func interrupt(stream any) bool {
	if d, ok := stream.(interface{ SetDeadline(time.Time) error }); ok && d.SetDeadline(time.Unix(1, 0)) == nil {
		return true
	}
	if _, ok := stream.(*os.File); ok {
		return false // closing a file does not end a read that the runtime does not poll for
	}
	if c, ok := stream.(io.Closer); ok {
		return c.Close() == nil
	}
	return false
}

// readLoop never waits for a call, nor for the client to read: a cancel that follows must always be seen.
func (c *conn) readLoop(r *lineReader) error {
	for {
		line, err := r.next()
		if errors.Is(err, ErrLineTooLong) {
			c.refuse(nil, &rpcError{Code: mcp.INVALID_REQUEST, Message: err.Error() + "; the connection ends here"})
		}
		if err != nil {
			return err
		}
		m, id, bad := parse(line)
		switch {
		case bad != nil:
			c.log.Debug().Int("code", bad.Code).Str("why", bad.Message).Int("bytes", len(line)).Msg("unusable message")
			c.refuse(id, bad)
		case m.kind == kindRequest:
			c.begin(m)
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
}

// begin starts a request, or refuses it without touching the one that holds its id.
func (c *conn) begin(m message) {
	k, v := c.calls.begin(c.ctx, idKey(m.id))
	switch v {
	case begun:
		go c.run(k, m)
	case duplicate:
		c.refuse(m.id, &rpcError{Code: mcp.INVALID_REQUEST, Message: "a request with this id is still in flight"})
	case cancelledEarly:
		c.log.Debug().Str("id", string(m.id)).Msg("request was cancelled before it arrived")
	case closing:
	}
}

func (c *conn) cancel(m message) {
	var p map[string]json.RawMessage
	if m.params == nil || json.Unmarshal(m.params, &p) != nil || !validID(p["requestId"]) {
		return
	}
	c.calls.cancel(idKey(p["requestId"]))
}

// run handles one request and answers it, unless the client cancelled it.
func (c *conn) run(k *call, m message) {
	defer c.calls.done()
	defer k.end(nil)
	line, err := c.handle(k.ctx, m)
	if err != nil {
		c.log.Error().Err(err).Str("method", m.method).Msg("request failed")
		line, _ = response(m.id, "error", &rpcError{Code: mcp.INTERNAL_ERROR, Message: err.Error()})
	}
	if !c.calls.answer(k) {
		return
	}
	// The answer outlives its context: the client that closed its input may still read what it asked for.
	_ = c.out.send(context.WithoutCancel(c.ctx), line)
}

func (c *conn) handle(ctx context.Context, m message) (line []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Str("method", m.method).Msg("handler panicked")
			err = errors.New("the handler of this request panicked; the server goes on")
		}
	}()
	wrapped, id := m.wrap(c.wrapped.Add(1))
	ctx, f := withFault(withParams(ctx, m.params))
	serve := func(s server.ClientSession) ([]byte, error) {
		switch r := c.server.mcp.HandleMessage(c.server.mcp.WithContext(ctx, s), wrapped).(type) {
		case mcp.JSONRPCResponse:
			return response(m.id, "result", r.Result)
		case mcp.JSONRPCError:
			if f.code != 0 {
				r.Error.Code, r.Error.Data = f.code, f.data
			}
			return response(m.id, "error", r.Error)
		default:
			return nil, fmt.Errorf("no answer to %s", m.method)
		}
	}
	if m.method != string(mcp.MethodSubscriptionsListen) {
		return serve(c.session)
	}
	restore := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(strconv.Quote(id)), m.id) }
	return c.listen(ctx, m.id, restore, serve)
}

// refuse answers an unusable message off the read loop, which must not wait for the client to read.
func (c *conn) refuse(id json.RawMessage, e *rpcError) {
	line, err := response(id, "error", e)
	if err != nil {
		return
	}
	c.calls.spawn(func() { _ = c.out.send(context.WithoutCancel(c.ctx), line) })
}

func (c *conn) notify(ctx context.Context, method string, params any) error {
	line, err := outgoing("", method, params)
	if err != nil {
		return err
	}
	return c.out.send(ctx, line)
}
