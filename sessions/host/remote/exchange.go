package remote

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
)

// exchange makes each call on a connection of its own, which it dials: what breaks is then always this call's own, and the
// end of the connection is what ends the call's context at the host. An http.Transport starts three goroutines for each
// connection, and a short call waits for all of them.
type exchange func(ctx context.Context) (net.Conn, error)

// RoundTrip sends the call and reads the head of its answer. The connection ends with the answer's body, or with the call's
// context. Nothing is ever sent twice.
func (dial exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	conn, err := dial(r.Context())
	if err != nil {
		return nil, err
	}
	unhand := context.AfterFunc(r.Context(), func() { conn.Close() })
	r.Close = true
	wrong := r.Write(conn)
	answer, err := http.ReadResponse(bufio.NewReader(conn), r) // a host that did not want the whole call has said why
	if err != nil {
		unhand()
		return nil, errors.Join(cmp.Or(wrong, err), conn.Close())
	}
	answer.Body = &onlyBody{answer.Body, conn, unhand}
	return answer, nil
}

// onlyBody is the body of a connection's only answer.
type onlyBody struct {
	io.ReadCloser
	conn   net.Conn
	unhand func() bool
}

func (b *onlyBody) Close() error {
	b.unhand()
	return b.conn.Close()
}
