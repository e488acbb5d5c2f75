package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// fixtureServer is the command of the test binary that serves MCP on stdio: what an agent is given to call.
const fixtureServer = "mcp-fixture"

// serveFixture has a tool that only reads, one that does not come to an end, one that changes something (a file), and two that
// ask the user.
func serveFixture() int {
	s := server.NewMCPServer("fixture", "1", server.WithElicitation())
	read, write := true, false
	s.AddTool(mcp.NewTool("look", mcp.WithDescription("looks"), mcp.WithToolAnnotation(mcp.ToolAnnotation{ReadOnlyHint: &read})),
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("seen by the fixture"), nil
		})
	s.AddTool(mcp.NewTool("mark", mcp.WithDescription("writes a file"), mcp.WithString("path", mcp.Required()), mcp.WithToolAnnotation(mcp.ToolAnnotation{ReadOnlyHint: &write})),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if err := os.WriteFile(r.GetString("path", ""), []byte("marked\n"), 0o600); err != nil {
				return nil, err
			}
			return mcp.NewToolResultText("marked"), nil
		})
	s.AddTool(mcp.NewTool("dwell", mcp.WithDescription("takes long"), mcp.WithToolAnnotation(mcp.ToolAnnotation{ReadOnlyHint: &read})),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
	ask := func(p mcp.ElicitationParams) server.ToolHandlerFunc {
		return func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			res, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: p})
			if err != nil {
				return nil, err
			}
			raw, err := json.Marshal(res)
			if err != nil {
				return nil, err
			}
			return mcp.NewToolResultText("told " + string(raw)), nil
		}
	}
	s.AddTool(mcp.NewTool("name", mcp.WithDescription("asks for a name"), mcp.WithToolAnnotation(mcp.ToolAnnotation{ReadOnlyHint: &read})),
		ask(mcp.ElicitationParams{Message: "Your name?", RequestedSchema: args{"type": "object", "properties": args{"name": args{"type": "string"}}, "required": []string{"name"}}}))
	s.AddTool(mcp.NewTool("visit", mcp.WithDescription("asks to open an address"), mcp.WithToolAnnotation(mcp.ToolAnnotation{ReadOnlyHint: &read})),
		ask(mcp.ElicitationParams{Mode: mcp.ElicitationModeURL, Message: "Open it", ElicitationID: "e1", URL: "https://example.com/grant"}))
	if err := server.ServeStdio(s); err != nil {
		return 1
	}
	return 0
}
