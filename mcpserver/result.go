package mcpserver

import (
	"encoding/json"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
	"github.com/mark3labs/mcp-go/mcp"
)

// success is a result with its text twin.
func success(result any, text string) *mcp.CallToolResult {
	raw, err := Encode(result)
	if err != nil {
		return failure(err)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewTextContent(text)}, StructuredContent: json.RawMessage(raw)}
}

// Encode is a result, or a part of one, as the JSON object that the tools answer with: lists and maps that are always
// there are empty instead of null, as their schema says. Other front ends print the same.
func Encode(result any) ([]byte, error) {
	raw, err := own.Marshal(result)
	if err != nil {
		return nil, sessions.Errorf(sessions.CodeInternal, "the result cannot be encoded: %w", err)
	}
	return raw, nil
}

// encodeResult is what mcp-go makes of the result of a method, as JSON. The content that success has encoded is the
// larger part of an answer: it is put in as it is, and not read and copied two times more.
func encodeResult(v any) ([]byte, error) {
	r, ok := v.(*mcp.CallToolResult)
	if !ok {
		return json.Marshal(v)
	}
	content, ok := r.StructuredContent.(json.RawMessage)
	if !ok || len(content) == 0 || len(r.RawStructuredContent) > 0 {
		return r.MarshalJSON()
	}
	rest := *r
	rest.StructuredContent = nil
	head, err := rest.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(head)+len(content)+24)
	out = append(append(out, head[:len(head)-1]...), `,"structuredContent":`...) // behind "content", which is always there
	return append(append(out, content...), '}'), nil
}

// withElicitation adds to a result what became of the question to the user.
func withElicitation(r *mcp.CallToolResult, e *elicitation) *mcp.CallToolResult {
	whole, ok := r.StructuredContent.(json.RawMessage)
	if e == nil || !ok || r.IsError || len(whole) < 2 {
		return r
	}
	part, err := json.Marshal(e)
	if err != nil {
		return r
	}
	out := append(append(whole[:len(whole)-1:len(whole)-1], `,"elicitation":`...), part...)
	r.StructuredContent = append(out, '}')
	return r
}

// failure is an error of the table. It is a result and not a protocol error: mcp-go turns those into -32603, and hosts
// do not show them to the assistant.
func failure(err error) *mcp.CallToolResult {
	e := sessions.AsError(err).Whole()
	raw, merr := json.Marshal(map[string]any{"error": e})
	if merr != nil { // a detail that is no JSON
		raw, _ = json.Marshal(map[string]any{"error": sessions.Error{Code: e.Code, Message: e.Message, Action: e.Action}})
	}
	var t twin
	t.line("%s: %s", e.Code, clip(e.Message, twinLimit/2))
	if e.Action != "" {
		t.line("What to do: %s", e.Action)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewTextContent(t.String())}, StructuredContent: json.RawMessage(raw), IsError: true}
}
