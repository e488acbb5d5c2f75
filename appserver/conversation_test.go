package appserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/batonmcp/baton/fixtures/codexschema"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

var update = flag.Bool("update", false, "write what the conversations in testdata came to")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConversations plays the archives of testdata. Each begins with the faults that it guards against, and goes on
// with steps:
//
//	-- opened --    an opened session; the body may override fields of the canned answers
//	-- start --     a link on which nothing was said yet; like opened it ends the one before
//	-- call --      calls on the Agent, a line each: "prompt {...}", "cancel ID", "answer {...}", "close", "open {...}"
//	-- agent --     lines that Codex sends; "!" before a line keeps it from the schema, "#" makes a comment
//	-- wait --      time that passes
//	-- shut --      Codex closes its input
//	-- eof --       the end of Codex
//
// and after each step with what came of it, all of it and nothing else:
//
//	-- client --    lines that Codex got
//	-- want --      events
//	-- result --    calls that returned
//
// They run on a clock of their own, and until everything stands still, so that there is nothing to wait for.
func TestConversations(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { playArchive(t, path) })
	}
}

func playArchive(t *testing.T, path string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header, sections := parseArchive(string(raw))
	if strings.TrimSpace(header) == "" {
		t.Fatalf("%s does not say what it guards against", path)
	}
	var out bytes.Buffer
	out.WriteString(header)
	synctest.Test(t, func(t *testing.T) {
		c := &conversation{t: t}
		for i := 0; i < len(sections); i++ {
			s := sections[i]
			fmt.Fprintf(&out, "-- %s --\n%s", s.name, s.body)
			if isOutput(s.name) {
				t.Fatalf("section %d, %s, comes of no step", i, s.name)
			}
			c.act(s)
			want := map[string]string{}
			for i+1 < len(sections) && isOutput(sections[i+1].name) {
				i++
				want[sections[i].name] = sections[i].body
			}
			got := c.collect()
			for _, name := range outputs {
				if got[name] != want[name] && !*update {
					t.Errorf("after step %q (section %d):\n%s:\n%swant:\n%s", s.name, i, name, got[name], want[name])
				}
				if got[name] != "" {
					fmt.Fprintf(&out, "-- %s --\n%s", name, got[name])
				}
			}
		}
		c.end()
	})
	if *update && !t.Failed() {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type section struct{ name, body string }

var outputs = []string{"client", "want", "result"}

func isOutput(name string) bool { return name == "client" || name == "want" || name == "result" }

func parseArchive(s string) (header string, sections []section) {
	var b strings.Builder
	name := ""
	flush := func() {
		if name == "" {
			header = b.String()
		} else {
			sections = append(sections, section{name, b.String()})
		}
		b.Reset()
	}
	for line := range strings.Lines(s) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok && strings.HasSuffix(n, " --") {
			flush()
			name = strings.TrimSuffix(n, " --")
			continue
		}
		b.WriteString(line)
	}
	flush()
	return header, sections
}

// conversation is an Agent and, in place of Codex, the test.
type conversation struct {
	t      *testing.T
	redact sessions.Redactor
	agent  *Agent
	toUs   *io.PipeWriter // Codex's output
	// fromAgent is Codex's input.
	fromAgent *io.PipeReader
	fromUs    chan struct{} // closed when our side of the input is
	calls     sync.WaitGroup

	mu      sync.Mutex
	client  []string
	events  []string
	results []string
	methods map[string]string // of calls in both directions, by id
}

func (c *conversation) begin() {
	if c.agent != nil {
		c.end()
	}
	c.methods, c.fromUs = map[string]string{}, make(chan struct{})
	ourOut, codexIn := io.Pipe()
	codexOut, toUs := io.Pipe()
	c.toUs, c.fromAgent = toUs, ourOut
	go c.read(ourOut)
	c.agent = New(wire.New(codexOut, codexIn, wire.Options{}), c, Options{Redact: c.redact})
}

// read is Codex's input.
func (c *conversation) read(in io.Reader) {
	defer close(c.fromUs)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		c.mu.Lock()
		c.client = append(c.client, strings.Replace(line, `"jsonrpc":"2.0",`, "", 1))
		c.mu.Unlock()
		c.checkClient([]byte(line))
	}
}

func (c *conversation) checkClient(line []byte) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
		Result json.RawMessage
	}
	if err := json.Unmarshal(line, &m); err != nil {
		c.t.Errorf("the client sent no JSON: %s", line)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Method != "" && m.ID != nil:
		c.methods[string(m.ID)] = m.Method
		checkSchema(c.t, codexschema.Call, m.Method, m.Params)
	case m.Result != nil:
		checkSchema(c.t, codexschema.Result, c.methods["agent "+string(m.ID)], m.Result)
	}
}

