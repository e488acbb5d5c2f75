package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// streamAfter is how long an answer is waited for before the client gets a stream of events for it, whose connection may
// break without a loss.
const streamAfter = 2 * time.Second

// Causes of the end of what waits, as a call's context shows them.
var (
	errSessionEnded = errors.New("the client ended its session")
	errSessionIdle  = errors.New("the session was silent for long")
)

// Endpoint is a Server over streamable HTTP. Before 2026-07-28 a client has a session, with streams that can be taken up
// again; since then each request stands alone, and ends with its connection.
//
// Who may reach it is checked by whoever serves it, the Host and Origin headers and the size of bodies included. All of its
// clients speak for one principal. Close ends them.
type Endpoint struct {
	server *Server
	ctx    context.Context // of every session; ends with the endpoint
	end    context.CancelCauseFunc
	asked  dialogs      // of clients without sessions
	kept   atomic.Int64 // bytes that the streams of sessions keep

	mu       sync.Mutex
	sessions map[string]*webSession
}

var (
	_ http.Handler = (*Endpoint)(nil)
	_ io.Closer    = (*Endpoint)(nil)
)

// HTTP makes an endpoint.
func (s *Server) HTTP() *Endpoint {
	e := &Endpoint{server: s, sessions: map[string]*webSession{}}
	e.ctx, e.end = context.WithCancelCause(context.Background())
	return e
}

// Close ends every session and waits for what runs in them, never for the work that was begun. It always returns nil.
func (e *Endpoint) Close() error {
	e.end(errStopped)
	e.mu.Lock()
	all := e.sessions
	e.sessions = nil
	e.mu.Unlock()
	for _, s := range all {
		s.close(errStopped)
	}
	return nil
}

// ServeHTTP serves one request.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	modern := mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
	switch {
	case r.Method == http.MethodPost:
		e.post(w, r)
	case modern:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "since 2026-07-28 there are only requests by POST; news come by subscriptions/listen", http.StatusMethodNotAllowed)
	case r.Method == http.MethodGet:
		if !accepts(r, "text/event-stream") {
			http.Error(w, "GET is for a stream of events: accept text/event-stream", http.StatusNotAcceptable)
			return
		}
		if s := e.session(w, r); s != nil {
			defer s.leave()
			s.listen(w, r)
		}
	case r.Method == http.MethodDelete:
		if s := e.session(w, r); s != nil {
			s.leave()
			e.drop(s, errSessionEnded)
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "this endpoint knows GET, POST and DELETE", http.StatusMethodNotAllowed)
	}
}

// session finds the session of a request and enters it, or refuses the request.
func (e *Endpoint) session(w http.ResponseWriter, r *http.Request) *webSession {
	if v := r.Header.Get(mcp.HeaderProtocolVersion); v != "" && !mcp.IsValidProtocolVersion(v) {
		http.Error(w, "this server does not know protocol version "+v, http.StatusBadRequest)
		return nil
	}
	id := r.Header.Get(mcp.HeaderSessionID)
	if id == "" {
		http.Error(w, "the "+mcp.HeaderSessionID+" header is missing: initialize gives it", http.StatusBadRequest)
		return nil
	}
	e.mu.Lock()
	s := e.sessions[id]
	e.mu.Unlock()
	if s == nil || !s.enter() {
		http.Error(w, "there is no such session: initialize again", http.StatusNotFound)
		return nil
	}
	return s
}

// begin makes a session and enters it; nil when there is no room.
func (e *Endpoint) begin() *webSession {
	var oldest *webSession
	defer func() {
		if oldest != nil {
			oldest.close(errSessionIdle)
		}
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions == nil {
		return nil
	}
	if len(e.sessions) >= maxWebSessions {
		var since time.Time
		for _, s := range e.sessions {
			if t, idle := s.idleSince(); idle && (oldest == nil || t.Before(since)) {
				oldest, since = s, t
			}
		}
		if oldest == nil {
			return nil
		}
		delete(e.sessions, oldest.id)
	}
	s := e.newSession()
	e.sessions[s.id] = s
	return s
}

// drop ends a session.
func (e *Endpoint) drop(s *webSession, cause error) {
	e.mu.Lock()
	delete(e.sessions, s.id)
	e.mu.Unlock()
	s.close(cause)
}

func (e *Endpoint) post(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "a message is expected as application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the message broke off", http.StatusBadRequest)
		return
	}
	m, id, bad := parse(bytes.TrimSpace(body))
	if bad != nil {
		write(w, http.StatusBadRequest, refusing(id, bad).line)
		return
	}
	if version := m.version(); mcp.IsModernProtocol(version) || mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		e.alone(w, r, m, version)
		return
	}
	var s *webSession
	if m.kind == kindRequest && m.method == string(mcp.MethodInitialize) {
		if s = e.begin(); s == nil {
			http.Error(w, "there are too many sessions", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set(mcp.HeaderSessionID, s.id)
	} else if s = e.session(w, r); s == nil {
		return
	}
	defer s.leave()
	if m.kind != kindRequest {
		s.conn.hear(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.answer(w, r, m)
}

// accepts tells whether a client takes a kind of answer; one that does not say takes all.
func accepts(r *http.Request, kind string) bool {
	all := strings.Join(r.Header.Values("Accept"), ",")
	if all == "" {
		return true
	}
	main, _, _ := strings.Cut(kind, "/")
	return slices.ContainsFunc(strings.Split(all, ","), func(one string) bool {
		t, _, err := mime.ParseMediaType(one)
		return err == nil && (t == kind || t == "*/*" || t == main+"/*")
	})
}

func write(w http.ResponseWriter, status int, line []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(line)
}
