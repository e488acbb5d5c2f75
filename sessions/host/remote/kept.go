package remote

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// keptFor is how long a connection is kept for the next call that changes nothing.
	keptFor = 200 * time.Millisecond
	// maxKept is how many are kept.
	maxKept = 64
)

// kept makes calls like exchange, over connections that stay for the calls that follow soon. One of them may have ended
// with its host: a call that breaks off says nothing about the next host, and is made again over one of its own. It is
// safe for concurrent use.
type kept struct {
	dial exchange

	mu    sync.Mutex
	free  []*link     // the one that was used last is the last
	sweep *time.Timer // nil: nothing is free
}

// link is a connection between two calls.
type link struct {
	conn net.Conn
	in   *bufio.Reader
	used time.Time
}

var _ http.RoundTripper = (*kept)(nil)

// RoundTrip sends the call and reads the head of its answer. The connection is kept when the whole body was read and the
// call's context has not ended.
func (k *kept) RoundTrip(r *http.Request) (*http.Response, error) {
	l := k.take()
	if l == nil {
		conn, err := k.dial(r.Context())
		if err != nil {
			return nil, err
		}
		l = &link{conn: conn, in: bufio.NewReader(conn)}
	}
	unhand := context.AfterFunc(r.Context(), func() { l.conn.Close() })
	wrong := r.Write(l.conn)
	answer, err := http.ReadResponse(l.in, r)
	if err != nil {
		unhand()
		return nil, errors.Join(cmp.Or(wrong, err), l.conn.Close())
	}
	answer.Body = &keptBody{ReadCloser: answer.Body, kept: k, link: l, unhand: unhand, last: answer.Close || wrong != nil}
	return answer, nil
}

// take returns a connection that was used lately, nil when there is none.
func (k *kept) take() *link {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.free) - 1
	if n < 0 || time.Since(k.free[n].used) > keptFor {
		return nil // the sweep has them
	}
	l := k.free[n]
	k.free[n] = nil
	k.free = k.free[:n]
	return l
}

// give keeps a connection for the next call.
func (k *kept) give(l *link) {
	l.used = time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.free) >= maxKept {
		l.conn.Close()
		return
	}
	k.free = append(k.free, l)
	if k.sweep == nil {
		k.sweep = time.AfterFunc(keptFor, k.close)
	}
}

// close ends the connections that nobody has used for too long.
func (k *kept) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for n < len(k.free) && time.Since(k.free[n].used) >= keptFor {
		k.free[n].conn.Close()
		n++
	}
	k.free = append(k.free[:0], k.free[n:]...)
	if k.sweep = nil; len(k.free) > 0 {
		k.sweep = time.AfterFunc(keptFor-time.Since(k.free[0].used), k.close)
	}
}

// keptBody is the body of an answer.
type keptBody struct {
	io.ReadCloser
	kept   *kept
	link   *link
	unhand func() bool
	whole  bool // it was read to its end
	last   bool // nothing follows on the connection
}

func (b *keptBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.whole = b.whole || err == io.EOF
	return n, err
}

func (b *keptBody) Close() error {
	if here := b.unhand(); here && b.whole && !b.last { // else the end of the context closes the connection, or has
		b.kept.give(b.link)
		return nil
	}
	return b.link.conn.Close()
}
