package httpd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Limits of the bodies that are held at a time, in bytes.
const (
	maxBodies        = 256 << 20
	maxBodiesOfToken = maxBodies / 4 // of one token: it takes no room from the others
)

// bodies counts the memory of the bodies that requests hold, from their first byte to the end of the request.
type bodies struct {
	all, share int64 // limits

	mu   sync.Mutex
	held int64
	of   map[string]int64 // by token id
}

func newBodies(all, share int64) *bodies {
	return &bodies{all: all, share: share, of: map[string]int64{}}
}

// take takes room for n bytes more, or says with which status there is none.
func (b *bodies) take(token string, n int64) (status int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.of[token]+n > b.share:
		return http.StatusTooManyRequests, fmt.Errorf("the requests of this token hold %d bytes; no more than %d are taken at a time", b.of[token], b.share)
	case b.held+n > b.all:
		return http.StatusServiceUnavailable, errors.New("the requests that are open hold all the room that there is for bodies")
	}
	b.held += n
	b.of[token] += n
	return 0, nil
}

func (b *bodies) giveBack(token string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
	if b.of[token] -= n; b.of[token] == 0 {
		delete(b.of, token)
	}
}

// read takes the whole body within its time, its size and the room that there is: a client that sends slowly holds a
// connection and what it has sent, and nothing else. room is what was taken, also with an error.
func (s *Server) read(w http.ResponseWriter, r *http.Request, token string) (body []byte, room int64, status int, err error) {
	c := http.NewResponseController(w)
	if err := c.SetReadDeadline(time.Now().Add(s.patience)); err != nil {
		return nil, 0, http.StatusInternalServerError, err
	}
	in := http.MaxBytesReader(w, r.Body, maxBody)
	for err == nil {
		if len(body) == cap(body) {
			// What the client says of the length is believed once something of it has come.
			size := max(4<<10, min(2*int64(cap(body)), maxBody+1))
			if said := r.ContentLength + 1; len(body) > 0 && said > int64(len(body)) && said < size {
				size = said
			}
			if status, err := s.bodies.take(token, size-int64(cap(body))); err != nil {
				return nil, room, status, err
			}
			room += size - int64(cap(body))
			body = append(make([]byte, 0, size), body...)
		}
		var n int
		n, err = in.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
	}
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return nil, room, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody)
	}
	if !errors.Is(err, io.EOF) {
		return nil, room, http.StatusRequestTimeout, errors.New("the body did not come in time")
	}
	return body, room, 0, c.SetReadDeadline(time.Time{})
}
