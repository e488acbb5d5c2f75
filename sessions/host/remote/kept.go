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
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// keptFor is how long a connection is kept for the next call: assistants make theirs within seconds of each other.
	keptFor = 10 * time.Second
	// maxKept is how many are kept.
	maxKept = 64
)

// kept makes calls like exchange, over connections that stay for the calls that follow soon: to make one, and to have the
// host look at who is at its other end, takes as long as all else of a short call. One that ended with its host is seen to
// have before a byte of a call is given to it, so that a call that breaks off was given to a host that lived, as it is with
// a connection of its own. It is safe for concurrent use.
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

// idle tells whether the host holds the connection still and has said nothing since its last answer.
func (l *link) idle() bool {
	s, ok := l.conn.(syscall.Conn)
	if !ok || l.in.Buffered() > 0 {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		for {
			if _, _, failed = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT); failed != unix.EINTR {
				return true
			}
		}
	})
	return err == nil && failed == unix.EAGAIN // the end of the connection is no error, and nothing to read
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
	for n := len(k.free) - 1; n >= 0 && time.Since(k.free[n].used) <= keptFor; n-- { // the sweep has those before
		l := k.free[n]
		k.free[n] = nil
		k.free = k.free[:n]
		if l.idle() {
			return l
		}
		l.conn.Close()
	}
	return nil
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
