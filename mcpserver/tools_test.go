package mcpserver

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/batonmcp/baton/sessions"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type listed struct {
	Name, Description         string
	InputSchema, OutputSchema json.RawMessage
	Annotations               map[string]any
}

func listTools(t *testing.T) (line string, tools []listed) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{})
		c.line(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		m := c.answer("1")
		var r struct{ Tools []listed }
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatal(err)
		}
		line, tools = m.line, r.Tools
	})
	return line, tools
}

// What an assistant is shown is part of the interface: any change of it is seen in the golden file.
func TestToolListIsTheGoldenOne(t *testing.T) {
	line, _ := listTools(t)
	if len(line) >= 16000 {
		t.Errorf("tools/list has %d bytes, the limit is 16 KB", len(line))
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(line), "", "  "); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	golden := filepath.Join("testdata", "tools_list.json")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Error("tools/list differs from testdata/tools_list.json; run with -update if that is meant")
	}
}

// The names and the required arguments are the contract with every client.
func TestToolsAreThoseOfTheInterface(t *testing.T) {
	want := map[string]struct{ required, arguments, result string }{
		"runner_list": {"", "refresh", "runners"},
		"session_create": {"runner cwd", "runner cwd session_id title model effort mode sandbox approval_policy auto_answer writable_roots env env_unset mcp_servers runner_options profile prompt command_id wait_seconds key",
			"session command"},
		"session_send": {"session_id text", "session_id text images command_id when_busy model effort mode deadline_seconds wait_seconds lease_id generation",
			"command session text usage"},
		"session_wait":    {"", "session_ids after until wait_seconds", "sessions timed_out"},
		"session_read":    {"session_id", "session_id after limit kinds max_chars lease_id generation", "events cursor has_more gap"},
		"session_respond": {"session_id request_id", "session_id request_id decision option_id answers form scope key lease_id generation", "request session"},
		"session_cancel":  {"session_id", "session_id command_id key lease_id generation", "command session"},
		"session_close":   {"session_id", "session_id delete key lease_id generation", "session stopped proof"},
		"session_resume":  {"session_id", "session_id model effort mode sandbox approval_policy run_queue accept_unconfirmed acknowledge_unknown key", "session settled"},
		"session_list":    {"", "cwd runner state all limit after", "sessions cursor"},
	}
	_, tools := listTools(t)
	if len(tools) != len(want) {
		t.Errorf("%d tools", len(tools))
	}
	for _, tool := range tools {
		w, ok := want[tool.Name]
		if !ok {
			t.Errorf("tool %s is not part of the interface", tool.Name)
			continue
		}
		var in, out struct {
			Properties           map[string]json.RawMessage
			Required             []string
			AdditionalProperties any
			Type                 string
		}
		if json.Unmarshal(tool.InputSchema, &in) != nil || json.Unmarshal(tool.OutputSchema, &out) != nil || in.Type != "object" || out.Type != "object" {
			t.Errorf("%s: schemas %s %s", tool.Name, tool.InputSchema, tool.OutputSchema)
		}
		if in.AdditionalProperties != false {
			t.Errorf("%s takes unknown arguments", tool.Name)
		}
		if got := strings.Join(in.Required, " "); got != w.required {
			t.Errorf("%s requires %q, want %q", tool.Name, got, w.required)
		}
		for name := range strings.FieldsSeq(w.arguments) {
			if in.Properties[name] == nil {
				t.Errorf("%s lacks the argument %s", tool.Name, name)
			}
		}
		for name := range strings.FieldsSeq(w.result + " error") {
			if out.Properties[name] == nil {
				t.Errorf("%s lacks the result %s", tool.Name, name)
			}
		}
		if len(out.Required) > 0 || bytes.Count(tool.OutputSchema, []byte("properties")) != 1 {
			t.Errorf("%s: the output schema is not shallow and open: %s", tool.Name, tool.OutputSchema)
		}
	}
}

func TestHintsAndDescriptions(t *testing.T) {
	_, tools := listTools(t)
	readOnly := []string{"runner_list", "session_wait", "session_read", "session_list"}
	name := regexp.MustCompile(`^[a-z_]+$`)
	for _, tool := range tools {
		a := tool.Annotations
		if a["readOnlyHint"] != slices.Contains(readOnly, tool.Name) || a["destructiveHint"] != (tool.Name == "session_close") ||
			a["idempotentHint"] != true || a["openWorldHint"] != false || a["title"] == "" {
			t.Errorf("%s: annotations %v", tool.Name, a)
		}
		if n := len(tool.Description); n < 60 || n >= 2000 || !name.MatchString(tool.Name) {
			t.Errorf("%s: description of %d bytes", tool.Name, n)
		}
	}
	if n := len(instructions); n >= 2048 {
		t.Errorf("instructions have %d bytes", n)
	}
	for _, word := range []string{"runner_list", "session_create", "session_send", "session_wait", "session_respond", "command_id"} {
		if !strings.Contains(instructions, word) {
			t.Errorf("the instructions do not teach %s", word)
		}
	}
}

