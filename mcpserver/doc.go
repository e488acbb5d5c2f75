// Package mcpserver is the MCP skin of Baton: it decodes a tool call, makes one sessions.API call and encodes the
// result. It holds no truth and no state beyond the open connection, so that it may die at any moment.
//
// It promises, for every client on stdio:
//   - every request with an id is answered exactly once under exactly that id, or was cancelled by the client;
//   - no request waits for another one, whatever the other one does;
//   - everything that belongs to a request (progress) is written before its answer, and nothing is dropped;
//   - standard output carries one JSON-RPC message per line and nothing else;
//   - the end of the connection ends waits, never the work that was started.
//
// Over HTTP the same holds for each request, save that a stream which nobody reads keeps its newest messages alone, and that
// since 2026-07-28 the end of its connection cancels a request. Before, a request goes on when its connection breaks, and
// what it says can be asked for by Last-Event-ID while its session lives in this process.
//
// It does not promise that requests start in the order in which they were written: a client that sends one without
// waiting for the answer of the one before orders them by command ids and queues, not by position.
//
// github.com/mark3labs/mcp-go does the protocol: versions, capabilities, lists. The transports are Baton's own, because
// those of mcp-go (v1.2.1) answer ids above 2^53 wrongly, run two requests under one id, answer cancelled ones, forget a
// cancel that overtakes its request, and let progress arrive after the answer; the one for HTTP loses it besides, and its
// sessions follow no resources.
package mcpserver
