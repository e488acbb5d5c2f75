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
	raw, err := Encode(result)
	if err != nil {
		return failure(err)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewTextContent(text)}, StructuredContent: json.RawMessage(raw)}
}

// Encode is a result, or a part of one, as the JSON object that the tools answer with. Other front ends print the same.
func Encode(result any) ([]byte, error) {
	v := reflect.New(reflect.TypeOf(result)).Elem()
	v.Set(reflect.ValueOf(result))
	fill(v)
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, sessions.Errorf(sessions.CodeInternal, "the result cannot be encoded: %w", err)
	}
	return raw, nil
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

// fill makes the lists and maps of a result that are always there empty instead of null, as their schema says. It
// changes copies only: the host may share what it returned.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			fill(c.Elem())
			v.Set(c)
		}
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f, e := v.Type().Field(i), v.Field(i)
			always := !strings.Contains(f.Tag.Get("json"), "omit")
			switch {
			case !f.IsExported():
			case always && e.Kind() == reflect.Slice && e.IsNil() && e.Type() != reflect.TypeFor[json.RawMessage]():
				e.Set(reflect.MakeSlice(e.Type(), 0, 0))
			case always && e.Kind() == reflect.Map && e.IsNil():
				e.Set(reflect.MakeMap(e.Type()))
			default:
				fill(e)
			}
		}
	}
}
