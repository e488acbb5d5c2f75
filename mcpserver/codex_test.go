package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// startCompat serves the tools of codex mcp-server to a client that can be asked.
func startCompat(t *testing.T, api sessions.API) *client {
	t.Helper()
	c := startSilent(t, New(api, Options{Version: "test", Compat: CompatCodex, Elicit: true}))
	go c.read()
	c.line(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	ok(t, c.answer(`"init-1"`), "initialize")
	return c
}

func (m received) codex(t *testing.T) (r codexResult, failed bool) {
	t.Helper()
	var whole struct {
		Content []struct{ Text string }
		Result  codexResult `json:"structuredContent"`
		IsError bool
	}
	if m.Error != nil || json.Unmarshal(m.Result, &whole) != nil || len(whole.Content) != 1 || whole.Content[0].Text != whole.Result.Content || whole.Result.Content == "" {
		t.Fatalf("no result of codex: %.400s", m.line)
	}
	return whole.Result, whole.IsError
}

func TestCompatToolsAreThoseOfCodex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCompat(t, &fake{})
		m := c.request("1", "tools/list", "")
		var r struct {
			Tools []struct {
				Name                      string
				InputSchema, OutputSchema struct {
					Properties           map[string]json.RawMessage
					Required             []string
					AdditionalProperties any
				}
			}
		}
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range r.Tools {
			got = append(got, x.Name)
			want := map[string]string{"codex": "approval-policy base-instructions compact-prompt config cwd developer-instructions model prompt sandbox", "codex-reply": "conversationId prompt threadId"}[x.Name]
			if names := strings.Join(sortedNames(x.InputSchema.Properties), " "); names != want || fmt.Sprint(x.InputSchema.Required) != "[prompt]" || x.InputSchema.AdditionalProperties != false {
				t.Errorf("%s takes %s, %v", x.Name, names, x.InputSchema)
			}
			if fmt.Sprint(x.OutputSchema.Required) != "[threadId content]" {
				t.Errorf("%s gives %v", x.Name, x.OutputSchema)
			}
		}
		if fmt.Sprint(got) != "[codex codex-reply]" {
			t.Errorf("tools %v", got)
		}
	})
}

func sortedNames(m map[string]json.RawMessage) (names []string) {
	b, _ := json.Marshal(m) // sorted
	d := json.NewDecoder(strings.NewReader(string(b)))
	depth := 0
	for {
		tok, err := d.Token()
		if err != nil {
			return names
		}
		switch x := tok.(type) {
		case json.Delim:
			if x == '{' || x == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			if depth == 1 {
				names = append(names, x)
				var skip json.RawMessage
				if d.Decode(&skip) != nil {
					return names
				}
			}
		}
	}
}

func TestCompatArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{create: func(_ context.Context, a sessions.CreateArgs) (sessions.CreateResult, error) {
			return sessions.CreateResult{Session: someSession(sid, sessions.SessionIdle), Command: &sessions.Command{CommandID: a.CommandID, State: sessions.CommandCompleted}, Text: "done"}, nil
		}}
		c := startCompat(t, f)
		args := `{"prompt":"fix","model":"m","cwd":"below","approval-policy":"never","sandbox":"read-only","config":{"a":{"b":1}},"developer-instructions":"d","compact-prompt":"c"}`
		for _, id := range []string{"1", "2"} { // the second is the first one again
			c.call(id, "codex", args, `{"claudecode/toolUseId":"toolu_9"}`)
			if r, failed := c.answer(id).codex(t); failed || r.ThreadID != sid || r.Content != "done" {
				t.Errorf("%+v %t", r, failed)
			}
		}
		first, second := f.calls()[0].(sessions.CreateArgs), f.calls()[1].(sessions.CreateArgs)
		if first.Key == "" || first.Key != second.Key || first.CommandID != second.CommandID {
			t.Errorf("keys %q %q", first.Key, second.Key)
		}
		if first.Runner != "codex" || !strings.HasSuffix(first.Cwd, "/mcpserver/below") || first.Model != "m" || first.ApprovalPolicy != "never" || first.Sandbox != "read-only" ||
			fmt.Sprint(first.RunnerOptions) != `map[config:map[a:map[b:1] compact_prompt:c] developer_instructions:d]` {
			t.Errorf("%+v", first)
		}
		for args, want := range map[string]string{`{"prompt":""}`: "empty", `{"prompt":"x","base-instructions":"y"}`: "unsupported", `{}`: "prompt", `{"prompt":"x","surprise":1}`: "surprise", `{"prompt":"x","sandbox":"none"}`: "read-only"} {
			c.call("3", "codex", args, "")
			if r, failed := c.answer("3").codex(t); !failed || !strings.Contains(r.Content, want) {
				t.Errorf("%s: %+v %t", args, r, failed)
			}
		}
		for _, args := range []string{`{"prompt":"x"}`, `{"prompt":"x","threadId":"` + rid + `"}`} {
			c.call("4", "codex-reply", args, "")
			if r, failed := c.answer("4").codex(t); !failed || !strings.Contains(r.Content, "threadId") {
				t.Errorf("%s: %+v %t", args, r, failed)
			}
		}
	})
}

