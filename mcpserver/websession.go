package mcpserver

import (
	"context"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// sessionIdle is how long a session over HTTP may be silent before it goes.
	sessionIdle = 30 * time.Minute
	// maxWebSessions bounds the sessions of one endpoint; the one that was silent longest gives way.
	maxWebSessions = 256
	// maxKeptStreams bounds the streams of one session that have ended and can be asked for again.
	maxKeptStreams = 16
)

// webSession is a client over HTTP in the eras with sessions, from its initialize on until it ends it, or is silent for
// long. Its calls go on when the connection that brought them breaks, and what they say can be asked for again.
type webSession struct {
	id       string
	endpoint *Endpoint
	conn     *conn
	common   *stream // of messages that belong to no request, on GET

	mu      sync.Mutex
	last    int
	streams map[string]*stream // of requests, by id
	ended   []string           // of streams that have ended, the oldest first
	busy    int                // requests over HTTP that are open, streams among them
	quiet   time.Time          // since when it is not busy
	timer   *time.Timer
	over    bool
}

var _ output = (*webSession)(nil)

func (e *Endpoint) newSession() *webSession {
	s := &webSession{id: rand.Text(), endpoint: e, streams: map[string]*stream{}, busy: 1}
	s.common = newStream("0", false)
	s.common.awaited, s.common.total = false, &e.kept
	s.conn = e.server.newConn(e.ctx, s)
	s.timer = time.AfterFunc(sessionIdle, func() {
		s.mu.Lock()
		idle := s.busy == 0 && time.Since(s.quiet) >= sessionIdle
		s.mu.Unlock()
		if idle {
			e.drop(s, errSessionIdle)
		}
	})
	return s
}

// send puts a message on the stream of the request that it belongs to, and on the common one when that is over, or is read
// by nobody while the common one is.
func (s *webSession) send(ctx context.Context, line []byte) error {
	if x := streamOf(ctx); x != nil && (x.attended() || !s.common.attended()) && x.put(line) {
		return nil
	}
	if !s.common.put(line) {
		return errOutput
	}
	return nil
}

// enter and leave enclose a request over HTTP.
func (s *webSession) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.busy++
	return true
}

func (s *webSession) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy == 0 {
		s.quiet = time.Now()
		if !s.over {
			s.timer.Reset(sessionIdle)
		}
	}
}

// idleSince tells since when the session is silent; false while it is not.
func (s *webSession) idleSince() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quiet, s.busy == 0
}

// open makes the stream of a request.
func (s *webSession) open() *stream {
	primed := s.conn.session.ProtocolVersion() >= titledEnums // older clients take an event without a message for a broken one
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	x := newStream(strconv.Itoa(s.last), primed)
	if !s.over {
		x.total = &s.endpoint.kept
	}
	s.streams[x.id] = x
	return x
}

// keep holds a stream whose first connection is over for a client that lost something of it, and for as long as there is
// room the others that are held.
func (s *webSession) keep(x *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, x.id)
	for len(s.ended) > maxKeptStreams || len(s.ended) > 0 && s.endpoint.kept.Load() > maxKeptOfAll {
		if old := s.streams[s.ended[0]]; old != nil {
			old.release()
		}
		delete(s.streams, s.ended[0])
		s.ended = s.ended[1:]
	}
}

// forget ends a stream that nobody can ask for: no event of it was carried.
func (s *webSession) forget(x *stream) {
	x.finish(answer{})
	x.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, x.id)
}

// after finds the stream of an event, and the number of that.
func (s *webSession) after(event string) (x *stream, number int, ok bool) {
	id, text, _ := strings.Cut(event, ".")
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return nil, 0, false
	}
	if x = s.common; id != x.id {
		s.mu.Lock()
		x = s.streams[id]
		s.mu.Unlock()
	}
	return x, number, x != nil && x.holds(number)
}

// answer serves a request of a session.
func (s *webSession) answer(w http.ResponseWriter, r *http.Request, m message) {
	k, v := s.conn.calls.begin(s.conn.ctx, idKey(m.id))
	switch v {
	case duplicate:
		write(w, http.StatusBadRequest, refusing(m.id, &rpcError{Code: mcp.INVALID_REQUEST, Message: "a request with this id is still in flight"}).line)
		return
	case cancelledEarly, closing:
		newEnded().carry(r.Context(), w, -1)
		return
	}
	x, tell := s.open(), accepts(r, "text/event-stream")
	if tell {
		k.ctx = withStream(k.ctx, x)
	}
	go s.run(k, m, x)
	patience := streamAfter
	if !tell {
		patience = longestWait + callGrace // all that it can take is the answer
	} else if !accepts(r, "application/json") {
		patience = 0
	}
	a := x.alone(r.Context(), patience)
	if r.Context().Err() != nil { // it has no event that it could ask for what follows
		s.forget(x)
		return
	}
	if a.line != nil && patience > 0 {
		s.forget(x)
		if a.code != 0 && m.method == string(mcp.MethodInitialize) {
			w.Header().Del(mcp.HeaderSessionID)
			defer s.endpoint.drop(s, errSessionEnded)
		}
		write(w, http.StatusOK, a.line)
		return
	}
	defer s.keep(x)
	x.carry(r.Context(), w, -1)
}

// newEnded is the stream of a request that is not answered.
func newEnded() *stream {
	x := newStream("", false)
	x.finish(answer{})
	return x
}

// run answers a request on a stream. The call goes on when nobody reads.
func (s *webSession) run(k *call, m message, x *stream) {
	defer s.conn.calls.done()
	defer k.end(nil)
	a := s.conn.handle(k.ctx, m)
	if !s.conn.calls.answer(k) {
		a = answer{}
	}
	x.finish(a)
}

// close ends the session and everything that waits in it, never the work that was begun.
func (s *webSession) close(cause error) {
	s.mu.Lock()
	s.over = true
	s.timer.Stop()
	open := make([]*stream, 0, len(s.streams))
	for _, x := range s.streams {
		open = append(open, x)
	}
	s.mu.Unlock()
	s.conn.leave(cause)
	s.conn.within(callGrace)
	for _, x := range append(open, s.common) {
		x.finish(answer{})
		x.release()
	}
}

// listen is GET: the common stream, or one that broke, from an event on.
func (s *webSession) listen(w http.ResponseWriter, r *http.Request) {
	event := r.Header.Get("Last-Event-ID")
	if event == "" {
		s.common.carry(r.Context(), w, -1)
		return
	}
	x, number, ok := s.after(event)
	if !ok {
		http.Error(w, "what follows event "+strconv.Quote(event)+" is not kept; ask without Last-Event-ID", http.StatusBadRequest)
		return
	}
	x.carry(r.Context(), w, number)
}
