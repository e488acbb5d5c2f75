package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/sessions"
)

// mortal is a client whose front end may be killed at any time: it makes a call again, with the same keys, until one has
// answered it.
type mortal struct {
	w   *world
	env []string
	// gate is waited for before a front end is started.
	gate func()

	mu   sync.Mutex
	c    *mcpclient.Client
	pid  int
	lost int // front ends that died
}

// maxLost bounds how often a front end may die: a plan kills twice at most.
const maxLost = 8

func (m *mortal) open() (*mcpclient.Client, error) {
	m.mu.Lock()
	c := m.c
	m.mu.Unlock()
	if c != nil {
		return c, nil
	}
	if m.gate != nil {
		m.gate()
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(m.w.path("front.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var cmd *exec.Cmd
	t := transport.NewStdioWithOptions(exe, nil, []string{"mcp"}, transport.WithCommandFunc(
		func(_ context.Context, command string, _ []string, args []string) (*exec.Cmd, error) {
			cmd = exec.Command(command, args...)
			cmd.Env, cmd.Stderr = m.env, log
			return cmd, nil
		}))
	c = mcpclient.NewClient(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Start(context.Background()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.c, m.pid = c, cmd.Process.Pid
	m.mu.Unlock()
	_, err = c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{ProtocolVersion: "2025-11-25",
		ClientInfo: mcp.Implementation{Name: "test", Version: "1"}}})
	return c, err
}

// close ends the front end.
func (m *mortal) close() {
	m.mu.Lock()
	c := m.c
	m.c, m.pid = nil, 0
	m.mu.Unlock()
	if c != nil {
		c.Close() // a front end that was killed does not close well
	}
}

func (m *mortal) frontPID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pid
}

// call makes a call until it is answered. A refusal is an answer; any other error is a fault of the suite or of Baton.
func (m *mortal) call(tool string, a args, into any) (*sessions.Error, error) {
	for {
		answer, err := m.once(tool, a)
		if err == nil {
			return decodeAnswer(answer, into)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("%s %v was not answered: %w", tool, a, err)
		}
		m.close()
		m.lost++
		if m.lost > maxLost {
			return nil, fmt.Errorf("%s: %d front ends died: %w", tool, m.lost, err)
		}
	}
}

func (m *mortal) once(tool string, a args) (*mcp.CallToolResult, error) {
	c, err := m.open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	return c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: a}})
}

func decodeAnswer(res *mcp.CallToolResult, into any) (*sessions.Error, error) {
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return nil, err
	}
	if res.IsError {
		var e struct{ Error *sessions.Error }
		if err := json.Unmarshal(raw, &e); err != nil || e.Error == nil || !e.Error.Code.Known() {
			return nil, fmt.Errorf("an error outside the contract: %s", raw)
		}
		return e.Error, nil
	}
	if into == nil {
		return nil, nil
	}
	return nil, json.Unmarshal(raw, into)
}
