// Package wire carries JSON-RPC over a native agent's standard input and output, one message a line.
//
// It promises: what the agent sends comes out of one inbox in exactly the order of the wire, notifications, requests
// and responses alike, with the agent's own bytes; lines that are no message are skipped, counted and kept, and never
// end the link; an id of the agent comes back byte for byte; what is sent is valid UTF-8 on one line; a failed write
// says whether bytes may have left; and reading never waits for writing.
//
// It does not promise that a call is ever answered: agents drop requests that they cannot read without a word, so
// every call needs a deadline of its caller's. It starts no process and watches none.
package wire

import (
	"context"
	"errors"
	"io"
	"log"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/batonmcp/baton/sessions"
)

// Direction tells who sent a line.
type Direction uint8

// The directions of a link.
const (
	FromAgent Direction = iota + 1
	ToAgent
)

// How a link ends, beside the reader's own errors, io.EOF and ErrLineTooLong.
var (
	// ErrClosed is the end by Close.
	ErrClosed = errors.New("link closed")
	// ErrWriteTimeout is the end by a write that the agent did not take in time.
	ErrWriteTimeout = errors.New("the agent does not read its input")
)

const (
	// inboxMessages wait in the inbox itself, beside those of the queue, so that a stream does not wake its reader for each.
	inboxMessages = 32

	defaultMaxLine      = 64 << 20
	defaultWriteTimeout = 30 * time.Second
)

// Options of a Conn. The zero value is usable.
type Options struct {
	// Generation is the prefix of our ids, "<generation>-<n>" with n from 1. "": the ids are "<n>".
	Generation string
	// MaxLine is the longest line in bytes that the agent may send. A longer one ends the link. 0: 64 MiB.
	MaxLine int
	// WriteTimeout is how long one write may take. One that takes longer ends the link. 0: 30 s.
	WriteTimeout time.Duration
	// Tap gets every line in wire order without its LF, ours before it is written. The bytes are good during the call
	// only; no two calls run at once. nil: off.
	Tap func(Direction, []byte)
}

// Conn is the link to one agent process. Its methods may be called from any goroutine.
type Conn struct {
	// Fixed by New.
	in      io.WriteCloser
	out     io.Reader
	o       Options
	rpc     *jsonrpc2.Conn
	lines   *lineReader
	queue   *queue
	inbox   chan Message
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the link ended
	read    chan struct{} // closed when the reader returned for good
	tapped  sync.Mutex

	diag diagnostics

	// Owned by the reader.
	current  Message // what the library was just given, until it comes back through OnRecv
	requests uint64
	methods  map[string]string // interned

	// lock is held by whoever writes. A channel, because waiting for it ends with a context.
	lock     chan struct{}
	outgoing []byte // under lock: the line for the library to write
	left     int    // under lock: how much of it was written
	writeErr error  // under lock
	shut     bool   // under lock: the agent's input is closed

	mu      sync.Mutex
	err     error
	closed  bool
	calls   uint64
	pending map[string]*Call
}

// New makes a link of an agent's standard output and input, which it owns from then on. Close must be called, also
// after the link has ended by itself.
//
// Closing out and in must end a blocked Read and Write, as it does for the ends of os.Pipe and io.Pipe and for net.Conn.
func New(out io.Reader, in io.WriteCloser, o Options) *Conn {
	if o.MaxLine <= 0 {
		o.MaxLine = defaultMaxLine
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = defaultWriteTimeout
	}
	c := &Conn{
		in: in, out: out, o: o,
		lines:   newLineReader(out, o.MaxLine),
		queue:   newQueue(max(o.MaxLine, queueBytes)),
		inbox:   make(chan Message, inboxMessages),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		read:    make(chan struct{}),
		methods: map[string]string{},
		lock:    make(chan struct{}, 1),
		pending: map[string]*Call{},
	}
	go c.deliver()
	// The context is the link's own life, which Close ends.
	c.rpc = jsonrpc2.NewConn(context.Background(), (*stream)(c), ignore{},
		jsonrpc2.OnRecv(c.received), jsonrpc2.SetLogger(log.New(io.Discard, "", 0)))
	return c
}

// deliver moves messages from the queue into the inbox.
func (c *Conn) deliver() {
	defer close(c.inbox)
	var batch []Message
	for {
		batch = c.queue.take(batch)
		if len(batch) == 0 {
			return
		}
		for i := range batch {
			select {
			case c.inbox <- batch[i]:
			case <-c.closing:
				return
			}
			batch[i] = Message{} // a batch is used again, and must not hold what was delivered
		}
	}
}

// Inbox is everything that the agent sends, in wire order. It is bounded: while nobody receives, reading stops. It is
// closed after the last message of an ended link was received, or by Close.
func (c *Conn) Inbox() <-chan Message { return c.inbox }

// Done is closed when the link has ended. Messages may still be in the inbox.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err tells why the link ended, io.EOF when the agent closed its output; nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Diagnostics is what was skipped so far.
func (c *Conn) Diagnostics() Diagnostics { return c.diag.snapshot() }

// end ends the link, once.
func (c *Conn) end(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	c.mu.Unlock()
	close(c.done)
	c.in.Close()
	if out, ok := c.out.(io.Closer); ok {
		out.Close()
	}
}

// Close ends the link, drops what is left in the inbox and waits for the link's goroutines.
func (c *Conn) Close() error {
	c.end(ErrClosed)
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		close(c.closing)
		c.queue.set(func(q *queue) { q.dropped = true })
		c.rpc.Close()
	}
	<-c.read
	for range c.inbox { // closed by deliver as it returns
	}
	return nil
}

func (c *Conn) tap(d Direction, line []byte) {
	if c.o.Tap == nil {
		return
	}
	c.tapped.Lock()
	defer c.tapped.Unlock()
	c.o.Tap(d, line)
}

// Lost is the code of a link's end, and what a user can do about it: the same for every agent, whichever protocol it speaks.
func Lost(why error) (code sessions.Code, action string) {
	switch {
	case errors.Is(why, ErrLineTooLong):
		return sessions.CodeLimitExceeded, "the agent sent more in one message than is taken: see what it had to tell, use another version of it, or resume the session and ask for less at once"
	case errors.Is(why, ErrWriteTimeout):
		return sessions.CodeTimeout, "the agent does not read what it is sent: resume the session"
	}
	return sessions.CodeAgentExited, "look at the agent's own output for the reason, then resume the session"
}
