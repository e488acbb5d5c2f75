package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/mark3labs/mcp-go/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("BATON_TEST_STDIO") != "" {
		serveAsProcess()
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	sid = "7d9f8a52-0b1e-4f6c-9a3d-2e5b7c8d9e0f"
	rid = "0d3c1b2a-5f4e-4d3c-8b2a-1f0e9d8c7b6a"
)

// fake is a scripted sessions.API. A method without a script answers with something plausible at once.
type fake struct {
	mu      sync.Mutex
	callers []sessions.Caller
	args    []any

	runners func(context.Context, sessions.RunnerListArgs) (sessions.RunnerListResult, error)
	create  func(context.Context, sessions.CreateArgs) (sessions.CreateResult, error)
	send    func(context.Context, sessions.SendArgs) (sessions.SendResult, error)
	wait    func(context.Context, sessions.WaitArgs) (sessions.WaitResult, error)
	read    func(context.Context, sessions.ReadArgs) (sessions.ReadResult, error)
	respond func(context.Context, sessions.RespondArgs) (sessions.RespondResult, error)
	cancel  func(context.Context, sessions.CancelArgs) (sessions.CancelResult, error)
	close   func(context.Context, sessions.CloseArgs) (sessions.CloseResult, error)
	resume  func(context.Context, sessions.ResumeArgs) (sessions.ResumeResult, error)
	list    func(context.Context, sessions.ListArgs) (sessions.ListResult, error)
	changed func(context.Context, sessions.ChangedArgs) (sessions.ChangedResult, error)
}

var _ sessions.API = (*fake)(nil)

// play records a call and runs its script, or returns what it does without one.
func play[A, R any](f *fake, ctx context.Context, who sessions.Caller, a A, script func(context.Context, A) (R, error), plain R) (R, error) {
	f.mu.Lock()
	f.callers, f.args = append(f.callers, who), append(f.args, a)
	f.mu.Unlock()
	if script != nil {
		return script(ctx, a)
	}
	return plain, nil
}

func (f *fake) calls() []any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]any(nil), f.args...)
}

func someSession(id string, state sessions.SessionState) sessions.Session {
	return sessions.Session{SessionID: id, Runner: "codex", Cwd: "/work/app", State: state, NodeID: "local", Origin: "baton",
		CreatedAt: time.Unix(1000, 0).UTC(), UpdatedAt: time.Unix(2000, 0).UTC()}
}

func (f *fake) RunnerList(ctx context.Context, who sessions.Caller, a sessions.RunnerListArgs) (sessions.RunnerListResult, error) {
	return play(f, ctx, who, a, f.runners, sessions.RunnerListResult{Runners: []sessions.Runner{{Name: "codex", Protocol: "app-server",
		Installed: true, Version: "0.171.0", Login: "yes", Models: []sessions.Model{{ID: "gpt-5.5"}}}}})
}

func (f *fake) Create(ctx context.Context, who sessions.Caller, a sessions.CreateArgs) (sessions.CreateResult, error) {
	return play(f, ctx, who, a, f.create, sessions.CreateResult{Session: someSession(sid, sessions.SessionIdle)})
}

func (f *fake) Send(ctx context.Context, who sessions.Caller, a sessions.SendArgs) (sessions.SendResult, error) {
	return play(f, ctx, who, a, f.send, sessions.SendResult{Command: sessions.Command{CommandID: a.CommandID, State: sessions.CommandSubmitted},
		Session: someSession(a.SessionID, sessions.SessionRunning)})
}

func (f *fake) Wait(ctx context.Context, who sessions.Caller, a sessions.WaitArgs) (sessions.WaitResult, error) {
	return play(f, ctx, who, a, f.wait, sessions.WaitResult{TimedOut: true})
}

func (f *fake) Read(ctx context.Context, who sessions.Caller, a sessions.ReadArgs) (sessions.ReadResult, error) {
	return play(f, ctx, who, a, f.read, sessions.ReadResult{Cursor: "c1"})
}

