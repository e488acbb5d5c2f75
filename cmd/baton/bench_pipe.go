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
	"time"
)

// benchAgent is an agent on a bare pipe, and a client that does the least that its protocol asks for.
type benchAgent struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	raw io.Reader
	out *bufio.Reader
	n   int
}

// startBenchAgent starts a hidden process of this program, or any other that speaks in lines.
func startBenchAgent(ctx context.Context, h *benchHome, argv ...string) (*benchAgent, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &benchAgent{cmd: exec.CommandContext(ctx, self, argv...)}
	a.cmd.Env, a.cmd.Dir = h.env, h.work()
	return a, a.begin()
}

// begin starts the process on pipes of ours.
func (a *benchAgent) begin() (err error) {
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return err
	}
	if a.raw, err = a.cmd.StdoutPipe(); err != nil {
		return err
	}
	a.out = bufio.NewReaderSize(a.raw, 64<<10)
	return a.cmd.Start()
}

// end closes its input and waits for it to leave.
func (a *benchAgent) end() error {
	a.in.Close()
	io.Copy(io.Discard, a.raw)
	return a.cmd.Wait()
}

// benchPipe is the time from a prompt to the line that ends its turn, with nothing between the agent and a reader that
// does not even decode.
func benchPipe(ctx context.Context, h *benchHome, runner string, updates int) (took time.Duration, err error) {
	a, err := startBenchAgent(ctx, h, agentCommand, map[string]string{benchCodex: "app-server", benchCursor: "acp"}[runner])
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.end()) }()
	prompt := fmt.Sprintf("[burst %d %d]", updates, benchSize)
	if runner == benchCodex {
		return a.codex(h.work(), prompt)
	}
	return a.cursor(h.work(), prompt)
}

func (a *benchAgent) codex(cwd, prompt string) (time.Duration, error) {
	if _, err := a.call("initialize", map[string]any{"clientInfo": map[string]any{"name": "bench", "version": version}}); err != nil {
		return 0, err
	}
	if err := a.write(map[string]any{"method": "initialized"}); err != nil {
		return 0, err
	}
	res, err := a.call("thread/start", map[string]any{"cwd": cwd})
	if err != nil {
		return 0, err
	}
	var thread struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	if err := json.Unmarshal(res, &thread); err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := a.call("turn/start", map[string]any{"threadId": thread.Thread.ID, "input": []any{map[string]any{"type": "text", "text": prompt}}}); err != nil {
		return 0, err
	}
	_, err = a.until([]byte(`"method":"turn/completed"`))
	return time.Since(began), err
}

func (a *benchAgent) cursor(cwd, prompt string) (time.Duration, error) {
	session, err := a.converse(cwd)
	if err != nil {
		return 0, err
	}
	return a.prompt(session, prompt)
}

// converse begins a conversation with an agent that speaks ACP.
func (a *benchAgent) converse(cwd string) (session string, err error) {
	if _, err := a.call("initialize", map[string]any{"protocolVersion": 1}); err != nil {
		return "", err
	}
	if _, err := a.call("authenticate", map[string]any{"methodId": "cursor_login"}); err != nil {
		return "", err
	}
	res, err := a.call("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}})
	if err != nil {
		return "", err
	}
	var s struct {
		ID string `json:"sessionId"`
	}
	err = json.Unmarshal(res, &s)
	return s.ID, err
}

// prompt is the time of one turn of it.
func (a *benchAgent) prompt(session, text string) (time.Duration, error) {
	began := time.Now()
	_, err := a.call("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": text}}})
	return time.Since(began), err
}

// call makes a request and returns its result.
func (a *benchAgent) call(method string, params any) (json.RawMessage, error) {
	a.n++
	id := fmt.Sprintf("bench-%d", a.n)
	if err := a.write(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	line, err := a.until([]byte(`"id":"` + id + `"`))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	var m struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, fmt.Errorf("%s: %s", method, m.Error)
	}
	return m.Result, nil
}

func (a *benchAgent) write(m any) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = a.in.Write(append(b, '\n'))
	return err
}

// until reads to the line that holds a mark near its beginning or end.
func (a *benchAgent) until(mark []byte) ([]byte, error) {
	for {
		line, err := a.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if bytes.Contains(line[:min(len(line), 200)], mark) || bytes.Contains(line[max(0, len(line)-200):], mark) {
			return line, nil
		}
	}
}
