package acp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

var resumeS1 = sessions.OpenParams{NativeID: "s1", HadTurn: true}

func (p *peer) replayed() {
	p.update(`"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"old prompt"}`)
	p.text("OLD")
	p.update(`"sessionUpdate":"agent_message_chunk","messageId":"m-old","content":{"type":"text","text":"OLDER"}`)
	p.update(`"sessionUpdate":"tool_call","toolCallId":"rejected","title":"rm","status":"completed"`)
	p.update(`"sessionUpdate":"plan","entries":[{"content":"old","status":"pending"}]`)
	p.update(`"sessionUpdate":"brand_new_kind"`)
	p.notify("cursor/update_todos", `{"todos":[{"id":"1","content":"old"}]}`)
	p.request(`"replay-todo"`, "cursor/update_todos", `{"toolCallId":"t","todos":[],"merge":false}`)
	p.request(`"replay-ask"`, "session/request_permission", permission("rejected", someOptions))
}

// RE-03: a replay is history, before the answer to session/load and right after it.
func TestRE03_ReplayIsHistory(t *testing.T) {
	for _, method := range []string{"session/load", "session/resume"} {
		f := newFixture(t, Options{})
		f.peer.likeCursor()
		if method == "session/resume" {
			f.peer.on("initialize", `"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}`)
		}
		f.peer.answer(method, func(message) string {
			f.peer.replayed()
			return `"result":null`
		})
		o, err := f.open(resumeS1)
		if err != nil || o.NativeID != "s1" || o.Recreated {
			t.Fatalf("%+v, %v", o, err)
		}
		if m := f.peer.reply(`"replay-todo"`); string(m.Result) != "{}" {
			t.Errorf("the todos of the replay were answered with %s", m.Result)
		}
		if word, _ := f.peer.reply(`"replay-ask"`).outcome(t); word != "cancelled" {
			t.Errorf("the approval of the replay was answered with %s", word)
		}
		f.peer.text("OLD AFTER THE ANSWER")
		f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"rejected","status":"failed"`)
		f.peer.update(`"sessionUpdate":"usage_update","used":1,"size":2`)
		f.rec.await(sessions.EventUsage)
		if before := f.rec.all(); len(before) != 1 {
			t.Errorf("before the first prompt: %s", f.rec.story())
		}

		m := f.prompt("c1")
		f.peer.update(`"sessionUpdate":"agent_message_chunk","messageId":"m-old","content":{"type":"text","text":"OLDEST"}`)
		f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"rejected","status":"failed"`)
		f.peer.text("NEW")
		f.peer.result(m, `{"stopReason":"end_turn"}`)
		f.settled()
		if f.rec.text("c1", false) != "NEW" {
			t.Errorf("text of the turn %q", f.rec.text("c1", false))
		}
		for _, e := range f.rec.all() {
			if strings.Contains(e.Text, "OLD") && !e.Late || e.Kind == sessions.EventToolStarted || e.Kind == sessions.EventPlan || e.Kind == sessions.EventApprovalRequested {
				t.Errorf("history as output: %+v", e)
			}
		}
	}
}

// RE-01: each way in which the conversation is not there any more is an error, never another or a new one.
func TestRE01_NeverAnotherConversation(t *testing.T) {
	notFound := func(code int) string {
		return fmt.Sprintf(`"error":{"code":%d,"message":"Invalid params","data":{"message":"Session \"s1\" not found"}}`, code)
	}
	for answer, code := range map[string]sessions.Code{
		notFound(-32602): sessions.CodeNotFound,
		notFound(-32603): sessions.CodeNotFound,
		notFound(-32002): sessions.CodeNotFound,
		`"error":{"code":-32603,"message":"Internal error","data":"ENOENT: no such file or directory, open 's1.jsonl'"}`: sessions.CodeNotFound,
		`"error":{"code":-32000,"message":"Authentication required"}`:                                                    sessions.CodeNotLoggedIn,
		`"error":{"code":-32601,"message":"Method not found"}`:                                                           sessions.CodeUnsupported,
		`"error":{"code":-1,"message":"weather"}`:                                                                        sessions.CodeAgentProtocol,
		`"result":{"sessionId":"other"}`:                                                                                 sessions.CodeAgentProtocol,
	} {
		f := newFixture(t, Options{})
		f.peer.likeCursor()
		f.peer.on("session/load", answer)
		_, err := f.open(resumeS1)
		if sessions.CodeOf(err) != code || f.peer.sent("session/new") > 0 {
			t.Errorf("%s: %v, session/new %d times", answer, err, f.peer.sent("session/new"))
		}
		if code == sessions.CodeNotFound && sessions.AsError(err).Details["cause"] == "" {
			t.Errorf("%s: no cause", answer)
		}
		if answer == `"result":{"sessionId":"other"}` && !strings.Contains(err.Error(), "identity changed") {
			t.Errorf("%v", err)
		}
	}
}

