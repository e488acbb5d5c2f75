package bridge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/batonmcp/baton/sessions"
)

const (
	// WriteLimit is how long one write to a bridge may take. Its reader waits for nobody, so that one which takes longer
	// hangs.
	WriteLimit = 15 * time.Second
	// GreetLimit is how long a bridge may take to greet.
	GreetLimit = 5 * time.Second
)

// ErrRefused is wrapped by the error of a bridge that lives and does not serve this host, beside the reason that it gave
// (a *sessions.Error): it speaks another protocol, or a newer host holds it.
var ErrRefused = errors.New("the session's bridge does not serve this host")

// Link is the host's side of one connection to a bridge. Recv belongs to one goroutine, Send and Ack to another.
type Link struct {
	conn  net.Conn
	r     *bufio.Reader
	Hello Hello

	mu sync.Mutex
}

// NewLink greets the bridge behind conn. A bridge of another protocol, or one that a newer host holds, is refused with
// what it is (ErrRefused).
func NewLink(conn net.Conn, a Attach) (*Link, error) {
	a.Protocol = Protocol
	l := &Link{conn: conn, r: bufio.NewReaderSize(conn, 256<<10)}
	if err := conn.SetDeadline(time.Now().Add(GreetLimit)); err != nil {
		return nil, fmt.Errorf("greet bridge: %w", err)
	}
	if err := l.write(typeAttach, 0, "", a); err != nil {
		return nil, fmt.Errorf("greet bridge: %w", err)
	}
	f, err := readFrame(l.r)
	if err != nil {
		return nil, fmt.Errorf("greet bridge: %w", err)
	}
	if f.Type == typeRefuse {
		var e sessions.Error
		if err := json.Unmarshal(f.Body, &e); err != nil {
			return nil, fmt.Errorf("greet bridge: %w", err)
		}
		return nil, fmt.Errorf("%w: %w", ErrRefused, &e)
	}
	if f.Type != typeHello {
		return nil, fmt.Errorf("greet bridge: got %q instead of a hello", f.Type)
	}
	if err := json.Unmarshal(f.Body, &l.Hello); err != nil {
		return nil, fmt.Errorf("greet bridge: %w", err)
	}
	return l, conn.SetDeadline(time.Time{})
}

// Recv returns the next out, got or pong frame.
func (l *Link) Recv() (Frame, error) { return readFrame(l.r) }

// IsOut tells whether the frame is numbered and must be acknowledged.
func (f Frame) IsOut() bool { return f.Type == typeOut }

// IsPong tells whether the frame answers a ping and says nothing else.
func (f Frame) IsPong() bool { return f.Type == typePong }

// Buffered tells whether Recv would return at once: a whole frame is there, and not only its beginning.
func (l *Link) Buffered() bool {
	here, _ := l.r.Peek(l.r.Buffered()) // of what is there
	return bytes.IndexByte(here, '\n') >= 0
}

// Send gives input n to the bridge. An error means that it may or may not have arrived; the next hello tells.
func (l *Link) Send(n uint64, kind Kind, body any) error { return l.write(typeIn, n, kind, body) }

// Ack says that the frames up to n are durable.
func (l *Link) Ack(n uint64) error { return l.write(typeAck, n, "", nil) }

// Ping asks a bridge whose hello says so for a pong.
func (l *Link) Ping() error { return l.write(typePing, 0, "", nil) }

// End tells the bridge to stop its agent and itself, and to leave in its spill file what was not acknowledged. It is for
// a host whose journal takes nothing; the ordinary way is an input InClose.
func (l *Link) End() error { return l.write(typeEnd, 0, "", CloseInput{Reason: "closed"}) }

func (l *Link) write(typ string, n uint64, kind Kind, body any) error {
	line, err := frameOf(typ, n, kind, body)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.conn.SetWriteDeadline(time.Now().Add(WriteLimit)); err != nil {
		return err
	}
	_, err = l.conn.Write(line)
	return err
}

// Close ends the connection; the bridge lives on.
func (l *Link) Close() error { return l.conn.Close() }
