package mcpserver

import (
	"context"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// How long an MCP session over HTTP may be silent before its state goes, and how often an idle stream says that it lives.
const (
	httpIdle      = 30 * time.Minute
	httpHeartbeat = 20 * time.Second
)

// HTTP is the server as an endpoint of streamable HTTP, stateful and with streams that can be taken up again. Who may
// reach it is checked by whoever serves it, the Host and Origin headers included. Close ends its sessions.
//
// The transport is mcp-go's (v1.2.1). Unlike on stdio, progress may be lost or come late there, nothing tells of changed
// resources (Options.Quiet says so to clients), and clients of eras before 2026-07-28 are not asked what agents want to
// know.
func (s *Server) HTTP(path string) http.Handler {
	return server.NewStreamableHTTPServer(s.mcp, server.WithEndpointPath(path), server.WithStateful(true), server.WithEventStore(server.NewInMemoryEventStore()),
		server.WithSessionIdleTTL(httpIdle), server.WithHeartbeatInterval(httpHeartbeat), server.WithDisableLocalhostProtection(true))
}

// broadcaster is the client of a call whose transport is mcp-go's own.
type broadcaster struct{ mcp *server.MCPServer }

// Notify hands a notification to the transport.
func (b broadcaster) Notify(ctx context.Context, method string, params any) error {
	m, _ := params.(map[string]any)
	return b.mcp.SendNotificationToClient(ctx, method, m)
}
