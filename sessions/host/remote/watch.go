package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

// watch is a connection over which a host tells a front end of changes, see Changes. Nobody waits for them: who wants to
// answer from memory looks first.
type watch struct {
	c      *Client
	id     string
	conn   net.Conn
	raw    syscall.RawConn
	socket local.Version // of the path when it was connected to: the next host has another one before it answers anybody
	token  string

	mu    sync.Mutex
	news  uint64 // how often something was found
	ended bool
}

// watchKey is the id of the watch of a call, in its context.
type watchKey struct{}

// look returns how often news have come, false when nothing more can be said.
func (w *watch) look() (news uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return 0, false
	}
	token, err := w.c.secret()
	if err != nil || token != w.token || local.VersionOf(w.c.o.Socket) != w.socket || !w.drain() {
		w.ended = true
		w.conn.Close()
		return 0, false
	}
	return w.news, true
}

// drain takes what the host has written, without waiting; false at the end of the connection.
func (w *watch) drain() (open bool) {
	var b [64]byte
	err := w.raw.Read(func(fd uintptr) bool {
		for {
			n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT)
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				open = true
				return true
			case err != nil || n <= 0:
				return true
			default:
				w.news++
			}
		}
	})
	return err == nil && open
}

// still tells whether nothing has come since then.
func (w *watch) still(since uint64) bool {
	news, ok := w.look()
	return ok && news == since
}

// watching returns the watch over the host, opened when there is none, and its news. Where none can be had it is not tried
// again until another host listens: nil, and nothing is remembered.
func (c *Client) watching(ctx context.Context) (*watch, uint64) {
	c.seeing.Lock()
	defer c.seeing.Unlock()
	if c.watch != nil {
		if news, ok := c.watch.look(); ok {
			return c.watch, news
		}
		c.watch = nil
	}
	socket := local.VersionOf(c.o.Socket)
	if c.opening || socket == (local.Version{}) || socket == c.mute {
		return nil, 0
	}
	c.opening = true
	c.seeing.Unlock() // a host that does not answer holds up this call alone
	w, err := c.openWatch(ctx, socket)
	c.seeing.Lock()
	c.opening = false
	if err != nil {
		if errors.Is(err, errMute) {
			c.mute = socket
			c.log.Debug().Err(err).Msg("the host's changes cannot be watched; it is asked every time")
		}
		return nil, 0
	}
	c.watch = w
	return w, 0
}

// secret is the token that calls carry, "" where none is.
func (c *Client) secret() (string, error) {
	if c.o.TokenFile == "" {
		return "", nil
	}
	return c.token.Read()
}

// errMute is the answer of a host that tells nobody of changes.
var errMute = errors.New("this host tells nobody of changes")

func (c *Client) openWatch(ctx context.Context, socket local.Version) (_ *watch, err error) {
	token, err := c.secret()
	if err != nil {
		return nil, err
	}
	conn, err := local.Dial(ctx, c.o.Socket)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	unhand := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		if !unhand() && err == nil {
			err = ended(ctx)
		}
	}()
	w := &watch{c: c, id: sessions.NewID(), conn: conn, socket: socket, token: token}
	r, err := http.NewRequest(http.MethodGet, "http://baton"+prefix+verbWatch, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(protocolHeader, strconv.Itoa(Protocol))
	r.Header.Set(passiveHeader, "1") // it does not keep a host that has nothing to do
	r.Header.Set(watchHeader, w.id)
	r.Header.Set("Authorization", "Bearer "+token)
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols || in.Buffered() > 0 {
		return nil, fmt.Errorf("%w: status %d", errMute, answer.StatusCode)
	}
	if w.raw, err = conn.SyscallConn(); err != nil {
		return nil, err
	}
	if local.VersionOf(c.o.Socket) != socket {
		return nil, fmt.Errorf("%w: another host has taken its place", ErrNoHost)
	}
	return w, nil
}

// watch takes a front end's connection over, to tell it of changes.
func (h *handler) watch(w http.ResponseWriter, r *http.Request) {
	refuse := func(err error) { h.guarded(func(*http.Request) (any, error) { return nil, err })(w, r) }
	if err := h.admit(r); err != nil {
		refuse(err)
		return
	}
	id := r.Header.Get(watchHeader)
	if err := sessions.CheckUUID("watch", id); err != nil {
		refuse(err)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(err)
		return
	}
	head := new(bytes.Buffer)
	fmt.Fprintf(head, "HTTP/1.1 %d %s\r\nConnection: Upgrade\r\nUpgrade: baton-changes\r\n\r\n", http.StatusSwitchingProtocols, http.StatusText(http.StatusSwitchingProtocols))
	h.o.Changes.watch(id, conn, head.Bytes())
}
