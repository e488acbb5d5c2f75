package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// agent is a fake whose session asks, until it has an answer.
type agent struct {
	fake
	mu      sync.Mutex
	request *sessions.Request
	changed chan struct{}
	answers []sessions.RespondArgs
}

func newAgent(q sessions.Request) *agent {
	q.RequestID, q.State = rid, sessions.RequestPending
	a := &agent{request: &q, changed: make(chan struct{})}
	session := func() sessions.Session {
		s := someSession(sid, sessions.SessionRunning)
		s.Cursor = "c1"
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.request != nil {
			s.Requests, s.NeedsInput = []sessions.Request{*a.request}, true
		} else {
			s.State = sessions.SessionIdle
		}
		return s
	}
	a.wait = func(ctx context.Context, w sessions.WaitArgs) (sessions.WaitResult, error) {
		s := session()
		if w.Until == "event" && s.NeedsInput {
			select {
			case <-a.changed:
				s = session()
			case <-time.After(time.Duration(*w.WaitSeconds) * time.Second):
				return sessions.WaitResult{TimedOut: true}, nil
			case <-ctx.Done():
				return sessions.WaitResult{}, context.Cause(ctx)
			}
		}
		return sessions.WaitResult{Sessions: []sessions.Waited{{Session: s, Cursor: "c2", Text: "done"}}}, nil
	}
	a.send = func(_ context.Context, x sessions.SendArgs) (sessions.SendResult, error) {
		return sessions.SendResult{Command: sessions.Command{CommandID: x.CommandID, State: sessions.CommandAccepted}, Session: session()}, nil
	}
	a.respond = func(_ context.Context, r sessions.RespondArgs) (sessions.RespondResult, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.request == nil {
			return sessions.RespondResult{}, sessions.Errorf(sessions.CodeAlreadyAnswered, "answered before")
		}
		if _, err := a.request.Resolve(r.Decision, r.OptionID, r.Scope, r.Answers, r.Form); err != nil {
			return sessions.RespondResult{}, err
		}
		a.answers, a.request = append(a.answers, r), nil
		close(a.changed)
		return sessions.RespondResult{Request: sessions.Request{RequestID: rid, State: sessions.RequestAnswered}, Session: someSession(sid, sessions.SessionRunning)}, nil
	}
	return a
}

func (a *agent) given() []sessions.RespondArgs {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]sessions.RespondArgs(nil), a.answers...)
}

var approval = sessions.Request{Kind: sessions.RequestApproval, Title: "run rm -rf build", Detail: "to clean up", Options: []sessions.Option{
	{OptionID: "yes", Kind: sessions.OptionAllowOnce, Label: "allow this once"},
	{OptionID: "always", Kind: sessions.OptionAllowAlways, Label: "allow for good"},
	{OptionID: "no", Kind: sessions.OptionRejectOnce, Label: "reject"}}}

const waitForIt = `{"session_ids":["` + sid + `"]}`

// asking starts a client that can be asked, of a version and with capabilities.
func asking(t *testing.T, api sessions.API, version, capabilities string) *client {
	t.Helper()
	c := startSilent(t, New(api, Options{Version: "test", Elicit: true}))
	go c.read()
	c.line(strings.Replace(strings.Replace(initialize, "2025-11-25", version, 1), `"capabilities":{}`, `"capabilities":`+capabilities, 1))
	ok(t, c.answer(`"init-1"`), "initialize")
	return c
}

func (c *client) question() (id string, params string) {
	c.t.Helper()
	m := c.until("a question to the user", func(m received) bool { return m.Method == "elicitation/create" })
	return string(m.ID), string(m.Params)
}

func (c *client) reply(id, result string) {
	c.t.Helper()
	c.line(`{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`)
}

// becomes returns what a result says about the question to the user.
func becomes(t *testing.T, m received) dialogState {
	t.Helper()
	r := m.tool(t)
	var s struct{ Elicitation *elicitation }
	if err := json.Unmarshal(r.Structured, &s); err != nil {
		t.Fatal(err)
	}
	if s.Elicitation == nil {
		return ""
	}
	if s.Elicitation.RequestID != rid || s.Elicitation.SessionID != sid || !strings.Contains(r.Content[0].Text, s.Elicitation.Note) {
		t.Errorf("%+v beside %q", s.Elicitation, r.Content[0].Text)
	}
	return s.Elicitation.State
}

