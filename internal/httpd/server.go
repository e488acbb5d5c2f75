package httpd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/sessions"
)

// Limits of one request.
const (
	maxBody      = 16 << 20         // bytes
	maxHeader    = 64 << 10         // bytes
	readPatience = 20 * time.Second // for the headers, and again for the body
	maxRequests  = 2048             // at a time, streams included
	maxOfToken   = maxRequests / 4  // of them, those of one token: it takes no room from the others
)

// Path is where the MCP endpoint is.
const Path = "/mcp"

// Options of a Server.
type Options struct {
	// Address is host:port. Beyond loopback it needs Beyond and TLS.
	Address string
	Beyond  bool
	// Names are further host names under which clients reach it, each with its port where that is not the address's.
	Names []string
	// CertFile and KeyFile are for TLS; both or none.
	CertFile, KeyFile string
	Tokens            Tokens
	API               sessions.API
	// Serve makes the MCP endpoint of one token. One that is an io.Closer is closed when its token is revoked, and at the end.
	Serve func(sessions.API, Token) http.Handler
	Log   zerolog.Logger
}

// Server is the HTTP front end.
type Server struct {
	o                   Options
	listener            net.Listener
	hosts               []string
	room                chan struct{}
	share               int // of the room, for one token
	bodies              *bodies
	patience            time.Duration
	recheck, unreadable time.Duration // revokeEvery and unreadableFor

	mu        sync.Mutex
	endpoints map[string]http.Handler // by token id
	open      map[string]int          // requests, by token id
	known     time.Time               // when the tokens could be read last
}

// Listen checks the options and takes the address.
func Listen(o Options) (*Server, error) {
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "%q is no address: %w", o.Address, err).Do("use 127.0.0.1:PORT")
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "one of certificate and key was given").Do("give both")
	}
	if !loopback && (!o.Beyond || o.CertFile == "") {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "%s can be reached from other machines", o.Address).
			Do("use 127.0.0.1:PORT; or ask for it a second time with --http-beyond-loopback, with --http-cert and --http-key")
	}
	s := &Server{o: o, room: make(chan struct{}, maxRequests), share: maxOfToken, bodies: newBodies(maxBodies, maxBodiesOfToken),
		patience: readPatience, recheck: revokeEvery, unreadable: unreadableFor, endpoints: map[string]http.Handler{}, open: map[string]int{}}
	if s.listener, err = net.Listen("tcp", o.Address); err != nil {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "cannot listen on %s: %w", o.Address, err).Do("use another port")
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			s.listener.Close()
			return nil, sessions.Errorf(sessions.CodeInvalidParams, "the certificate cannot be used: %w", err).Do("name a certificate and its key as PEM files")
		}
		s.listener = tls.NewListener(s.listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	}
	if _, p, err := net.SplitHostPort(s.listener.Addr().String()); err == nil {
		port = p // of port 0
	}
	names := append([]string{host}, o.Names...)
	if loopback {
		names = append(names, "localhost", "127.0.0.1", "::1")
	}
	for _, n := range names {
		if _, _, err := net.SplitHostPort(n); err == nil {
			s.hosts = append(s.hosts, strings.ToLower(n))
			continue
		}
		s.hosts = append(s.hosts, strings.ToLower(net.JoinHostPort(n, port)))
	}
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until the context ends. Sessions and their work go on.
func (s *Server) Run(ctx context.Context) error {
	h := &http.Server{Handler: s, ReadHeaderTimeout: s.patience, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader, BaseContext: func(net.Listener) context.Context { return ctx }}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if h.Shutdown(late) != nil {
			h.Close()
		}
	})
	err := h.Serve(s.listener)
	if !stop() {
		<-stopped
	}
	s.closeBut(nil)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// ServeHTTP lets a request through to the endpoint of its token, or refuses it before anything of it is parsed.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, why string) {
		s.o.Log.Debug().Int("status", status).Str("why", why).Str("from", r.RemoteAddr).Msg("request refused")
		w.Header().Set("Connection", "close") // what may follow of the body is not read
		if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, why, status)
	}
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		refuse(http.StatusServiceUnavailable, "too many requests are open")
		return
	}
	if !slices.Contains(s.hosts, hostOf(r)) {
		refuse(http.StatusForbidden, "this server has another name")
		return
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 && !s.own(origins) {
		refuse(http.StatusForbidden, "pages of other origins may not call this server")
		return
	}
	if r.URL.Path != Path {
		refuse(http.StatusNotFound, "the endpoint is "+Path)
		return
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	all, err := s.tokens()
	if err != nil {
		refuse(http.StatusServiceUnavailable, "the tokens cannot be read at the moment")
		return
	}
	token, ok := find(all, strings.TrimSpace(secret))
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		s.closeBut(all)
		w.Header().Set("WWW-Authenticate", `Bearer realm="baton"`)
		refuse(http.StatusUnauthorized, "a valid bearer token is needed: baton token new")
		return
	}
	if !s.enter(token.ID) {
		refuse(http.StatusTooManyRequests, "too many requests of this token are open")
		return
	}
	defer s.leave(token.ID)
	if r.ContentLength > maxBody {
		refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBody))
		return
	}
	if r.Method == http.MethodPost {
		body, room, status, err := s.read(w, r, token.ID)
		defer s.bodies.giveBack(token.ID, room)
		if err != nil {
			refuse(status, err.Error())
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	ctx, end := context.WithCancel(r.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.whileValid(ctx, end, strings.TrimSpace(secret))
	}()
	defer func() {
		end()
		<-watched
	}()
	s.endpoint(token).ServeHTTP(w, r.WithContext(ctx))
}

// enter and leave enclose a request of a token; false when it has too many.
func (s *Server) enter(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[token] >= s.share {
		return false
	}
	s.open[token]++
	return true
}

func (s *Server) leave(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[token]--; s.open[token] == 0 {
		delete(s.open, token)
	}
}

// hostOf is the Host header, with the port that its scheme implies.
func hostOf(r *http.Request) string {
	host := strings.ToLower(r.Host)
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "80"
	if r.TLS != nil {
		port = "443"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// own tells whether a page comes from this server itself.
func (s *Server) own(origins []string) bool {
	scheme := "http://"
	if s.o.CertFile != "" {
		scheme = "https://"
	}
	return len(origins) == 1 && slices.ContainsFunc(s.hosts, func(h string) bool { return strings.EqualFold(origins[0], scheme+h) })
}

// endpoint is the MCP server of a token. No session of one is known to another.
func (s *Server) endpoint(t Token) http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.endpoints[t.ID]
	if h == nil {
		api := s.o.API
		if !t.Everywhere() {
			api = fence{api, t}
		}
		h = s.o.Serve(api, t)
		s.endpoints[t.ID] = h
	}
	return h
}

// closeBut closes the endpoints of all other tokens.
func (s *Server) closeBut(tokens []Token) {
	s.mu.Lock()
	var gone []http.Handler
	for id, h := range s.endpoints {
		if !slices.ContainsFunc(tokens, func(t Token) bool { return t.ID == id }) {
			gone = append(gone, h)
			delete(s.endpoints, id)
		}
	}
	s.mu.Unlock()
	for _, h := range gone {
		if c, ok := h.(io.Closer); ok {
			c.Close()
		}
	}
}