// TestALongTurnOfCodex comes back in its time with what there is, and goes on when it is waited for.
func TestALongTurnOfCodex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		running := sessions.Command{CommandID: "c", State: sessions.CommandAccepted}
		session := func() sessions.Session {
			s := someSession(sid, sessions.SessionRunning)
			s.NativeID, s.Running = "native", &running
			return s
		}
		wait := func(ctx context.Context, seconds *int) bool {
			select {
			case <-done:
				return true
			case <-time.After(time.Duration(*seconds) * time.Second):
			case <-ctx.Done():
			}
			return false
		}
		f := &fake{}
		f.create = func(ctx context.Context, a sessions.CreateArgs) (sessions.CreateResult, error) {
			wait(ctx, a.WaitSeconds)
			return sessions.CreateResult{Session: session(), Command: &running}, nil
		}
		f.wait = func(ctx context.Context, a sessions.WaitArgs) (sessions.WaitResult, error) {
			if a.Until == "event" {
				return sessions.WaitResult{Sessions: []sessions.Waited{{Session: session()}}}, nil
			}
			if !wait(ctx, a.WaitSeconds) {
				return sessions.WaitResult{TimedOut: true}, nil
			}
			s := someSession(sid, sessions.SessionIdle)
			s.Last = &sessions.Command{CommandID: "c", State: sessions.CommandCompleted}
			return sessions.WaitResult{Sessions: []sessions.Waited{{Session: s, Text: "the end"}}}, nil
		}
		f.read = func(context.Context, sessions.ReadArgs) (sessions.ReadResult, error) {
			return sessions.ReadResult{Events: []sessions.Event{{Kind: sessions.EventText, Command: "c", Item: "i", Text: "half of "}, {Kind: sessions.EventText, Command: "b", Item: "j", Text: "no"}, {Kind: sessions.EventText, Command: "c", Item: "i", Text: "it"}}}, nil
		}
		f.list = func(context.Context, sessions.ListArgs) (sessions.ListResult, error) {
			return sessions.ListResult{Sessions: []sessions.Session{session()}}, nil
		}
		c := startCompat(t, f)
		began := time.Now()
		c.call("1", "codex", `{"prompt":"long"}`, "")
		r, failed := c.answer("1").codex(t)
		if failed || r.ThreadID != sid || !strings.HasPrefix(r.Content, "half of it\n\n[The turn still runs.") || time.Since(began) > slice {
			t.Errorf("%+v %t after %s", r, failed, time.Since(began))
		}
		for i, thread := range []string{`"threadId":"` + sid, `"threadId":"native`, `"conversationId":"` + sid} {
			if i == 2 {
				close(done)
			}
			c.call("2", "codex-reply", `{"prompt":"",`+thread+`"}`, "")
			r, failed = c.answer("2").codex(t)
			if want := []string{"half of it\n\n[", "half of it\n\n[", "the end"}[i]; failed || !strings.HasPrefix(r.Content, want) {
				t.Errorf("%s: %+v %t", thread, r, failed)
			}
		}
		if r.Content != "the end" {
			t.Errorf("%q", r.Content)
		}
	})
}

// TestCodexAsks: approvals are put to the user, as codex mcp-server did.
func TestCodexAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(approval)
		a.list = func(context.Context, sessions.ListArgs) (sessions.ListResult, error) {
			return sessions.ListResult{Sessions: []sessions.Session{someSession(sid, sessions.SessionRunning)}}, nil
		}
		c := startCompat(t, a)
		c.call("1", "codex-reply", `{"prompt":"go on","threadId":"`+sid+`"}`, "")
		id, _ := c.question()
		c.reply(id, `{"action":"accept","content":{"decision":"yes"}}`)
		c.answer("1").codex(t)
		if given := a.given(); len(given) != 1 || given[0].OptionID != "yes" {
			t.Errorf("answers %+v", given)
		}
		c.quiet()
	})
}
