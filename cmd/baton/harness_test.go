package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/sessions"
)

// world is one state directory with its environment, and the front ends that a test opens on it.
type world struct {
	t    *testing.T
	dir  string // holds everything
	work string // where agents work
	env  []string
	more []string // further arguments of its front ends
}

// newWorld makes a state directory of its own, with the embedded agents configured. At the end of the test it stops what
// is left and fails the test if a process survives.
func newWorld(t *testing.T, env ...string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, dir: dir, work: filepath.Join(dir, "work")}
	for _, d := range []string{w.work, w.path("home"), w.path("tmp"), w.path("baton")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := `
[host]
idle_exit = "20s"
allow_unconfined_full_access = true

[runners.codexlike]
protocol = "app-server"
command = ["baton:agent", "app-server"]

[runners.cursorlike]
protocol = "acp"
command = ["baton:agent", "acp"]
`
	w.write("baton/config.toml", config)
	w.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "TMPDIR=" + w.path("tmp"), "BATON_HOME=" + w.path("baton"), "GORACE=" + os.Getenv("GORACE")}, env...)
	w.bequeath(false)
	t.Cleanup(func() {
		w.end()
		w.bequeath(true)
	})
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// end closes every session and stops the host, then looks for what is left.
func (w *world) end() {
	c := w.open()
	for _, s := range call[sessions.ListResult](c, "session_list", args{}).Sessions {
		call[sessions.CloseResult](c, "session_close", args{"session_id": s.SessionID})
	}
	c.close()
	pid := w.hostPID()
	w.baton("host", "stop")
	await(w.t, "the end of the host", func() bool { return !alive(pid) })
	await(w.t, "the end of every process", func() bool { return len(w.processes()) == 0 })
	if w.t.Failed() {
		logs, err := filepath.Glob(w.path("baton/state/logs/*"))
		if err != nil {
			w.t.Error(err)
		}
		for _, l := range logs {
			if b, err := os.ReadFile(l); err == nil && len(b) > 0 {
				w.t.Logf("%s:\n%s", filepath.Base(l), b)
			}
		}
	}
}

// front is one `baton mcp` process and a client of it.
type front struct {
	t *testing.T
	c *mcpclient.Client
}

// open starts a front end.
func (w *world) open() *front {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := mcpclient.NewStdioMCPClient(exe, w.env, append([]string{"mcp"}, w.more...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	if errs, ok := mcpclient.GetStderr(c); ok {
		go func() { // ends with the front end
			b := make([]byte, 4096)
			for {
				if _, err := errs.Read(b); err != nil {
					return
				}
			}
		}()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{ProtocolVersion: "2025-11-25",
		ClientInfo: mcp.Implementation{Name: "test", Version: "1"}}}); err != nil {
		w.t.Fatal(err)
	}
	return &front{w.t, c}
}

func (f *front) close() {
	if err := f.c.Close(); err != nil {
		f.t.Logf("front end: %v", err)
	}
}

// tools lists what the front end offers.
func (f *front) tools() []string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := f.c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil // a server that has none need not know the method
	}
	var names []string
	for _, t := range res.Tools {
		names = append(names, t.Name)
	}
	return names
}

type args = map[string]any

// try calls a tool and returns its result or the refusal.
func try[T any](f *front, tool string, a args) (T, *sessions.Error) {
	f.t.Helper()
	var out T
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	res, err := f.c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: a}})
	if err != nil {
		f.t.Fatalf("%s: %v", tool, err)
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		f.t.Fatal(err)
	}
	if res.IsError {
		var e struct{ Error *sessions.Error }
		if err := json.Unmarshal(raw, &e); err != nil || e.Error == nil || !e.Error.Code.Known() || e.Error.Message == "" || e.Error.Action == "" {
			f.t.Fatalf("%s: an error outside the contract: %s (%v)", tool, raw, err)
		}
		return out, e.Error
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		f.t.Fatalf("%s: %v in %s", tool, err, raw)
	}
	return out, nil
}

// call is try for a call that must succeed.
func call[T any](f *front, tool string, a args) T {
	f.t.Helper()
	out, e := try[T](f, tool, a)
	if e != nil {
		f.t.Fatalf("%s %v: %v %v", tool, a, e, e.Details)
	}
	return out
}

// refused wants a refusal with a code.
func refused(f *front, code sessions.Code, tool string, a args) *sessions.Error {
	f.t.Helper()
	_, e := try[json.RawMessage](f, tool, a)
	if e == nil || e.Code != code {
		f.t.Fatalf("%s %v: got %v, want %s", tool, a, e, code)
	}
	return e
}

// events reads all events of a session by cursor and checks that they are numbered from 1 without hole or double.
func (f *front) events(session string) []sessions.Event {
	f.t.Helper()
	var all []sessions.Event
	after := ""
	for {
		p := call[sessions.ReadResult](f, "session_read", args{"session_id": session, "after": after, "limit": 500, "max_chars": 40000})
		all = append(all, p.Events...)
		after = p.Cursor
		if !p.HasMore {
			break
		}
	}
	for i, e := range all {
		if e.Seq != int64(i+1) {
			f.t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
	}
	return all
}

// streaming waits until a command has said something.
func (f *front) streaming(session, command string) {
	f.t.Helper()
	after := ""
	for end := time.Now().Add(patience); ; {
		p := call[sessions.ReadResult](f, "session_read", args{"session_id": session, "after": after})
		if words(p.Events, command) != "" {
			return
		}
		if count(p.Events, sessions.EventCommandSettled, command) > 0 {
			f.t.Fatalf("command %s ended without a word", command)
		}
		after = p.Cursor
		w := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{session}, "until": "event", "after": args{session: after}})
		if w.TimedOut && time.Now().After(end) {
			f.t.Fatalf("command %s says nothing", command)
		}
	}
}

// await waits for something outside of Baton, which has no event to wait for.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(end) {
			t.Errorf("waited in vain for %s", what)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// words are the deltas of a command's text, joined.
func words(evs []sessions.Event, command string) string {
	var b strings.Builder
	for _, e := range evs {
		if e.Kind == sessions.EventText && e.Command == command && !e.Final {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

func kinds(evs []sessions.Event) string {
	var b strings.Builder
	for _, e := range evs {
		fmt.Fprintf(&b, "%d %s %.60s\n", e.Seq, e.Kind, e.Text)
	}
	return b.String()
}

func count(evs []sessions.Event, kind sessions.EventKind, command string) int {
	n := 0
	for _, e := range evs {
		if e.Kind == kind && e.Command == command {
			n++
		}
	}
	return n
}