func TestAnExplicitChoiceDecides(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(approval)
			c := asking(t, a, version, `{"elicitation":{}}`)
			c.call("1", "session_wait", waitForIt, "")
			id, params := c.question()
			titles := `"oneOf":[{"const":"yes","title":"allow this once"},{"const":"always","title":"allow for good"},{"const":"no","title":"reject"}]`
			if version < "2025-11-25" {
				titles = `"enum":["yes","always","no"],"enumNames":["allow this once","allow for good","reject"]`
			}
			for _, want := range []string{titles, "run rm -rf build", "to clean up", "codex", "/work/app", `"required":["decision"]`} {
				if !strings.Contains(params, want) {
					t.Errorf("%s: no %s in %s", version, want, params)
				}
			}
			if strings.Contains(params, "default") {
				t.Errorf("a choice is made beforehand: %s", params)
			}
			c.reply(id, `{"action":"accept","content":{"decision":"no"}}`)
			m := c.answer("1")
			if state := becomes(t, m); state != dialogAnswered || !strings.Contains(m.line, `"state":"idle"`) {
				t.Errorf("%s: %s, %s", version, state, m.line)
			}
			if given := a.given(); len(given) != 1 || given[0].OptionID != "no" || given[0].RequestID != rid || given[0].SessionID != sid {
				t.Errorf("%s: answers %+v", version, given)
			}
			c.quiet()
		})
	}
}