func (c *conversation) say(line string) {
	free := strings.HasPrefix(line, "!")
	line = strings.TrimPrefix(line, "!")
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
		Result json.RawMessage
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil && !free {
		c.t.Fatalf("no JSON: %s", line)
	}
	c.mu.Lock()
	switch {
	case m.Method != "" && m.ID != nil:
		c.methods["agent "+string(m.ID)] = m.Method
		if !free {
			checkSchema(c.t, codexschema.Request, m.Method, m.Params)
		}
	case free:
	case m.Method != "":
		checkSchema(c.t, codexschema.Notification, m.Method, m.Params)
	case m.Result != nil && c.methods[string(m.ID)] == "":
		c.t.Errorf("Codex answers a call that was not made: %s", line)
	case m.Result != nil && c.methods[string(m.ID)] != "initialize":
		checkSchema(c.t, codexschema.Result, c.methods[string(m.ID)], m.Result)
	}
	c.mu.Unlock()
	if _, err := io.WriteString(c.toUs, line+"\n"); err != nil && !free {
		c.t.Errorf("Codex could not say: %s: %v", line, err)
	}
}

// Emit makes the conversation the Agent's sink.
func (c *conversation) Emit(e sessions.Event) {
	e.Raw = nil
	if e.Selection != nil {
		s := *e.Selection
		s.Evidence.Raw = nil
		e.Selection = &s
	}
	raw, err := json.Marshal(e)
	if err != nil {
		c.t.Errorf("an event is no JSON: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, string(raw)+"\n")
}

func (c *conversation) act(s section) {
	switch s.name {
	case "start":
		c.begin()
	case "opened":
		c.open(s.body)
	case "call":
		for line := range strings.Lines(s.body) {
			c.callLine(strings.TrimSpace(line))
			synctest.Wait()
		}
	case "agent":
		for line := range strings.Lines(s.body) {
			if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
				c.say(line)
				synctest.Wait()
			}
		}
	case "wait":
		d, err := time.ParseDuration(strings.TrimSpace(s.body))
		if err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(d) // the clock of the bubble
	case "shut":
		c.fromAgent.Close()
	case "eof":
		c.toUs.Close()
	default:
		c.t.Fatalf("there is no step %q", s.name)
	}
}

// collect waits until everything stands still and takes what came of it.
func (c *conversation) collect() map[string]string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.results) // several may return at once
	got := map[string]string{"client": strings.Join(c.client, ""), "want": strings.Join(c.events, ""), "result": strings.Join(c.results, "")}
	c.client, c.events, c.results = nil, nil, nil
	return got
}

func (c *conversation) callLine(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	ctx := context.Background()
	run := func(what string, f func() error) {
		c.calls.Go(func() {
			said := what + ": ok\n"
			if err := f(); err != nil {
				said = what + ": " + describe(err) + "\n"
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.results = append(c.results, said)
		})
	}
	switch verb {
	case "prompt":
		p := unmarshal[sessions.Prompt](c.t, rest)
		run("prompt "+p.CommandID, func() error { return c.agent.Prompt(ctx, p) })
	case "prompt-within": // a caller that gives up
		limit, rest, _ := strings.Cut(rest, " ")
		d, err := time.ParseDuration(limit)
		if err != nil {
			c.t.Fatal(err)
		}
		p := unmarshal[sessions.Prompt](c.t, rest)
		run("prompt "+p.CommandID, func() error {
			ctx, stop := context.WithTimeout(ctx, d)
			defer stop()
			return c.agent.Prompt(ctx, p)
		})
	case "answer":
		a := unmarshal[sessions.Answer](c.t, rest)
		run("answer "+a.Handle, func() error { return c.agent.Answer(ctx, a) })
	case "cancel":
		run(line, func() error { return c.agent.Cancel(ctx, rest) })
	case "close":
		run(line, func() error { return c.agent.Close(ctx) })
	case "open":
		p := unmarshal[sessions.OpenParams](c.t, rest)
		run("open", func() error {
			o, err := c.agent.Open(ctx, p)
			if err == nil {
				o.Evidence.Raw = nil
				raw, _ := json.Marshal(o)
				err = errors.New(string(raw))
			}
			return err
		})
	default:
		c.t.Fatalf("there is no call %q", verb)
	}
}

// describe is an error with what a bridge tells apart.
func describe(err error) string {
	var kinds []string
	for _, k := range []struct {
		name string
		err  error
	}{{"not-written", sessions.ErrNotWritten}, {"broken", sessions.ErrBroken}} {
		if errors.Is(err, k.err) {
			kinds = append(kinds, k.name)
		}
	}
	return strings.Join(append(kinds, err.Error()), " ")
}

func unmarshal[T any](t *testing.T, s string) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

// end ends Codex, and sees that nothing more comes of it and nobody is left waiting.
func (c *conversation) end() {
	c.toUs.Close()
	<-c.agent.Done()
	c.calls.Wait()
	<-c.fromUs
	if got := c.collect(); got["client"]+got["want"] != "" {
		c.t.Errorf("after the end of Codex:\n%s%s", got["client"], got["want"])
	}
	if len(c.agent.calls) > 0 || len(c.agent.alarms.pending) > 0 {
		c.t.Error("calls or alarms are left")
	}
}