func (f *fake) Respond(ctx context.Context, who sessions.Caller, a sessions.RespondArgs) (sessions.RespondResult, error) {
	return play(f, ctx, who, a, f.respond, sessions.RespondResult{Request: sessions.Request{RequestID: a.RequestID, State: sessions.RequestAnswering},
		Session: someSession(a.SessionID, sessions.SessionRunning)})
}

func (f *fake) Cancel(ctx context.Context, who sessions.Caller, a sessions.CancelArgs) (sessions.CancelResult, error) {
	s := someSession(a.SessionID, sessions.SessionIdle)
	return play(f, ctx, who, a, f.cancel, sessions.CancelResult{Session: &s})
}

func (f *fake) Close(ctx context.Context, who sessions.Caller, a sessions.CloseArgs) (sessions.CloseResult, error) {
	return play(f, ctx, who, a, f.close, sessions.CloseResult{Session: someSession(a.SessionID, sessions.SessionClosed), Stopped: "confirmed", Proof: "pid_namespace"})
}

func (f *fake) Resume(ctx context.Context, who sessions.Caller, a sessions.ResumeArgs) (sessions.ResumeResult, error) {
	return play(f, ctx, who, a, f.resume, sessions.ResumeResult{Session: someSession(a.SessionID, sessions.SessionIdle)})
}

func (f *fake) List(ctx context.Context, who sessions.Caller, a sessions.ListArgs) (sessions.ListResult, error) {
	return play(f, ctx, who, a, f.list, sessions.ListResult{})
}

func (f *fake) Changed(ctx context.Context, who sessions.Caller, a sessions.ChangedArgs) (sessions.ChangedResult, error) {
	return play(f, ctx, who, a, f.changed, sessions.ChangedResult{Mark: "m1"})
}

// waitTheirTime makes waits last as long as they were asked to.
func waitTheirTime(ctx context.Context, a sessions.WaitArgs) (sessions.WaitResult, error) {
	select {
	case <-time.After(time.Duration(*a.WaitSeconds) * time.Second):
		return sessions.WaitResult{TimedOut: true}, nil
	case <-ctx.Done():
		return sessions.WaitResult{}, context.Cause(ctx)
	}
}

// received is one line of the server's output.
type received struct {
	line   string
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// client drives a server over pipes and checks every line that comes out of it.
type client struct {
	t      *testing.T
	server *Server
	in     *io.PipeWriter
	out    *io.PipeReader
	got    chan received
	seen   []received
	served chan error
	stop   context.CancelFunc
}

// start serves a fake. It is used inside a synctest bubble, where nothing takes time that is not asked for.
func start(t *testing.T, api sessions.API) *client {
	t.Helper()
	c := startSilent(t, New(api, Options{Version: "test"}))
	go c.read()
	return c
}

// startSilent serves without reading what comes out.
func startSilent(t *testing.T, s *Server) *client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	c := &client{t: t, server: s, in: inW, out: outR, got: make(chan received, 1<<16), served: make(chan error, 1), stop: stop}
	go func() {
		err := s.ServeStdio(ctx, inR, outW)
		outW.Close()
		c.served <- err
	}()
	t.Cleanup(func() {
		stop()
		inW.Close()
		outR.Close()
	})
	return c
}

func (c *client) read() {
	defer close(c.got)
	r := newLineReader(c.out, 1<<30)
	for {
		line, err := r.next()
		if err != nil {
			return
		}
		c.got <- c.checked(line)
	}
}

// checked fails unless the line is exactly one JSON-RPC message without raw line separators.
func (c *client) checked(line []byte) received {
	var m received
	var version struct {
		JSONRPC string `json:"jsonrpc"`
	}
	if json.Unmarshal(line, &m) != nil || json.Unmarshal(line, &version) != nil || version.JSONRPC != "2.0" {
		c.t.Errorf("not one JSON-RPC message: %.200s", line)
	}
	if bytes.Contains(line, []byte("\u2028")) || bytes.Contains(line, []byte("\u2029")) {
		c.t.Errorf("raw line separator in %.200s", line)
	}
	m.line = string(line)
	return m
}

