package acp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// asksForeign asks the peer, who has been told what to answer.
func asksForeign(t *testing.T, ask sessions.ForeignAsk, with func(*peer)) (sessions.ForeignSaid, error) {
	t.Helper()
	conn, p := link(t)
	with(p)
	return Foreign(testContext(t), conn, ask, Options{})
}

// listing answers initialize and session/list, a page for each entry.
func (p *peer) listing(entries ...string) {
	p.on("initialize", `"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{}}}}`)
	p.answer("session/list", func(m message) string {
		n := 0
		if c, ok := m.param(p.t, "cursor").(string); ok {
			fmt.Sscan(c, &n)
		}
		next := ""
		if n+1 < len(entries) {
			next = fmt.Sprintf(`,"nextCursor":"%d"`, n+1)
		}
		return `"result":{"sessions":[` + entries[n] + `]` + next + `}`
	})
}

const entryS1 = `{"sessionId":"s1","cwd":"/w","title":"T","updatedAt":"2026-11-30T10:00:00.5Z"}`

func TestForeignList(t *testing.T) {
	said, err := asksForeign(t, sessions.ForeignAsk{}, func(p *peer) { p.listing(entryS1, `{"sessionId":"s2","cwd":"/x"}`, `{"cwd":"/no-id"}`) })
	if err != nil || len(said.Conversations) != 2 {
		t.Fatalf("%+v, %v", said, err)
	}
	if c := said.Conversations[0]; c.NativeID != "s1" || c.Cwd != "/w" || c.Title != "T" || c.UpdatedAt.IsZero() || !said.Conversations[1].UpdatedAt.IsZero() {
		t.Errorf("%+v", said.Conversations)
	}
	if said, err := asksForeign(t, sessions.ForeignAsk{Limit: 1}, func(p *peer) { p.listing(entryS1, entryS1) }); err != nil || len(said.Conversations) != 1 {
		t.Errorf("with a limit: %+v, %v", said, err)
	}
	_, err = asksForeign(t, sessions.ForeignAsk{}, func(p *peer) { p.on("initialize", `"result":{"protocolVersion":1,"agentCapabilities":{}}`) })
	if sessions.CodeOf(err) != sessions.CodeUnsupported {
		t.Errorf("of an agent that has no list: %v", err)
	}
	_, err = asksForeign(t, sessions.ForeignAsk{NativeID: "s9"}, func(p *peer) { p.listing(entryS1) })
	if sessions.CodeOf(err) != sessions.CodeNotFound {
		t.Errorf("one that is not there: %v", err)
	}
	_, err = asksForeign(t, sessions.ForeignAsk{}, func(p *peer) {
		p.listing(entryS1)
		p.on("session/list", `"error":{"code":-32000,"message":"log in"}`)
	})
	if sessions.CodeOf(err) != sessions.CodeNotLoggedIn {
		t.Errorf("signed out: %v", err)
	}
}

// An answer without a list is not taken for one of nothing.
func TestForeignListIsAList(t *testing.T) {
	for _, result := range []string{`null`, `{}`, `{"sessions":null}`, `{"sessions":{"sessionId":"s1"}}`, `[]`} {
		_, err := asksForeign(t, sessions.ForeignAsk{}, func(p *peer) {
			p.listing(entryS1)
			p.on("session/list", `"result":`+result)
		})
		if sessions.CodeOf(err) != sessions.CodeAgentProtocol {
			t.Errorf("%s: %v", result, err)
		}
	}
}

// A list logs nobody in: a Cursor that is signed out would open a browser.
func TestForeignListLogsNobodyIn(t *testing.T) {
	var seen *peer
	said, err := asksForeign(t, sessions.ForeignAsk{}, func(p *peer) {
		seen = p
		p.listing(entryS1)
		p.on("initialize", `"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"list":{}}},"authMethods":[{"id":"cursor_login","name":"L"}]}`)
	})
	if err != nil || len(said.Conversations) != 1 || seen.sent("authenticate") != 0 {
		t.Errorf("%+v, %v, authenticate was sent %d times", said, err, seen.sent("authenticate"))
	}
}

// What the replay says becomes events that belong to no command; what it asks is declined.
func TestForeignRead(t *testing.T) {
	said, err := asksForeign(t, sessions.ForeignAsk{NativeID: "s1", Events: true}, func(p *peer) {
		p.listing(entryS1)
		p.answer("session/load", func(m message) string {
			if m.param(p.t, "cwd") != "/w" {
				p.t.Errorf("loaded in %v", m.param(p.t, "cwd"))
			}
			p.update(`"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a long "}`)
			p.replayed()
			p.update(`"sessionUpdate":"user_message_chunk","messageId":"u1","content":{"type":"text","text":"one"}`)
			p.update(`"sessionUpdate":"user_message_chunk","messageId":"u2","content":{"type":"text","text":"two"}`)
			p.update(`"sessionUpdate":"tool_call","toolCallId":"open","title":"left open","kind":"execute","status":"in_progress"`)
			return `"result":null`
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range said.Events {
		if !e.Replay || e.Command != "" {
			t.Errorf("%+v", e)
		}
		text := e.Text
		if e.Tool != nil {
			text = e.Tool.Title + " " + e.Tool.Status
		}
		got = append(got, string(e.Kind)+" "+strings.TrimSpace(text))
	}
	want := []string{"command.submitted a long old prompt", "text OLD", "text OLDER", "tool.completed rm completed", "plan - [ ] old",
		"command.submitted one", "command.submitted two", "tool.completed left open unfinished"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
