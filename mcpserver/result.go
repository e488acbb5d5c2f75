package mcpserver

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/batonmcp/baton/sessions"
	"github.com/mark3labs/mcp-go/mcp"
)

// success is a result with its text twin.
func success(result any, text string) *mcp.CallToolResult {
	v := reflect.New(reflect.TypeOf(result)).Elem()
	v.Set(reflect.ValueOf(result))
	fill(v)
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return failure(sessions.Errorf(sessions.CodeInternal, "the result cannot be encoded: %w", err))
	}
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewTextContent(text)}, StructuredContent: json.RawMessage(raw)}
}

// failure is an error of the table. It is a result and not a protocol error: mcp-go turns those into -32603, and hosts
// do not show them to the assistant.
func failure(err error) *mcp.CallToolResult {
	e := sessions.AsError(err)
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

// fill makes the lists of a result that are always there empty instead of null, as their schema says.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct || v.IsNil() {
			return
		}
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)) // the host may share what it returned
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			always := !strings.Contains(f.Tag.Get("json"), "omit")
			if e := v.Field(i); always && e.Kind() == reflect.Slice && e.IsNil() && e.Type().Elem().Kind() != reflect.Uint8 {
				e.Set(reflect.MakeSlice(e.Type(), 0, 0))
			} else {
				fill(e)
			}
		}
	}
}
