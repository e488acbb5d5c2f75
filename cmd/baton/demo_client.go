package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/sessions"
)

// demoCallLimit bounds one tool call; a tool answers within 50 s by contract.
const demoCallLimit = 55 * time.Second

// demoClient is one `baton mcp` process with an MCP client that knows nothing of Baton.
type demoClient struct {
	mcp    *mcpclient.Client
	cmd    *exec.Cmd
	speaks string // the protocol version
}

func openDemoClient(ctx context.Context, h *demoHome) (*demoClient, error) {
	c, err := startDemoClient(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("baton mcp cannot be started: %w", err)
	}
	if err := c.greet(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// greet makes the handshake; where it fails the process is ended.
func (c *demoClient) greet(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	hello, err := c.mcp.Initialize(limited, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ClientInfo: mcp.Implementation{Name: "baton-demo", Version: version}}})
	if err != nil {
		return errors.Join(fmt.Errorf("initialize: %w", err), c.close())
	}
	c.speaks = hello.ProtocolVersion
	return nil
}

func startDemoClient(ctx context.Context, h *demoHome) (*demoClient, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(h.dir, "mcp.log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(self, "mcp") // not by ctx: an interrupt must leave it alive for the tidying up
	cmd.Env, cmd.Dir, cmd.Stderr = h.environ(), h.dir, log
	return connectDemoClient(ctx, cmd)
}

// connectDemoClient starts a front end and an MCP client of it.
func connectDemoClient(ctx context.Context, cmd *exec.Cmd) (*demoClient, error) {
	c := &demoClient{cmd: cmd}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo alone
	stdio := transport.NewStdioWithOptions(cmd.Path, nil, nil, transport.WithCommandLogger(slog.New(slog.DiscardHandler)),
		transport.WithCommandFunc(func(context.Context, string, []string, []string) (*exec.Cmd, error) { return c.cmd, nil }))
	c.mcp = mcpclient.NewClient(stdio)
	return c, c.mcp.Start(context.WithoutCancel(ctx))
}

func (c *demoClient) pid() int { return c.cmd.Process.Pid }

// close ends the input and waits for the process.
func (c *demoClient) close() error { return c.mcp.Close() }

// demoCall calls a tool. A refusal is a *sessions.Error.
func demoCall[R any](ctx context.Context, c *demoClient, tool string, args any) (R, error) {
	var result R
	limited, cancel := context.WithTimeoutCause(ctx, demoCallLimit, fmt.Errorf("no answer within %s", demoCallLimit))
	defer cancel()
	answer, err := c.mcp.CallTool(limited, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}})
	if err != nil {
		if limited.Err() != nil {
			err = context.Cause(limited)
		}
		return result, fmt.Errorf("%s: %w", tool, err)
	}
	content, err := json.Marshal(answer.StructuredContent)
	if err != nil {
		return result, err
	}
	if answer.IsError {
		var refusal struct {
			Error *sessions.Error `json:"error"`
		}
		if err := json.Unmarshal(content, &refusal); err != nil || refusal.Error == nil {
			return result, fmt.Errorf("%s failed without an error of the table: %s", tool, content)
		}
		return result, fmt.Errorf("%s: %w", tool, refusal.Error)
	}
	if err := json.Unmarshal(content, &result); err != nil {
		return result, fmt.Errorf("%s answered what cannot be read: %w", tool, err)
	}
	return result, nil
}

// demoRefused calls a tool that must refuse with a code, and returns the refusal.
func demoRefused(ctx context.Context, c *demoClient, code sessions.Code, tool string, args any) (*sessions.Error, error) {
	_, err := demoCall[json.RawMessage](ctx, c, tool, args)
	switch {
	case err == nil:
		return nil, fmt.Errorf("%s was not refused", tool)
	case sessions.CodeOf(err) != code:
		return nil, fmt.Errorf("refused, but not with %s: %w", code, err)
	}
	return sessions.AsError(err), nil
}
