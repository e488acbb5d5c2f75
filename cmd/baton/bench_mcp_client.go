package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// benchMCP is an MCP server on pipes, and a client that does the least: any number of requests at once, and of an answer
// no more is decoded than whose it is.
type benchMCP struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader

	writing sync.Mutex
	mu      sync.Mutex
	n       int
	open    map[string]chan []byte
	err     error
	read    chan struct{} // closed when nothing more is read
}

// startBenchMCP starts a server; its answer to initialize is the first that is waited for.
func startBenchMCP(ctx context.Context, h *benchHome, argv ...string) (*benchMCP, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &benchMCP{cmd: exec.CommandContext(ctx, self, argv...), open: map[string]chan []byte{}, read: make(chan struct{})}
	c.cmd.Env, c.cmd.Dir = h.env, h.work()
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 64<<10)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.readAll()
	if _, err := c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, c.notify("notifications/initialized", "")
}

// readAll hands answers to who waits for them. Their id stands before their result.
func (c *benchMCP) readAll() {
	defer close(c.read)
	mark := []byte(`"id":"`)
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.err = fmt.Errorf("the server ended: %w", err)
			for id, reply := range c.open {
				close(reply)
				delete(c.open, id)
			}
			return
		}
		_, rest, ok := bytes.Cut(line[:min(len(line), 100)], mark)
		id, _, whole := bytes.Cut(rest, []byte(`"`))
		if !ok || !whole {
			continue // a notification
		}
		c.mu.Lock()
		reply := c.open[string(id)]
		delete(c.open, string(id))
		c.mu.Unlock()
		if reply != nil {
			reply <- line
		}
	}
}

func (c *benchMCP) write(line string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := io.WriteString(c.in, line)
	return err
}

// begin makes a request and returns its id and where its answer arrives.
func (c *benchMCP) begin(method, params string) (string, chan []byte, error) {
	reply := make(chan []byte, 1)
	c.mu.Lock()
	c.n++
	id := fmt.Sprintf("b%d", c.n)
	err := c.err
	if err == nil {
		c.open[id] = reply
	}
	c.mu.Unlock()
	if err != nil {
		return "", nil, err
	}
	return id, reply, c.write(`{"jsonrpc":"2.0","id":"` + id + `","method":"` + method + `","params":` + params + "}\n")
}

// request makes a request and waits for its whole answer, which must be no error.
func (c *benchMCP) request(method, params string) ([]byte, error) {
	_, reply, err := c.begin(method, params)
	if err != nil {
		return nil, err
	}
	line, ok := <-reply
	switch {
	case !ok:
		return nil, c.err
	case bytes.Contains(line, []byte(`"isError":true`)) || bytes.Contains(line[:min(len(line), 60)], []byte(`"error":`)):
		return nil, fmt.Errorf("%s %.100s: %.400s", method, params, line)
	}
	return line, nil
}

// call calls a tool and waits for its answer.
func (c *benchMCP) call(tool, arguments string) ([]byte, error) {
	return c.request("tools/call", benchCall(tool, arguments))
}

func benchCall(tool, arguments string) string {
	return `{"name":"` + tool + `","arguments":` + arguments + `}`
}

// result is call with the structured content decoded.
func (c *benchMCP) result(tool, arguments string, into any) error {
	line, err := c.call(tool, arguments)
	if err != nil {
		return err
	}
	var m struct {
		Result struct {
			Content json.RawMessage `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	return json.Unmarshal(m.Result.Content, into)
}

func (c *benchMCP) notify(method, params string) error {
	if params != "" {
		params = `,"params":` + params
	}
	return c.write(`{"jsonrpc":"2.0","method":"` + method + `"` + params + "}\n")
}

// close ends the server and waits for it.
func (c *benchMCP) close() error {
	c.in.Close()
	<-c.read
	return c.cmd.Wait()
}

// benchTool is the hidden server that `baton mcp` is compared with: mcp-go on stdio as it comes, with one tool that does
// nothing and gives a text of the size that it is asked for.
const benchTool = "mcp"

func runBenchTool() int {
	s := server.NewMCPServer("bare", version, server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("nothing", mcp.WithNumber("size")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", r.GetInt("size", 1))), nil
	})
	if err := server.ServeStdio(s); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "bare:", err)
		return exitError
	}
	return 0
}
