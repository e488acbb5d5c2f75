package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/sessions"
)

// user answers questions as the user of a host would.
type user func(mcp.ElicitationParams) mcp.ElicitationResponse

// Elicit implements the client's side of elicitation/create.
func (u user) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: u(r.Params)}, nil
}

// openWith starts a front end for a host whose user answers.
func (w *world) openWith(u user) *front {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	stdio := transport.NewStdioWithOptions(exe, w.env, append([]string{"mcp"}, w.more...), transport.WithCommandFunc(
		func(_ context.Context, program string, env, args []string) (*exec.Cmd, error) {
			cmd := exec.Command(program, args...)
			cmd.Env = env
			return cmd, nil
		}))
	c := mcpclient.NewClient(stdio, mcpclient.WithElicitationHandler(u))
	return w.initialized(c)
}

// initialized starts a client and greets its server.
func (w *world) initialized(c *mcpclient.Client) *front {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Start(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if _, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{ProtocolVersion: "2025-11-25", ClientInfo: mcp.Implementation{Name: "test", Version: "1"}}}); err != nil {
		w.t.Fatal(err)
	}
	return &front{w.t, c}
}

// TestElicitation: the user of the host decides what a real session asks, and a user who closes the question decides
// nothing: the request is there as before.
func TestElicitation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reply := mcp.ElicitationResponse{}
	asked := 0
	f := w.openWith(func(p mcp.ElicitationParams) mcp.ElicitationResponse {
		asked++
		schema, err := json.Marshal(p.RequestedSchema)
		if err != nil || !strings.Contains(p.Message, "echo chosen") || !strings.Contains(string(schema), `"decision"`) {
			t.Errorf("%v: asked %q with %s", err, p.Message, schema)
		}
		return reply
	})
	defer f.close()
	s := w.create(f, "codexlike", nil)

	reply = mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionCancel}
	r := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[approve echo chosen > chosen.txt]", "command_id": "one", "wait_seconds": 50})
	if asked != 1 || len(r.Session.Requests) != 1 || exists(w.work+"/chosen.txt") {
		t.Fatalf("asked %d times: %+v", asked, r.Session)
	}
	if r := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[approve echo chosen > chosen.txt]", "command_id": "one", "wait_seconds": 50}); asked != 1 || len(r.Session.Requests) != 1 {
		t.Errorf("asked %d times: %+v", asked, r.Session)
	}
	call[sessions.RespondResult](f, "session_respond", args{"session_id": s.SessionID, "request_id": r.Session.Requests[0].RequestID, "decision": "deny"})
	call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{s.SessionID}})

	var allow string
	for _, o := range r.Session.Requests[0].Options {
		if o.Kind == sessions.OptionAllowOnce {
			allow = o.OptionID
		}
	}
	reply = mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"decision": allow}}
	r = call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[approve echo chosen > chosen.txt]", "command_id": "two", "wait_seconds": 50})
	if asked != 2 || r.Command.State != sessions.CommandCompleted || !exists(w.work+"/chosen.txt") {
		t.Errorf("asked %d times: %+v", asked, r.Command)
	}
}
