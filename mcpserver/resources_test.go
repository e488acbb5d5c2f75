package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/sessions"
)

// busy is a fake with one session whose cursor moves when it is told to.
type busy struct {
	fake
	moves chan string
}

func newBusy() *busy {
	b := &busy{moves: make(chan string)}
	now := "c1"
	session := func() sessions.Session {
		s := someSession(sid, sessions.SessionRunning)
		s.Title, s.Cursor = "Build | it", now
		return s
	}
	b.wait = func(ctx context.Context, a sessions.WaitArgs) (sessions.WaitResult, error) {
		if len(a.SessionIDs) != 1 || a.SessionIDs[0] != sid {
			return sessions.WaitResult{}, sessions.Errorf(sessions.CodeNotFound, "no session")
		}
		if a.After[sid] == now {
			select {
			case now = <-b.moves:
			case <-time.After(time.Duration(*a.WaitSeconds) * time.Second):
				return sessions.WaitResult{TimedOut: true}, nil
			case <-ctx.Done():
				return sessions.WaitResult{}, context.Cause(ctx)
			}
		}
		return sessions.WaitResult{Sessions: []sessions.Waited{{Session: session(), Cursor: now}}}, nil
	}
	b.list = func(context.Context, sessions.ListArgs) (sessions.ListResult, error) {
		return sessions.ListResult{Sessions: []sessions.Session{session()}}, nil
	}
	return b
}

func (c *client) request(id, method, params string) received {
	c.t.Helper()
	c.line(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`)
	return c.answer(id)
}

func TestResourcesOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy()
		c := start(t, b)
		read := func(uri, want string) {
			t.Helper()
			m := c.request("1", "resources/read", `"uri":"`+uri+`"`)
			var r struct {
				Contents []struct{ URI, MIMEType, Text string }
			}
			if json.Unmarshal(m.Result, &r) != nil || len(r.Contents) != 1 || r.Contents[0].URI != uri || !strings.Contains(r.Contents[0].Text, want) {
				t.Errorf("%s: %.400s", uri, m.line)
			}
		}
		if m := c.request("1", "resources/list", ""); !strings.Contains(m.line, `"`+sessionPrefix+sid+`/transcript"`) || !strings.Contains(m.line, "Build | it") || !strings.Contains(m.line, `"baton://sessions"`) {
			t.Errorf("list: %s", m.line)
		}
		if m := c.request("1", "resources/templates/list", ""); strings.Count(m.line, "uriTemplate") != 3 {
			t.Errorf("templates: %s", m.line)
		}
		read(sessionsURI, `"sessions":[{"session_id":"`+sid)
		read(sessionPrefix+sid, `"session_id":"`+sid)
		read(sessionPrefix+sid+"/events", `"events":[]`)
		read(sessionPrefix+sid+"/events?after=c7", `"cursor":"c1"`)
		if a, ok := b.calls()[len(b.calls())-1].(sessions.ReadArgs); !ok || a.After != "c7" {
			t.Errorf("read with %+v", a)
		}
		read(sessionPrefix+sid+"/transcript", "# Build | it")
		for _, uri := range []string{sessionPrefix + rid, sessionPrefix + "x", sessionPrefix + sid + "/secrets", sessionPrefix + sid + "/events/1", "baton://other", sessionPrefix + sid + "/transcript?after=c1"} {
			if m := c.request("1", "resources/read", `"uri":"`+uri+`"`); m.Error == nil || m.Error.Code != mcp.RESOURCE_NOT_FOUND {
				t.Errorf("%s: %.300s", uri, m.line)
			}
			if m := c.request("1", "resources/subscribe", `"uri":"`+uri+`"`); m.Error == nil || m.Error.Code != mcp.RESOURCE_NOT_FOUND {
				t.Errorf("subscribe %s: %.300s", uri, m.line)
			}
		}
		c.quiet()
	})
}

func (c *client) updated(what string) received {
	c.t.Helper()
	return c.until("an update of "+what, func(m received) bool { return m.Method == mcp.MethodNotificationResourceUpdated })
}

// TestSubscriptions: one notification for each change, merged where they are many, none after the end.
func TestSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy()
		c := start(t, b)
		c.line(initialize)
		ok(t, c.answer(`"init-1"`), "initialize")
		c.line(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		uri := `"uri":"` + sessionPrefix + sid + `/events"`
		for range 2 { // twice is once
			ok(t, c.request("1", "resources/subscribe", uri), "subscribe")
		}
		synctest.Wait()
		c.quiet()
		b.moves <- "c2"
		if m := c.updated("the session"); !strings.Contains(string(m.Params), uri) || strings.Contains(m.line, "_meta") {
			t.Errorf("%s", m.line)
		}
		time.Sleep(2 * time.Minute) // nothing changes, and nothing is said
		synctest.Wait()
		c.quiet()
		ok(t, c.request("2", "resources/unsubscribe", uri), "unsubscribe")
		synctest.Wait()
		select {
		case b.moves <- "c3":
			t.Error("somebody still waits")
		default:
		}
		c.quiet()
	})
}

