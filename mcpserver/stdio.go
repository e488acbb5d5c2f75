package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
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
	w := newLineWriter(out)
	return (&stdio{conn: s.newConn(ctx, w), lines: w}).serve(ctx, in)
}

// stdio is a connection over a pair of streams.
type stdio struct {
	*conn
	lines  *lineWriter
	memory memory
}

func (c *stdio) serve(ctx context.Context, in io.Reader) error {
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
		defer unhang(in, read)
	case <-c.lines.dead:
		err = c.lines.err
		defer unhang(in, read)
	}
	c.leave(cause)
	ended := c.within(callGrace)
	if !ended { // the calls may be waiting for a client that does not read
		c.lines.abort(errors.New("the client does not read"))
		ended = c.within(writeGrace)
	}
	c.lines.finish(writeGrace)
	if err == nil || errors.Is(err, io.EOF) {
		err = c.lines.failure()
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

// unhang waits for the read loop where its read can be interrupted.
func unhang(in io.Reader, read <-chan error) {
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
func (c *stdio) readLoop(r *lineReader) error {
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
		default:
			c.hear(m)
		}
	}
}

// begin starts a request, or refuses it without touching the one that holds its id.
func (c *stdio) begin(m message) {
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

// run handles one request and answers it, unless the client cancelled it.
func (c *stdio) run(k *call, m message) {
	defer c.calls.done()
	defer k.end(nil)
	a := c.again(k, m)
	if !c.calls.answer(k) {
		return
	}
	// The answer outlives its context: the client that closed its input may still read what it asked for.
	_ = c.out.send(context.WithoutCancel(c.ctx), a.line)
}

// refuse answers an unusable message off the read loop, which must not wait for the client to read.
func (c *stdio) refuse(id json.RawMessage, e *rpcError) {
	line, err := response(id, "error", e)
	if err != nil {
		return
	}
	c.calls.spawn(func() { _ = c.out.send(context.WithoutCancel(c.ctx), line) })
}
