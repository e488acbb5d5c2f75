package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// single is the output of a request that stands alone. What comes before the answer is not for a client that takes no
// stream.
type single struct {
	*stream
	mute bool
}

func (s single) send(_ context.Context, line []byte) error {
	if !s.mute && !s.put(line) {
		return errOutput
	}
	return nil
}

// alone serves a message since 2026-07-28. It ends with its connection.
func (e *Endpoint) alone(w http.ResponseWriter, r *http.Request, m message, version string) {
	if m.kind == kindResponse {
		write(w, http.StatusBadRequest, refusing(m.id, &rpcError{Code: mcp.INVALID_REQUEST, Message: "since 2026-07-28 servers send no requests that could be answered: repeat the call with inputResponses"}).line)
		return
	}
	if bad := e.mismatch(r.Header, m, version); bad != nil {
		write(w, http.StatusBadRequest, refusing(m.id, bad).line)
		return
	}
	if m.kind == kindNotification { // there is nothing that it could be about
		w.WriteHeader(http.StatusAccepted)
		return
	}
	mute := !accepts(r, "text/event-stream")
	if mute && m.method == string(mcp.MethodSubscriptionsListen) {
		http.Error(w, "news come as a stream of events: accept text/event-stream", http.StatusNotAcceptable)
		return
	}
	x := newStream("", false)
	c := e.server.newConn(r.Context(), single{x, mute})
	c.session.asked = &e.asked
	stop := context.AfterFunc(e.ctx, func() { c.end(errStopped) })
	defer stop()
	k, _ := c.calls.begin(c.ctx, idKey(m.id)) // the first of its connection
	go func() {
		defer c.calls.done()
		defer k.end(nil)
		x.finish(c.handle(k.ctx, m))
	}()
	defer func() {
		c.leave(context.Cause(r.Context()))
		<-c.calls.idle
	}()
	patience := streamAfter
	if mute {
		patience = longestWait + callGrace
	}
	if a := x.alone(r.Context(), patience); a.line != nil {
		write(w, statusOf(a.code), a.line)
		return
	}
	x.carry(r.Context(), w, -1)
}

// mismatch tells what headers and body of a message do not agree on (2026-07-28).
func (e *Endpoint) mismatch(h http.Header, m message, version string) *rpcError {
	differ := func(text string) *rpcError { return &rpcError{Code: mcp.HEADER_MISMATCH, Message: text} }
	given := h.Get(mcp.HeaderProtocolVersion)
	switch {
	case h.Get(mcp.HeaderLastEventID) != "":
		return differ("since 2026-07-28 streams cannot be taken up again: repeat the request under a new id")
	case given == "":
		return differ("the " + mcp.HeaderProtocolVersion + " header is missing")
	case version == "" && m.kind == kindNotification:
		version = given
	case version == "":
		return &rpcError{Code: mcp.INVALID_PARAMS, Message: "_meta lacks " + mcp.MetaKeyProtocolVersion}
	case given != version:
		return differ("the " + mcp.HeaderProtocolVersion + " header says " + given + ", and _meta " + version)
	}
	if !mcp.IsValidProtocolVersion(version) {
		supported, err := json.Marshal(map[string]any{"supported": server.SupportedProtocolVersionsFromContext(e.ctx), "requested": version})
		if err != nil {
			return differ(err.Error())
		}
		return &rpcError{Code: mcp.UNSUPPORTED_PROTOCOL_VERSION, Message: "this server does not know protocol version " + version, Data: supported}
	}
	err := mcp.ValidateStandardHeaders(h.Get, version, mcp.MCPMethod(m.method), m.params)
	if err == nil && m.method == string(mcp.MethodToolsCall) {
		var p struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(m.params, &p) == nil {
			if t := e.server.mcp.GetTool(p.Name); t != nil {
				err = mcp.ValidateParamHeadersLookup(func(name string) (string, bool) {
					v := h.Values(name)
					return strings.Join(v, ", "), len(v) > 0
				}, &t.Tool, m.params)
			}
		}
	}
	if err != nil {
		return differ(err.Error())
	}
	return nil
}

// version is the version of the protocol that a message says it belongs to, since 2026-07-28; "": it says nothing.
func (m *message) version() string {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var v string
	if m.params == nil || json.Unmarshal(m.params, &p) != nil || json.Unmarshal(p.Meta[mcp.MetaKeyProtocolVersion], &v) != nil {
		return ""
	}
	return v
}

// statusOf is the HTTP status of an error since 2026-07-28; before, an answer is an answer.
func statusOf(code int) int {
	switch code {
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, mcp.UNSUPPORTED_PROTOCOL_VERSION, mcp.INVALID_REQUEST, mcp.INVALID_PARAMS, mcp.PARSE_ERROR:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