// TestNothingElseDecides: whatever a host answers but an accepted choice, the request stays as it is, the result says so,
// and nobody is asked again.
func TestNothingElseDecides(t *testing.T) {
	for name, reply := range map[string]string{
		"cancel": `"result":{"action":"cancel"}`, "decline": `"result":{"action":"decline"}`,
		"accept without content": `"result":{"action":"accept"}`, "accept without a choice": `"result":{"action":"accept","content":{}}`,
		"an unknown choice": `"result":{"action":"accept","content":{"decision":"approve"}}`, "a choice of another type": `"result":{"action":"accept","content":{"decision":true}}`,
		"no action": `"result":{}`, "an error": `"error":{"code":-32601,"message":"cannot"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(approval)
			c := asking(t, a, "2025-11-25", `{"elicitation":{"form":{}}}`)
			c.call("1", "session_wait", waitForIt, "")
			id, _ := c.question()
			c.line(`{"jsonrpc":"2.0","id":` + id + `,` + reply + `}`)
			want := dialogDismissed
			if name == "an error" {
				want = dialogFailed
			}
			for _, call := range []string{"1", "2"} {
				m := c.answer(call)
				if state := becomes(t, m); state != want || !strings.Contains(m.line, `"needs_input":true`) {
					t.Errorf("%s: %s, %s", name, state, m.line)
				}
				if call == "1" {
					c.call("2", "session_wait", waitForIt, "")
				}
			}
			if given := a.given(); len(given) != 0 {
				t.Errorf("%s: answers %+v", name, given)
			}
			c.quiet()
		})
	}
}

// TestAQuestionOutlivesItsCall: the call ends in its time, a repeated one and others join the question that is there,
// and the answer reaches the agent whichever of them waits.
func TestAQuestionOutlivesItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(approval)
		c := asking(t, a, "2025-11-25", `{"elicitation":{"form":{}}}`)
		began := time.Now()
		c.call("1", "session_wait", waitForIt, `{"claudecode/toolUseId":"toolu_1"}`)
		c.call("2", "session_wait", waitForIt, `{"claudecode/toolUseId":"toolu_1"}`)
		id, _ := c.question()
		for _, call := range []string{"1", "2"} {
			if state := becomes(t, c.answer(call)); state != dialogOpen {
				t.Errorf("call %s: %s", call, state)
			}
		}
		if took := time.Since(began); took > slice {
			t.Errorf("the calls took %s", took)
		}
		c.call("3", "session_wait", waitForIt, "")
		synctest.Wait()
		c.cancel("3") // the end of a call is not the end of the question
		c.call("4", "session_send", fmt.Sprintf(`{"session_id":%q,"text":"x","wait_seconds":20}`, sid), "")
		synctest.Wait()
		c.reply(id, `{"action":"accept","content":{"decision":"yes"}}`)
		if m := c.answer("4"); becomes(t, m) != dialogAnswered {
			t.Errorf("%s", m.line)
		}
		if given := a.given(); len(given) != 1 || given[0].OptionID != "yes" {
			t.Errorf("answers %+v", given)
		}
		c.quiet()
	})
}

// TestASettledRequestIsWithdrawn: when somebody else answers, the host is told that nobody waits for its user any more.
func TestASettledRequestIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(approval)
		c := asking(t, a, "2025-11-25", `{"elicitation":{}}`)
		c.call("1", "session_wait", waitForIt, "")
		id, _ := c.question()
		c.call("2", "session_respond", `{"session_id":"`+sid+`","request_id":"`+rid+`","decision":"deny"}`, "")
		ok(t, c.answer("2"), "respond")
		m := c.until("the withdrawal", func(m received) bool { return m.Method == "notifications/cancelled" })
		if !strings.Contains(string(m.Params), id) {
			t.Errorf("%s, want %s", m.Params, id)
		}
		if state := becomes(t, c.answer("1")); state != dialogOver {
			t.Errorf("state %s", state)
		}
		c.reply(id, `{"action":"accept","content":{"decision":"yes"}}`) // too late
		synctest.Wait()
		if given := a.given(); len(given) != 1 || given[0].Decision != "deny" {
			t.Errorf("answers %+v", given)
		}
		c.quiet()
	})
}

// TestNobodyIsAsked where nobody can be, or where the call does not wait.
func TestNobodyIsAsked(t *testing.T) {
	secret := sessions.Request{Kind: sessions.RequestQuestion, Title: "token?", Questions: []sessions.Question{{ID: "q", Text: "token?", Secret: true}}}
	many := sessions.Request{Kind: sessions.RequestQuestion, Title: "which?", Questions: []sessions.Question{{ID: "q", Text: "which?", Multiple: true, Options: []sessions.QuestionOption{{ID: "a", Label: "A"}}}}}
	send := fmt.Sprintf(`{"session_id":%q,"text":"x"}`, sid)
	for name, tt := range map[string]struct {
		request                           sessions.Request
		version, capabilities, tool, args string
	}{
		"no capability":          {approval, "2025-11-25", `{}`, "session_wait", waitForIt},
		"addresses only":         {approval, "2025-11-25", `{"elicitation":{"url":{}}}`, "session_wait", waitForIt},
		"a poll":                 {approval, "2025-11-25", `{"elicitation":{}}`, "session_wait", `{"session_ids":["` + sid + `"],"wait_seconds":0}`},
		"a send that returns":    {approval, "2025-11-25", `{"elicitation":{}}`, "session_send", send},
		"a secret":               {secret, "2025-11-25", `{"elicitation":{}}`, "session_wait", waitForIt},
		"several, an older host": {many, "2025-06-18", `{"elicitation":{}}`, "session_wait", waitForIt},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := asking(t, newAgent(tt.request), tt.version, tt.capabilities)
			c.call("1", tt.tool, tt.args, "")
			if m := c.answer("1"); becomes(t, m) != "" || !strings.Contains(m.line, `"needs_input":true`) {
				t.Errorf("%s: %s", name, m.line)
			}
			c.quiet()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newAgent(approval)) // Elicit is off
		c.line(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
		ok(t, c.answer(`"init-1"`), "initialize")
		c.call("1", "session_wait", waitForIt, "")
		if m := c.answer("1"); becomes(t, m) != "" {
			t.Errorf("off: %s", m.line)
		}
		c.quiet()
	})
}

func TestQuestionsAndForms(t *testing.T) {
	for name, tt := range map[string]struct {
		request      sessions.Request
		capabilities string
		params       []string
		reply        string
		want         sessions.RespondArgs
	}{
		"options, several, own words": {sessions.Request{Kind: sessions.RequestQuestion, Title: "two things", Questions: []sessions.Question{
			{ID: "z", Header: "Colour", Text: "which colour?", Options: []sessions.QuestionOption{{ID: "r", Label: "Red", Description: "like blood"}, {ID: "b", Label: "Blue"}}, FreeText: true},
			{ID: "a", Text: "which sizes?", Multiple: true, Options: []sessions.QuestionOption{{ID: "s", Label: "S"}, {ID: "m", Label: "M"}}},
			{ID: "f", Text: "why?"}}},
			`{"elicitation":{}}`, []string{`"z":{`, `"title":"Red: like blood"`, `"type":"array"`, `"required":["a","f"]`, `"z (own words)"`},
			`{"action":"accept","content":{"z (own words)":"green","a":["s","m"],"f":"so"}}`,
			sessions.RespondArgs{Answers: map[string][]string{"z": {"green"}, "a": {"s", "m"}, "f": {"so"}}}},
		"a form of the agent": {sessions.Request{Kind: sessions.RequestQuestion, Title: "fill in", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			`{"elicitation":{}}`, []string{`"requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}}}`},
			`{"action":"accept","content":{"n":12345678901234567890}}`, sessions.RespondArgs{Form: json.RawMessage(`{"n":12345678901234567890}`)}},
		"an address": {sessions.Request{Kind: sessions.RequestApproval, Title: "log in", URL: "https://login.example/x", Options: []sessions.Option{{OptionID: "decline", Kind: sessions.OptionRejectOnce}, {OptionID: "accept", Kind: sessions.OptionAllowOnce}}},
			`{"elicitation":{"form":{},"url":{}}}`, []string{`"mode":"url"`, `"url":"https://login.example/x"`, `"elicitationId":"` + rid + `"`},
			`{"action":"accept"}`, sessions.RespondArgs{OptionID: "accept"}},
		"an address as a form": {sessions.Request{Kind: sessions.RequestApproval, Title: "log in", URL: "https://login.example/x", Options: []sessions.Option{{OptionID: "accept", Kind: sessions.OptionAllowOnce, Label: "done"}}},
			`{"elicitation":{}}`, []string{`https://login.example/x`, `"decision"`},
			`{"action":"accept","content":{"decision":"done"}}`, sessions.RespondArgs{OptionID: "accept"}},
		"no options": {sessions.Request{Kind: sessions.RequestApproval, Title: "sure?"}, `{"elicitation":{}}`, []string{`"const":"approve"`, `"const":"deny"`},
			`{"action":"accept","content":{"decision":"deny"}}`, sessions.RespondArgs{Decision: "deny"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(tt.request)
			c := asking(t, a, "2025-11-25", tt.capabilities)
			c.call("1", "session_wait", waitForIt, "")
			id, params := c.question()
			for _, want := range tt.params {
				if !strings.Contains(params, want) {
					t.Errorf("%s: no %s in %s", name, want, params)
				}
			}
			if strings.Index(params, `"z"`) > strings.Index(params, `"a"`) {
				t.Errorf("%s: out of order: %s", name, params)
			}
			c.reply(id, tt.reply)
			if state := becomes(t, c.answer("1")); state != dialogAnswered {
				t.Errorf("%s: %s", name, state)
			}
			tt.want.SessionID, tt.want.RequestID = sid, rid
			got, _ := json.Marshal(a.given())
			want, _ := json.Marshal([]sessions.RespondArgs{tt.want})
			if string(got) != string(want) {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		})
	}
}

// rounds are the members of a result that asks for another round.
type rounds struct {
	ResultType    string
	RequestState  string
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
}

// TestRoundsOfTheModernEra: the question comes as the result of the call, and the call is repeated with the answer, under
// the key of its first round.
func TestRoundsOfTheModernEra(t *testing.T) {
	meta := strings.Replace(modern, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}`, 1)
	send := func(c *client, id, more string) received {
		c.line(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"session_send","arguments":` +
			fmt.Sprintf(`{"session_id":%q,"text":"x","wait_seconds":20}`, sid) + `,` + meta + more + `}}`)
		return c.answer(id)
	}
	for reply, want := range map[string]dialogState{`{"action":"accept","content":{"decision":"yes"}}`: dialogAnswered, `{"action":"cancel"}`: dialogDismissed} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(approval)
			c := startSilent(t, New(a, Options{Version: "test", Elicit: true}))
			go c.read()
			m := send(c, "1", "")
			var r rounds
			if err := json.Unmarshal(m.Result, &r); err != nil || r.ResultType != "input_required" || r.RequestState == "" || r.InputRequests[rid].Method != "elicitation/create" ||
				!strings.Contains(string(r.InputRequests[rid].Params), `"oneOf":[{"const":"yes"`) {
				t.Fatalf("%v: %s", err, m.line)
			}
			m = send(c, "2", `,"requestState":"`+r.RequestState+`","inputResponses":{"`+rid+`":`+reply+`}`)
			if state := becomes(t, m); state != want {
				t.Errorf("%s: %s in %s", reply, state, m.line)
			}
			var ids []string
			for _, x := range a.calls() {
				if s, ok := x.(sessions.SendArgs); ok {
					ids = append(ids, s.CommandID)
				}
			}
			if len(ids) != 2 || ids[0] != ids[1] || ids[0] == "" {
				t.Errorf("command ids %q", ids)
			}
			if given := a.given(); (len(given) == 1) != (want == dialogAnswered) {
				t.Errorf("answers %+v", given)
			}
			if want == dialogDismissed { // not asked again
				if m := send(c, "3", ""); strings.Contains(m.line, "input_required") {
					t.Errorf("asked again: %s", m.line)
				}
			}
			c.quiet()
		})
	}
}

// TestForgedRounds: what no round of ours has said changes nothing.
func TestForgedRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(approval)
		c := startSilent(t, New(a, Options{Version: "test", Elicit: true}))
		go c.read()
		for i, more := range []string{`,"requestState":"x","inputResponses":{"` + rid + `":{"action":"accept","content":{"decision":"yes"}}}`, `,"requestState":7`,
			`,"inputResponses":{"` + rid + `":{"action":"accept","content":{"decision":"yes"}}}`} {
			id := fmt.Sprint(i)
			c.line(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"session_wait","arguments":` + waitForIt + `,` + modern + more + `}}`)
			c.answer(id)
		}
		if given := a.given(); len(given) != 0 {
			t.Errorf("answers %+v", given)
		}
	})
}