// compile reads a schema with an implementation that is not ours.
func compile(t *testing.T, name string, schema []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name+".json", doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	s, err := c.Compile(name + ".json")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

func valid(t *testing.T, s *jsonschema.Schema, what string, value []byte) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: %v in %s", what, err, value)
	}
}

// good has arguments for every tool.
var good = map[string]string{
	"runner_list":     `{"refresh":true}`,
	"session_create":  `{"runner":"codex","cwd":"/w","env":{"A":"b"},"mcp_servers":[{"name":"m"}],"wait_seconds":1}`,
	"session_send":    `{"session_id":"s","text":"x","when_busy":"queue"}`,
	"session_wait":    `{"session_ids":["s"],"after":{"s":"c"},"wait_seconds":0}`,
	"session_read":    `{"session_id":"s","kinds":["text"]}`,
	"session_respond": `{"session_id":"s","request_id":"r","answers":{"q":["a"]}}`,
	"session_cancel":  `{"session_id":"s"}`,
	"session_close":   `{"session_id":"s","delete":true}`,
	"session_resume":  `{"session_id":"s","run_queue":true}`,
	"session_list":    `{"state":"idle"}`,
}

// What goes in and what comes out are what the schemas say, the full ones of the resource included, also for failures.
func TestSchemasDescribeWhatIsSaid(t *testing.T) {
	_, tools := listTools(t)
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{})
		c.line(`{"jsonrpc":"2.0","id":"s","method":"resources/read","params":{"uri":"baton://schema"}}`)
		var read struct {
			Contents []struct{ URI, MIMEType, Text string }
		}
		if m := c.answer(`"s"`); json.Unmarshal(m.Result, &read) != nil || len(read.Contents) != 1 || read.Contents[0].URI != "baton://schema" {
			t.Fatalf("resource: %.300s", m.line)
		}
		var full struct {
			Tools map[string]struct{ Arguments, Result json.RawMessage }
			Error json.RawMessage
			Event json.RawMessage
			Codes map[string]string
		}
		if err := json.Unmarshal([]byte(read.Contents[0].Text), &full); err != nil {
			t.Fatal(err)
		}
		if len(full.Codes) != len(sessions.Codes()) || len(full.Tools) != len(tools) {
			t.Errorf("the resource has %d codes and %d tools", len(full.Codes), len(full.Tools))
		}
		compile(t, "event", full.Event)
		errorSchema := compile(t, "error", full.Error)
		for _, tool := range tools {
			in, out := compile(t, tool.Name+"-in", tool.InputSchema), compile(t, tool.Name+"-out", tool.OutputSchema)
			valid(t, in, tool.Name, []byte(good[tool.Name]))
			c.call("1", tool.Name, good[tool.Name], "")
			r := c.answer("1").tool(t)
			if r.IsError {
				t.Errorf("%s: %s", tool.Name, r.Structured)
			}
			valid(t, out, tool.Name, r.Structured)
			valid(t, compile(t, tool.Name+"-full", full.Tools[tool.Name].Result), tool.Name, r.Structured)

			c.call("2", tool.Name, `{"bad":1}`, "")
			failed := c.answer("2")
			failed.failed(t)
			valid(t, out, tool.Name+" failing", failed.tool(t).Structured)
			var e struct{ Error json.RawMessage }
			json.Unmarshal(failed.tool(t).Structured, &e)
			valid(t, errorSchema, tool.Name+" error", e.Error)
		}
	})
}

// Lists that are always there are empty, not null, all the way down.
func TestEmptyListsAreLists(t *testing.T) {
	shared := []sessions.Session{someSession(sid, sessions.SessionIdle)}
	for _, r := range []any{
		sessions.ListResult{Sessions: shared}, sessions.ListResult{}, sessions.ReadResult{}, sessions.RunnerListResult{Runners: []sessions.Runner{{}}},
		sessions.WaitResult{Sessions: []sessions.Waited{{Session: shared[0]}}}, sessions.ResumeResult{},
	} {
		raw := success(r, "x").StructuredContent.(json.RawMessage)
		if bytes.Contains(raw, []byte("null")) {
			t.Errorf("%T: %s", r, raw)
		}
	}
	if shared[0].Queued != nil {
		t.Error("the result of the API was changed")
	}
}

func TestTextIsValid(t *testing.T) {
	for n := range 12 {
		if s := clip("aé你😀z", n); !utf8.ValidString(s) || len(s) > max(n, 0) {
			t.Errorf("clip to %d gives %q", n, s)
		}
	}
}
