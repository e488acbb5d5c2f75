package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/rs/zerolog"
)

func TestInitialize(t *testing.T) {
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25", "x": "2025-11-25",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := start(t, &fake{})
			c.line(strings.Replace(initialize, "2025-11-25", asked, 1))
			c.line(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			var r struct {
				ProtocolVersion string
				Instructions    string
				ServerInfo      struct{ Name, Version string }
				Capabilities    map[string]any
			}
			m := c.answer(`"init-1"`)
			if err := json.Unmarshal(m.Result, &r); err != nil || r.ProtocolVersion != want {
				t.Errorf("%s: %.200s", asked, m.line)
			}
			if r.ServerInfo.Name != "baton" || r.ServerInfo.Version != "test" || r.Instructions != instructions || r.Capabilities["tools"] == nil || r.Capabilities["resources"] == nil {
				t.Errorf("%s: %.400s", asked, m.line)
			}
			c.quiet()
		})
	}
}

const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"new","version":"1"}}`

// 2026-07-28 has no handshake: server/discover, then calls, and a stream whose messages carry the client's own id.
func TestModernProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := start(t, f)
		c.line(`{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{` + modern + `}}`)
		if m := c.answer("0"); !strings.Contains(m.line, "2026-07-28") {
			t.Errorf("discover: %.300s", m.line)
		}
		c.line(`{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modern + `}}`)
		ack := c.until("acknowledgement", func(m received) bool { return m.Method == mcp.MethodNotificationSubscriptionsAcknowledged })
		if end := c.answer(`"L"`); !strings.Contains(ack.line, `"io.modelcontextprotocol/subscriptionId":"L"`) || !strings.Contains(end.line, `"io.modelcontextprotocol/subscriptionId":"L"`) {
			t.Errorf("stream: %s, %s", ack.line, end.line)
		}
		c.line(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"session_list",` + modern + `}}`)
		if r := c.answer("2").tool(t); r.IsError {
			t.Errorf("call: %s", r.Structured)
		}
		if who := f.callers[0]; who.Client != "new 1" {
			t.Errorf("caller %+v", who)
		}
	})
}

// Inside a session there is nothing to call.
func TestNoToolsWithoutAnAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, nil)
		c.line(initialize)
		if m := c.answer(`"init-1"`); !strings.Contains(m.line, "offers no tools") {
			t.Errorf("initialize: %s", m.line)
		}
		c.line(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if m := c.answer("1"); string(m.Result) != `{"tools":[]}` {
			t.Errorf("tools/list: %s", m.line)
		}
		c.call("2", "session_list", "", "")
		refused(t, c.answer("2"), mcp.INVALID_PARAMS)
	})
}

func TestResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{})
		c.line(`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`)
		if m := c.answer("1"); !strings.Contains(m.line, `"baton://schema"`) {
			t.Errorf("resources/list: %.300s", m.line)
		}
		c.line(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"baton://nothing"}}`)
		if m := c.answer("2"); m.Error == nil {
			t.Errorf("resources/read: %.300s", m.line)
		}
	})
}

// MC-04: whatever happens, with debug logging on, standard output carries messages only (the client checks each line),
// a panic costs its own call, and the log holds nothing that was said.
func TestNothingButMessagesOnTheOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.TraceLevel)
		f := &fake{list: func(context.Context, sessions.ListArgs) (sessions.ListResult, error) { panic("planted") }}
		c := startSilent(t, New(f, Options{Logger: &logger}))
		go c.read()
		for name, args := range good {
			c.call(jsonOf(name), name, strings.Replace(args, `"text":"x"`, `"text":"SECRET"`, 1), "")
		}
		c.line("not JSON with SECRET")
		refused(t, c.answer("null"), mcp.PARSE_ERROR)
		for name := range good {
			m := c.answer(jsonOf(name))
			if name == "session_list" {
				if e := m.failed(t); e.Code != sessions.CodeInternal || e.Action == "" || strings.Contains(m.line, "planted") {
					t.Errorf("panic: %s", m.line)
				}
				continue
			}
			if r := m.tool(t); r.IsError {
				t.Errorf("%s: %s", name, r.Structured)
			}
		}
		c.call("1", "runner_list", "", "")
		ok(t, c.answer("1"), "a call after the panic")
		if err := c.end(); err != nil {
			t.Error(err)
		}
		if text := log.String(); !strings.Contains(text, "planted") || !strings.Contains(text, "unusable message") || strings.Contains(text, "SECRET") {
			t.Errorf("log: %.2000s", text)
		}
	})
}

// Our own requests to the client: answered, refused, withdrawn, and ended with the connection.
func TestAskingTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := New(f, Options{})
		f.runners = func(ctx context.Context, _ sessions.RunnerListArgs) (sessions.RunnerListResult, error) {
			raw, err := server.ClientSessionFromContext(ctx).(asker).Ask(ctx, "elicitation/create", map[string]string{"message": "sure?"})
			if err != nil {
				return sessions.RunnerListResult{}, err
			}
			return sessions.RunnerListResult{Runners: []sessions.Runner{{Name: string(raw)}}}, nil
		}
		c := startSilent(t, s)
		go c.read()
		asked := func() string {
			t.Helper()
			m := c.until("elicitation", func(m received) bool { return m.Method == "elicitation/create" })
			if !strings.Contains(string(m.Params), "sure?") {
				t.Errorf("params %s", m.Params)
			}
			return string(m.ID)
		}
		c.call("1", "runner_list", "", "")
		first := asked()
		c.line(`{"jsonrpc":"2.0","id":"no-such","result":{}}`)
		c.line(`{"jsonrpc":"2.0","id":` + first + `,"result":{"action":"accept"}}`)
		if r := c.answer("1").tool(t); !strings.Contains(string(r.Structured), `accept`) {
			t.Errorf("accepted: %s", r.Structured)
		}
		c.line(`{"jsonrpc":"2.0","id":` + first + `,"result":{"action":"decline"}}`) // a second answer changes nothing

		c.call("2", "runner_list", "", "")
		second := asked()
		if second == first {
			t.Errorf("id %s twice", first)
		}
		c.line(`{"jsonrpc":"2.0","id":` + second + `,"error":{"code":-32601,"message":"cannot ask"}}`)
		if e := c.answer("2").failed(t); !strings.Contains(e.Message, "cannot ask") {
			t.Errorf("refused: %+v", e)
		}

		c.call("3", "runner_list", "", "")
		third := asked()
		c.cancel("3")
		m := c.until("withdrawal", func(m received) bool { return m.Method == "notifications/cancelled" })
		if !strings.Contains(string(m.Params), third) {
			t.Errorf("withdrawn %s, want %s", m.Params, third)
		}

		c.call("4", "runner_list", "", "")
		asked()
		before := time.Now()
		if err := c.end(); err != nil || time.Since(before) > 0 {
			t.Errorf("the end took %s: %v", time.Since(before), err)
		}
		if e := c.answer("4").failed(t); !strings.Contains(e.Message, "client is gone") {
			t.Errorf("ended: %+v", e)
		}
	})
}
