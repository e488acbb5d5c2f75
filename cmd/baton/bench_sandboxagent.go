package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// sandboxAgent is a server in front of agents over HTTP: a message each request, news as server-sent events (0.4.2).
// It keeps nothing: a receipt is the agent's answer.
type sandboxAgent struct {
	cmd     *exec.Cmd
	url     string
	session string
	n       int
}

func openSandboxAgent(ctx context.Context, h *benchHome, program string) (_ rival, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Its agent "mock" is whatever lies here.
	agent := filepath.Join(h.dir, "home/.local/share/sandbox-agent/bin/agent_processes/mock-acp")
	if err := os.MkdirAll(filepath.Dir(agent), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(agent, []byte("#!/bin/sh\nexec '"+self+"' "+agentCommand+" acp\n"), 0o700); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free now
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	a := &sandboxAgent{url: fmt.Sprintf("http://127.0.0.1:%d/v1/acp/bench", port),
		cmd: exec.Command(program, "server", "--no-token", "--no-telemetry", "--port", fmt.Sprint(port))}
	a.cmd.Env = h.env
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	for end := time.Now().Add(20 * time.Second); ; {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := a.call(ctx, "?agent=mock", "initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}); err != nil {
		return nil, err
	}
	res, err := a.call(ctx, "", "session/new", map[string]any{"cwd": h.work(), "mcpServers": []any{}})
	if err != nil {
		return nil, err
	}
	var s struct {
		ID string `json:"sessionId"`
	}
	if err := json.Unmarshal(res, &s); err != nil || s.ID == "" {
		return nil, fmt.Errorf("session/new was answered with %.200s", res)
	}
	a.session = s.ID
	return a, nil
}

func (a *sandboxAgent) call(ctx context.Context, query, method string, params any) (json.RawMessage, error) {
	a.n++
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": a.n, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+query, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(raw, &m); err != nil || m.Result == nil {
		return nil, fmt.Errorf("%s was answered with %.300s", method, raw)
	}
	return m.Result, nil
}

func (a *sandboxAgent) send(ctx context.Context, text string) error {
	_, err := a.call(ctx, "", "session/prompt", map[string]any{"sessionId": a.session, "prompt": []any{map[string]any{"type": "text", "text": text}}})
	return err
}

func (a *sandboxAgent) prompt(ctx context.Context) error { return a.send(ctx, benchPrompt) }

// burst reads along, and until nothing came for a while after the answer: what it lost it does not tell.
func (a *sandboxAgent) burst(ctx context.Context, updates int) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	seen, came, done := benchSeen{}, make(chan int), make(chan struct{})
	go func() { // ends with the body
		defer close(done)
		lines := bufio.NewReaderSize(resp.Body, 64<<10)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			before := len(seen)
			seen.line(line)
			if len(seen) > before {
				select {
				case came <- len(seen):
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	sent := make(chan error, 1)
	go func() { sent <- a.send(ctx, fmt.Sprintf("[burst %d %d]", updates, benchSize)) }()
	quiet := time.NewTimer(time.Minute)
	defer quiet.Stop()
	answered := false
	for n := 0; n < updates; {
		select {
		case n = <-came:
			if answered {
				quiet.Reset(2 * time.Second)
			}
		case err := <-sent:
			if err != nil {
				return 0, err
			}
			answered = true
			quiet.Reset(2 * time.Second)
		case <-quiet.C: // the rest does not come
			n = updates
		}
	}
	if !answered {
		if err := <-sent; err != nil {
			return 0, err
		}
	}
	cancel()
	<-done
	return len(seen), nil
}

func (a *sandboxAgent) memory() (float64, error) { return benchMemory(a.cmd.Process.Pid) }

func (a *sandboxAgent) close() error {
	http.DefaultClient.CloseIdleConnections()
	err := a.cmd.Process.Signal(syscall.SIGTERM)
	if e := a.cmd.Wait(); e != nil && !strings.Contains(e.Error(), "signal: terminated") {
		err = errors.Join(err, e)
	}
	return err
}