// TestFollowersOfTheListOnlyWatch: the list is followed by its changes, under calls that start no host and keep none; while
// none runs nothing is said, and what the next one knows is.
func TestFollowersOfTheListOnlyWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marks := make(chan string)
		away := errors.New("no host runs")
		b := &fake{}
		b.changed = func(ctx context.Context, a sessions.ChangedArgs) (sessions.ChangedResult, error) {
			if a.Mark == "" {
				return sessions.ChangedResult{Mark: "m1"}, nil
			}
			if !sessions.IsPassive(ctx) {
				t.Error("the follower may start a host")
			}
			select {
			case m := <-marks:
				if m == "" {
					return sessions.ChangedResult{}, away
				}
				return sessions.ChangedResult{Mark: m}, nil
			case <-time.After(time.Duration(*a.WaitSeconds) * time.Second):
				return sessions.ChangedResult{Mark: a.Mark}, nil
			case <-ctx.Done():
				return sessions.ChangedResult{}, context.Cause(ctx)
			}
		}
		c := start(t, b)
		c.line(initialize)
		ok(t, c.answer(`"init-1"`), "initialize")
		ok(t, c.request("1", "resources/subscribe", `"uri":"`+sessionsURI+`"`), "subscribe")
		time.Sleep(5 * time.Minute) // nothing changes
		for i, m := range []string{"m2", "", "", "m2", "m3"} {
			before := time.Now()
			marks <- m
			if m == "m2" && i == 0 || m == "m3" {
				c.updated("the list")
			}
			if took := time.Since(before); took > 0 && took != updateEvery && took != awayEvery {
				t.Errorf("%s until it is asked again", took)
			}
		}
		synctest.Wait()
		c.quiet()
		for _, a := range b.calls() {
			if _, list := a.(sessions.ListArgs); list {
				t.Error("it lists")
			}
		}
	})
}

// TestASessionThatIsOver is followed by calls that only watch; one that lives has its host started again.
func TestASessionThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := sessions.SessionRunning
		passive := make(chan bool)
		b := &fake{}
		b.wait = func(ctx context.Context, a sessions.WaitArgs) (sessions.WaitResult, error) {
			s := someSession(sid, state)
			s.Cursor = "c" + string(state)
			if a.After[sid] == s.Cursor {
				select {
				case passive <- sessions.IsPassive(ctx):
				case <-ctx.Done():
					return sessions.WaitResult{}, context.Cause(ctx)
				}
				s.State, s.Cursor = state, "c"+string(state)
			}
			return sessions.WaitResult{Sessions: []sessions.Waited{{Session: s, Cursor: s.Cursor}}}, nil
		}
		c := start(t, b)
		ok(t, c.request("1", "resources/subscribe", `"uri":"`+sessionPrefix+sid+`"`), "subscribe")
		synctest.Wait()
		state = sessions.SessionClosed
		if <-passive {
			t.Error("a living session is only watched")
		}
		c.updated("its end")
		if !<-passive {
			t.Error("a session that is over has a host started")
		}
		c.quiet()
	})
}

// TestASubscriptionStream: since 2026-07-28 everything that is followed comes on the stream that asked for it, after its
// acknowledgement and under its id, and ends with it.
func TestASubscriptionStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy()
		c := start(t, b)
		uri := sessionPrefix + sid
		c.line(`{"jsonrpc":"2.0","id":77,"method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["` + uri + `"]},` + modern + `}}`)
		m := c.until("the acknowledgement", func(m received) bool { return m.Method != "" })
		if m.Method != mcp.MethodNotificationSubscriptionsAcknowledged || !strings.Contains(m.line, `"io.modelcontextprotocol/subscriptionId":77`) || !strings.Contains(m.line, uri) {
			t.Errorf("%s", m.line)
		}
		b.moves <- "c2"
		if m := c.updated("the session"); !strings.Contains(m.line, `"io.modelcontextprotocol/subscriptionId":77`) || !strings.Contains(m.line, `"uri":"`+uri+`"`) {
			t.Errorf("%s", m.line)
		}
		c.line(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_create","arguments":{"runner":"codex","cwd":"/work/app"},` + modern + `}}`)
		ok(t, c.answer("1"), "create")
		if m := c.until("the news of another list", func(m received) bool { return m.Method == mcp.MethodNotificationResourcesListChanged }); !strings.Contains(m.line, `subscriptionId":77`) {
			t.Errorf("%s", m.line)
		}
		c.cancel("77")
		synctest.Wait()
		time.Sleep(time.Minute)
		select {
		case b.moves <- "c3":
			t.Error("somebody still waits")
		default:
		}
		c.quiet()
	})
}

func TestTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy()
		pages := [][]sessions.Event{{
			{Kind: sessions.EventCommandSubmitted, Command: "one", Text: "Fix it."},
			{Kind: sessions.EventText, Command: "one", Item: "a", Text: "I will "},
			{Kind: sessions.EventText, Command: "one", Item: "b", Text: "half"},
			{Kind: sessions.EventText, Command: "one", Item: "a", Text: "look."},
		}, {
			{Kind: sessions.EventText, Command: "one", Item: "a", Final: true, Text: "I will look, now."},
			{Kind: sessions.EventText, Command: "one", Item: "b", Abandoned: true},
			{Kind: sessions.EventApprovalRequested, Command: "one", Request: &sessions.Request{Title: "run `x`\n# not a heading"}},
			{Kind: sessions.EventRequestResolved, Command: "one", Request: &sessions.Request{State: sessions.RequestAnswered, AnsweredBy: "local", Answer: &sessions.Answer{OptionID: "y"}, Options: []sessions.Option{{OptionID: "y", Label: "allow once"}}}},
			{Kind: sessions.EventToolCompleted, Command: "one", Tool: &sessions.Tool{Name: "command", Title: "echo `x`", Status: "completed", Exit: new(0), Output: "```\nx\n"}},
			{Kind: sessions.EventText, Command: "one", Item: "c", Text: "Done."},
			{Kind: sessions.EventCommandSettled, Command: "one", Settled: &sessions.Settlement{State: sessions.CommandCompleted, Outcome: "end_turn"}},
		}}
		b.read = func(_ context.Context, a sessions.ReadArgs) (sessions.ReadResult, error) {
			if a.After == "" {
				return sessions.ReadResult{Events: pages[0], Cursor: "p1", HasMore: true}, nil
			}
			return sessions.ReadResult{Events: pages[1], Cursor: "p2", Gap: &sessions.Gap{From: 5, To: 9, Reason: "cut"}}, nil
		}
		c := start(t, b)
		m := c.request("1", "resources/read", `"uri":"`+sessionPrefix+sid+`/transcript"`)
		var r struct {
			Contents []struct{ MIMEType, Text string }
		}
		if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Contents) != 1 || r.Contents[0].MIMEType != "text/markdown" {
			t.Fatalf("%v %s", err, m.line)
		}
		want := strings.ReplaceAll(`# Build | it

* session `+sid+`
* agent codex, model unknown
* folder /work/app
* state running

## Prompt

Fix it.

### Agent

I will look, now.

### Agent

half

*(given up)*

*Events 5 to 9 can no longer be read: cut*

> **Asks:** run 'x' # not a heading

> **answered** allow once by local

* **command** '' echo 'x' '' completed, exit 0

''''
'''
x
''''

### Agent

Done.

*Turn completed (end_turn)*
`, "'", "`")
		want = strings.Replace(want, "`` completed", "``: completed", 1)
		if r.Contents[0].Text != want {
			t.Errorf("got\n%s\nwant\n%s", r.Contents[0].Text, want)
		}
	})
}

func TestPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{})
		var l struct {
			Prompts []struct {
				Name, Description string
				Arguments         []struct {
					Name     string
					Required bool
				}
			}
		}
		m := c.request("1", "prompts/list", "")
		if err := json.Unmarshal(m.Result, &l); err != nil || len(l.Prompts) != 3 {
			t.Fatalf("%v %s", err, m.line)
		}
		for _, p := range l.Prompts {
			var given, required []string
			for _, a := range p.Arguments {
				given = append(given, `"`+a.Name+`":"MARK-`+a.Name+`"`)
				if a.Required {
					required = append(required, a.Name)
				}
			}
			m := c.request("2", "prompts/get", `"name":"`+p.Name+`","arguments":{`+strings.Join(given, ",")+`}`)
			for _, a := range p.Arguments {
				if !strings.Contains(m.line, "MARK-"+a.Name) {
					t.Errorf("%s loses its argument %s: %s", p.Name, a.Name, m.line)
				}
			}
			if len(m.Result) > 4000 {
				t.Errorf("%s has %d bytes", p.Name, len(m.Result))
			}
			for _, tool := range []string{"session_create", "session_send", "session_wait"} {
				if !strings.Contains(m.line, tool) {
					t.Errorf("%s does not name %s", p.Name, tool)
				}
			}
			if m := c.request("3", "prompts/get", `"name":"`+p.Name+`"`); (m.Error != nil) != (len(required) > 0) || m.Error != nil && m.Error.Code != mcp.INVALID_PARAMS {
				t.Errorf("%s without arguments: %s", p.Name, m.line)
			}
		}
	})
}

// TestSizes: hosts cut instructions and descriptions at 2 KB, and every listing is paid for in each conversation.
func TestSizes(t *testing.T) {
	if len(instructions) > 2048 {
		t.Errorf("the instructions have %d bytes", len(instructions))
	}
	for _, word := range []string{"session_create", "session_send", "session_wait", "session_respond"} {
		if !strings.Contains(instructions, word) {
			t.Errorf("the instructions do not name %s", word)
		}
	}
	all := tools()
	if len(all) > 12 {
		t.Errorf("%d tools", len(all))
	}
	for _, x := range all {
		if len(x.description) > 1024 {
			t.Errorf("%s is described in %d bytes", x.name, len(x.description))
		}
	}
}