// RE-01: a conversation that cannot be read is not one that is missing, also where no turn ever ran: none is begun in its
// place.
func TestRE01_UnreadableIsNotMissing(t *testing.T) {
	for _, failure := range []string{
		`"message":"EIO: i/o error, read"`,
		`"message":"Internal error","data":{"details":"EACCES: permission denied, open '/h/s1.jsonl'"}`,
		`"message":"Internal error","data":"Permission denied (os error 13)"`,
		`"message":"open s1.jsonl: too many open files"`,
	} {
		for _, had := range []bool{false, true} {
			f := newFixture(t, Options{})
			f.peer.likeCursor()
			f.peer.on("session/load", `"error":{"code":-32603,`+failure+`}`)
			o, err := f.open(sessions.OpenParams{NativeID: "s1", HadTurn: had})
			e := sessions.AsError(err)
			if err == nil || e.Code != sessions.CodeAgentProtocol || e.Action == "" || o.Recreated || f.peer.sent("session/new") > 0 {
				t.Errorf("%s, had a turn %t: %+v, %v", failure, had, o, err)
			}
		}
	}
}

// The agent's own list tells a conversation that is gone from one that could not be loaded this time: what is there must
// not be begun anew.
func TestListTellsWhatAFailedLoadMeans(t *testing.T) {
	for name, c := range map[string]struct {
		list string
		want sessions.Code // "": begun anew
	}{
		"listed":        {`"result":{"sessions":[{"sessionId":"s0"},{"sessionId":"s1"}]}`, sessions.CodeAgentProtocol},
		"on page two":   {"", sessions.CodeAgentProtocol},
		"not listed":    {`"result":{"sessions":[{"sessionId":"s0"}]}`, ""},
		"cursor loop":   {`"result":{"sessions":[],"nextCursor":"x"}`, ""},
		"list fails":    {`"error":{"code":-32603,"message":"x"}`, ""},
		"list is empty": {`"result":null`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Options{})
			f.peer.likeCursor()
			f.peer.on("session/load", `"error":{"code":-32603,"message":"Internal error"}`)
			f.peer.answer("session/list", func(m message) string {
				switch {
				case m.param(t, "cwd") != "/work":
					t.Errorf("listed with %s", m.Params)
				case c.list != "":
					return c.list
				case m.param(t, "cursor") == "p2":
					return `"result":{"sessions":[{"sessionId":"s1"}]}`
				}
				return `"result":{"sessions":[{"sessionId":"s0"}],"nextCursor":"p2"}`
			})
			o, err := f.open(sessions.OpenParams{NativeID: "s1"})
			if sessions.CodeOf(err) != c.want || (c.want == "") != o.Recreated || f.peer.sent("session/new") > 0 != o.Recreated {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
}

// Cursor does not keep a conversation that never ran a turn (2026.09.18); Gemini keeps none at all.
func TestResumeOfWhatNeverRan(t *testing.T) {
	for name, set := range map[string]func(*peer){
		"not kept": func(p *peer) { p.on("session/load", `"error":{"code":-32602,"message":"not found"}`) },
		"cannot load": func(p *peer) {
			p.on("initialize", `"result":{"protocolVersion":1,"authMethods":[{"id":"cursor_login"}]}`)
		},
	} {
		f := newFixture(t, Options{})
		f.peer.likeCursor()
		set(f.peer)
		o, err := f.open(sessions.OpenParams{NativeID: "s0", Selection: sessions.Selection{Mode: "plan"}})
		if err != nil || !o.Recreated || o.NativeID != "s1" || o.Evidence.Mode != "plan" {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	f := newFixture(t, Options{})
	f.peer.on("initialize", `"result":{"protocolVersion":1}`)
	if _, err := f.open(resumeS1); sessions.CodeOf(err) != sessions.CodeUnsupported || f.peer.sent("session/new") > 0 {
		t.Errorf("a conversation with turns on an agent that cannot load: %v", err)
	}
}

func TestLoadIsBounded(t *testing.T) {
	f := newFixture(t, Options{LoadTimeout: time.Millisecond})
	f.peer.likeCursor()
	f.peer.answer("session/load", func(message) string {
		f.peer.text("OLD")
		return ""
	})
	if _, err := f.open(resumeS1); sessions.CodeOf(err) != sessions.CodeTimeout {
		t.Errorf("%v", err)
	}
	if n := len(f.rec.all(sessions.EventText)); n != 0 {
		t.Errorf("%d texts of the replay", n)
	}
}

// MO-01 (d): after a load the agent stands at its defaults again; everything is applied and confirmed anew.
func TestMO01_SelectionsAfterALoad(t *testing.T) {
	f := newFixture(t, Options{})
	f.peer.likeCursor()
	f.peer.answer("session/load", func(message) string { return `"result":{"configOptions":` + f.peer.config.set() + `}` })
	p := resumeS1
	p.Selection = sessions.Selection{Model: "claude-opus-5", Effort: "max", Mode: "plan"}
	o, err := f.open(p)
	if err != nil || o.Evidence.Model != "claude-opus-5" || o.Evidence.Effort != "max" || o.Evidence.Mode != "plan" {
		t.Errorf("%+v, %v", o.Evidence, err)
	}
	if n := f.peer.sent("session/set_config_option"); n != 3 {
		t.Errorf("%d options were set, want 3", n)
	}
}