// raw writes bytes as they are.
func (c *client) raw(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

func (c *client) line(text string) { c.t.Helper(); c.raw(text + "\n") }

// call writes a tools/call. id is raw JSON; args and meta are raw JSON objects, "" leaves them out.
func (c *client) call(id, tool, args, meta string) {
	c.t.Helper()
	p := `"name":"` + tool + `"`
	if args != "" {
		p += `,"arguments":` + args
	}
	if meta != "" {
		p += `,"_meta":` + meta
	}
	c.line(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + p + `}}`)
}

func (c *client) cancel(id string) {
	c.t.Helper()
	c.line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
}

// until returns the first line that matches, of those that were not taken before.
func (c *client) until(what string, match func(received) bool) received {
	c.t.Helper()
	for i, m := range c.seen {
		if match(m) {
			c.seen = append(c.seen[:i:i], c.seen[i+1:]...)
			return m
		}
	}
	for m := range c.got {
		if match(m) {
			return m
		}
		c.seen = append(c.seen, m)
	}
	c.t.Fatalf("output ended without %s; there was %v", what, c.lines())
	return received{}
}

// answer returns the answer with exactly that id.
func (c *client) answer(id string) received {
	c.t.Helper()
	return c.until("answer "+id, func(m received) bool { return m.Method == "" && string(m.ID) == id })
}

// rest returns every line that is left, after the server has ended.
func (c *client) rest() []received {
	for m := range c.got {
		c.seen = append(c.seen, m)
	}
	return c.seen
}

func (c *client) lines() []string {
	var out []string
	for _, m := range c.seen {
		out = append(out, clip(m.line, 200))
	}
	return out
}

// end closes the input and returns what ServeStdio returned.
func (c *client) end() error {
	c.t.Helper()
	c.in.Close()
	return <-c.served
}

// quiet fails when a line came that nobody took.
func (c *client) quiet() {
	c.t.Helper()
	for {
		select {
		case m, ok := <-c.got:
			if !ok {
				return
			}
			c.t.Errorf("unexpected line %.300s", m.line)
		default:
			if len(c.seen) > 0 {
				c.t.Errorf("unexpected lines %v", c.lines())
			}
			return
		}
	}
}

// toolResult is a result of tools/call.
type toolResult struct {
	Content []struct {
		Type, Text string
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

func (m received) tool(t *testing.T) toolResult {
	t.Helper()
	var r toolResult
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil {
		t.Fatalf("no tool result: %.300s", m.line)
	}
	if len(r.Content) != 1 || r.Content[0].Type != "text" || r.Content[0].Text == "" || len(r.Content[0].Text) > twinLimit {
		t.Errorf("text twin of %d items: %.300s", len(r.Content), m.line)
	}
	return r
}

// failed returns the error of a failed call.
func (m received) failed(t *testing.T) sessions.Error {
	t.Helper()
	r := m.tool(t)
	var e struct{ Error sessions.Error }
	if !r.IsError || json.Unmarshal(r.Structured, &e) != nil || !e.Error.Code.Known() || e.Error.Message == "" {
		t.Fatalf("no error of the table: %.300s", m.line)
	}
	if !strings.Contains(r.Content[0].Text, string(e.Error.Code)) {
		t.Errorf("the text twin %q does not name %s", r.Content[0].Text, e.Error.Code)
	}
	return e.Error
}

func ok(t *testing.T, m received, what string) {
	t.Helper()
	if m.Error != nil || m.Result == nil {
		t.Errorf("%s: %.300s", what, m.line)
	}
}

func refused(t *testing.T, m received, code int) {
	t.Helper()
	if m.Error == nil || m.Error.Code != code || m.Error.Message == "" {
		t.Errorf("want error %d, got %.300s", code, m.line)
	}
}

const initialize = `{"jsonrpc":"2.0","id":"init-1","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"9"}}}`

var _ = mcp.INVALID_REQUEST
