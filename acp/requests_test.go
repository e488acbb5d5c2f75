package acp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

const someOptions = `[{"optionId":"allow-once","name":"Allow once","kind":"allow_once"},{"optionId":"allow-always","name":"Allow always","kind":"allow_always"},{"optionId":"reject-once","name":"Reject","kind":"reject_once"}]`

func permission(tool, options string) string {
	return fmt.Sprintf(`{"sessionId":"s1","toolCall":{"toolCallId":%q,"title":"rm x","kind":"execute","status":"pending","rawInput":{"command":"rm x"},"content":[{"type":"content","content":{"type":"text","text":"Not in allowlist: rm"}}]},"options":%s}`, tool, options)
}

// resolve answers a request as the host does for a caller's words.
func (f *fixture) resolve(r *sessions.Request, decision, option string) error {
	f.Helper()
	answer, err := r.Resolve(decision, option, "", nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	return f.Agent.Answer(f.ctx, answer)
}

func (m message) outcome(t *testing.T) (word, option string) {
	t.Helper()
	var r struct {
		Outcome struct{ Outcome, OptionID string }
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatalf("result %s: %v", m.Result, err)
	}
	return r.Outcome.Outcome, r.Outcome.OptionID
}

func TestPermission(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.request("0", "session/request_permission", permission("t1", someOptions))
	if e := f.rec.await(sessions.EventCommandAccepted); e.Command != "c1" {
		t.Errorf("accepted %+v", e)
	}
	e := f.rec.await(sessions.EventApprovalRequested)
	r := e.Request
	if r.Kind != sessions.RequestApproval || r.Title != "rm x" || r.Detail != "rm x\nNot in allowlist: rm" || r.Command != "c1" ||
		r.Tool == nil || r.Tool.Name != "execute" || e.Item != "t1" || len(r.Options) != 3 {
		t.Errorf("request %+v", r)
	}
	for _, o := range r.Options {
		if !strings.Contains(o.Label, "this time only") && !strings.Contains(o.Label, "from now on") {
			t.Errorf("option %s does not say how far it reaches: %q", o.OptionID, o.Label)
		}
	}
	if n := len(f.rec.all(sessions.EventToolStarted)); n != 1 {
		t.Errorf("%d tools began, want one made of the request", n)
	}
	if err := f.resolve(r, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if word, option := f.peer.reply("0").outcome(t); word != "selected" || option != "allow-once" {
		t.Errorf("answered %s %s", word, option)
	}
	f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"gone"}}]`)
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	if done := f.rec.await(sessions.EventToolCompleted); done.Tool.Title != "rm x" || done.Tool.Output != "gone" {
		t.Errorf("tool %+v", done.Tool)
	}
	f.settled()

	err := f.Agent.Answer(f.ctx, sessions.Answer{Handle: r.Handle, OptionID: "allow-once"})
	if sessions.CodeOf(err) != sessions.CodeWithdrawn || !errors.Is(err, sessions.ErrNotWritten) {
		t.Errorf("a second answer: %v", err)
	}
}

// The answer carries the request's id byte for byte, and is for the request that it names, in whatever order.
func TestPermissionIDsAndOrder(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	f.prompt("c1")
	ids := []string{"0", `"1c4d4cad-fa5d-4f83-8066-dbd719a999ad"`, "-1", "9007199254740991", `"0"`}
	var open []*sessions.Request
	for i, id := range ids {
		f.peer.request(id, "session/request_permission", permission(fmt.Sprint("t", i), someOptions))
		open = append(open, f.rec.await(sessions.EventApprovalRequested).Request)
	}
	for i := len(ids) - 1; i >= 0; i-- {
		if err := f.resolve(open[i], "", []string{"allow-once", "reject-once"}[i%2]); err != nil {
			t.Fatal(err)
		}
		if _, option := f.peer.reply(ids[i]).outcome(t); option != []string{"allow-once", "reject-once"}[i%2] {
			t.Errorf("%s answered %s", ids[i], option)
		}
	}
}

// AP-01: no request with an id is left without a pending item or an answer.
func TestAP01_EveryRequestIsAnswered(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	f.prompt("c1")
	for i, c := range []struct{ method, params string }{
		{"fs/read_text_file", `{"sessionId":"s1","path":"/etc/hosts"}`},
		{"terminal/create", `{"sessionId":"s1","command":"ls"}`},
		{"cursor/brand_new", `{}`},
		{"craft/drainMidTurnQueue", `{}`},
	} {
		id := fmt.Sprint(i)
		f.peer.request(id, c.method, c.params)
		if r := f.peer.reply(id); r.Error == nil || r.Error.Code != -32601 {
			t.Errorf("%s answered with %+v", c.method, r)
		}
		if w := f.rec.await(sessions.EventWarning); !strings.Contains(w.Text, c.method) {
			t.Errorf("%s: warning %q", c.method, w.Text)
		}
	}
	for i, c := range []struct{ method, params, result string }{
		{"session/request_permission", `{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":[]}`, `{"outcome":{"outcome":"cancelled"}}`},
		{"session/request_permission", `{"sessionId":"s1","toolCall":7,"options":"all"}`, `{"outcome":{"outcome":"cancelled"}}`},
		{"session/request_permission", `null`, `{"outcome":{"outcome":"cancelled"}}`},
		{"cursor/ask_question", `{"questions":[{"prompt":"without id"}]}`, `{"outcome":{"outcome":"skipped","reason":"its questions cannot be answered by option id"}}`},
		{"cursor/ask_question", `{"questions":{}}`, `{"outcome":{"outcome":"skipped","reason":"its questions cannot be answered by option id"}}`},
		{"elicitation/create", `{"sessionId":"s1","mode":"telepathy","message":"?"}`, `{"action":"cancel"}`},
		{"elicitation/create", `{"sessionId":"s1","mode":"form","message":"?","requestedSchema":"no"}`, `{"action":"cancel"}`},
	} {
		id := fmt.Sprint(100 + i)
		f.peer.request(id, c.method, c.params)
		if r := f.peer.reply(id); string(r.Result) != c.result {
			t.Errorf("%s %s answered with %s %+v", c.method, c.params, r.Result, r.Error)
		}
		if w := f.rec.await(sessions.EventWarning); !strings.Contains(w.Text, "declined") {
			t.Errorf("%s: warning %q", c.method, w.Text)
		}
	}
	f.peer.write(`{"jsonrpc":"2.0","id":200,"method":7}`)
	if r := f.peer.reply("200"); r.Error == nil {
		t.Errorf("a method that is no string: %+v", r)
	}
}

// AP-02: the request stays open until it is answered, and its answer reaches the agent once.
func TestAP02_AnswerReachesTheAgentOnce(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	f.prompt("c1")
	f.peer.request("0", "session/request_permission", permission("t1", someOptions))
	r := f.rec.await(sessions.EventApprovalRequested).Request
	answers := make(chan error, 2)
	for _, option := range []string{"allow-once", "reject-once"} { // AP-03: two at the same instant
		go func() { answers <- f.Agent.Answer(f.ctx, sessions.Answer{Handle: r.Handle, OptionID: option}) }()
	}
	var refused []error
	for range 2 {
		if err := <-answers; err != nil {
			refused = append(refused, err)
		}
	}
	if len(refused) != 1 || sessions.CodeOf(refused[0]) != sessions.CodeWithdrawn {
		t.Errorf("refused %v, want one", refused)
	}
	f.peer.reply("0")
	if n := f.peer.sent(""); n != 1 {
		t.Errorf("%d answers on the wire", n)
	}
}

// AP-03: a withdrawn request takes no answer.
func TestAP03_WithdrawnByTheAgent(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	f.prompt("c1")
	f.peer.request(`"q"`, "cursor/ask_question", `{"toolCallId":"t","title":"T","questions":[{"id":"a","prompt":"?","options":[{"id":"x","label":"X"}]}]}`)
	r := f.rec.await(sessions.EventQuestionRequested).Request
	f.peer.notify("$/cancel_request", `{"requestId":"another"}`)
	f.peer.notify("$/cancel_request", `{"requestId":"q"}`)
	if m := f.peer.reply(`"q"`); m.Error == nil || m.Error.Code != -32800 {
		t.Errorf("answered with %+v", m)
	}
	if e := f.rec.await(sessions.EventRequestResolved); e.Request.Handle != r.Handle || e.Request.State != sessions.RequestWithdrawn || e.Request.Reason == "" {
		t.Errorf("resolved %+v", e.Request)
	}
	err := f.Agent.Answer(f.ctx, sessions.Answer{Handle: r.Handle, Answers: map[string][]string{"a": {"x"}}})
	if sessions.CodeOf(err) != sessions.CodeWithdrawn || !errors.Is(err, sessions.ErrNotWritten) {
		t.Errorf("%v", err)
	}
}

// AP-04: by kind and exact id, never by position; a denial is no cancel where there is an option for it.
func TestAP04_ByKindNeverByPosition(t *testing.T) {
	wide := `{"optionId":"x1","kind":"allow_always"},{"optionId":"x2","kind":"allow_once"}`
	for _, c := range []struct{ options, decision, option, word, want string }{
		{wide, "deny", "", "cancelled", ""},
		{wide + `,{"optionId":"zz","kind":"reject_once"}`, "deny", "", "selected", "zz"},
		{wide, "approve", "", "selected", "x2"},
		{`{"optionId":"once","kind":"allow_once"},{"optionId":"once-and-default","kind":"allow_once"}`, "", "once-and-default", "selected", "once-and-default"},
		{`{"optionId":"proceed_once","kind":"allow_once"},{"optionId":"cancel","kind":"reject_once"}`, "approve", "", "selected", "proceed_once"},
		{`{"optionId":"a","kind":"allow_once"}`, "deny", "", "cancelled", ""},
		{`{"optionId":"new","kind":"allow_fortnight"},{"optionId":"n","kind":"reject_once"}`, "deny", "", "selected", "n"},
	} {
		f := opened(t, Options{}, sessions.OpenParams{})
		f.prompt("c1")
		f.peer.request("0", "session/request_permission", permission("t", "["+c.options+"]"))
		r := f.rec.await(sessions.EventApprovalRequested).Request
		if err := f.Agent.Answer(f.ctx, sessions.Answer{Handle: r.Handle, OptionID: "not offered"}); sessions.CodeOf(err) != sessions.CodeInvalidParams ||
			!errors.Is(err, sessions.ErrNotWritten) {
			t.Errorf("an option that is not offered: %v", err)
		}
		if err := f.resolve(r, c.decision, c.option); err != nil {
			t.Fatal(err)
		}
		if word, option := f.peer.reply("0").outcome(t); word != c.word || option != c.want {
			t.Errorf("%s%s of %s answered %s %q, want %s %q", c.decision, c.option, c.options, word, option, c.word, c.want)
		}
	}
}

// AP-05: nothing is answered on the user's behalf while the turn lives, and what its end leaves open is told.
func TestAP05_QuestionsWait(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.request("1", "cursor/ask_question", `{"toolCallId":"t","questions":[{"id":"a","prompt":"?","options":[{"id":"x","label":"X"}]}]}`)
	r := f.rec.await(sessions.EventQuestionRequested).Request
	f.peer.text("still waiting")
	f.rec.await(sessions.EventText)
	if n := f.peer.sent(""); n != 0 {
		t.Fatalf("%d answers that nobody gave", n)
	}
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	if e := f.rec.await(sessions.EventRequestResolved); e.Request.Handle != r.Handle || e.Request.State != sessions.RequestWithdrawn {
		t.Errorf("resolved %+v", e.Request)
	}
	if word, _ := f.peer.reply("1").outcome(t); word != "cancelled" {
		t.Errorf("answered %s", word)
	}
	f.settled()
}

func TestRequestsOutsideATurn(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.update(`"sessionUpdate":"tool_call","toolCallId":"old","title":"x"`)
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	f.settled()
	f.peer.request("0", "session/request_permission", permission("t", someOptions))
	if word, _ := f.peer.reply("0").outcome(t); word != "cancelled" {
		t.Errorf("with no turn: %s", word)
	}
	if n := len(f.rec.all(sessions.EventApprovalRequested)); n != 0 {
		t.Errorf("%d approvals were asked for", n)
	}
}

// An agent counts its tools anew in each turn, and asks before it announces one: the request is the running turn's, and so is
// what follows of the tool. It proves that the prompt was taken only where the tool of that id had ended.
func TestRequestsWithAnIDUsedBefore(t *testing.T) {
	for name, tt := range map[string]struct {
		before   string // what the first turn told of its tool
		accepted bool
	}{
		"that had ended":     {`"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"`, true},
		"that was left open": {`"sessionUpdate":"tool_call_update","toolCallId":"1","status":"in_progress"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := opened(t, Options{}, sessions.OpenParams{})
			m := f.prompt("c1")
			f.peer.update(`"sessionUpdate":"tool_call","toolCallId":"1","title":"first"`)
			f.peer.update(tt.before)
			f.peer.result(m, `{"stopReason":"end_turn"}`)
			f.settled()
			m = f.prompt("c2")
			f.peer.request("1", "session/request_permission", permission("1", someOptions))
			e := f.rec.await(sessions.EventApprovalRequested)
			if e.Command != "c2" || e.Late || e.Request.Command != "c2" || e.Request.Title != "rm x" {
				t.Errorf("asked: %+v %+v", e, e.Request)
			}
			took := slices.ContainsFunc(f.rec.all(sessions.EventCommandAccepted), func(e sessions.Event) bool { return e.Command == "c2" })
			if took != tt.accepted {
				t.Errorf("taken: %t", took)
			}
			if err := f.resolve(e.Request, "approve", ""); err != nil {
				t.Fatal(err)
			}
			if word, option := f.peer.reply("1").outcome(t); word != "selected" || option != "allow-once" {
				t.Errorf("answered %s %s", word, option)
			}
			f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"`)
			if done := f.rec.await(sessions.EventToolCompleted); done.Command != "c2" || done.Late || done.Tool.Title != "rm x" {
				t.Errorf("its end: %+v %+v", done, done.Tool)
			}
			f.peer.result(m, `{"stopReason":"end_turn"}`)
			if s := f.settled(); s.Command != "c2" || s.State != sessions.CommandCompleted {
				t.Errorf("settled %+v", s)
			}
		})
	}
}

func TestAskQuestion(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	f.prompt("c1")
	ask := `{"toolCallId":"q","title":"T","questions":[{"id":"db","prompt":"Which?","options":[{"id":"pg","label":"Same"},{"id":"sq","label":"Same"}]},{"id":"fx","prompt":"Many","allowMultiple":true,"options":[{"id":"a","label":"A"},{"id":"b","label":"B"}]}]}`
	f.peer.request("0", "cursor/ask_question", ask)
	r := f.rec.await(sessions.EventQuestionRequested).Request
	for name, bad := range map[string]map[string][]string{
		"label": {"db": {"Same"}, "fx": {"a"}}, "missing": {"db": {"pg"}}, "two": {"db": {"pg", "sq"}, "fx": {"a"}},
	} {
		if err := f.Agent.Answer(f.ctx, sessions.Answer{Handle: r.Handle, Answers: bad}); sessions.CodeOf(err) != sessions.CodeInvalidParams {
			t.Errorf("%s: %v", name, err)
		}
	}
	answer, err := r.Resolve("", "", "", map[string][]string{"db": {"sq"}, "fx": {"A", "b"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Agent.Answer(f.ctx, answer); err != nil {
		t.Fatal(err)
	}
	want := `{"outcome":{"outcome":"answered","answers":[{"questionId":"db","selectedOptionIds":["sq"]},{"questionId":"fx","selectedOptionIds":["a","b"]}]}}`
	if got := f.peer.reply("0"); string(got.Result) != want {
		t.Errorf("answered %s", got.Result)
	}
	f.peer.request("1", "cursor/ask_question", ask)
	if err := f.resolve(f.rec.await(sessions.EventQuestionRequested).Request, "deny", ""); err != nil {
		t.Fatal(err)
	}
	if word, _ := f.peer.reply("1").outcome(t); word != "skipped" {
		t.Errorf("denied: %s", word)
	}
}

func TestCreatePlan(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	f.prompt("c1")
	for i, c := range []struct{ decision, word string }{{"approve", "accepted"}, {"deny", "rejected"}} {
		id := fmt.Sprint(i)
		f.peer.request(id, "cursor/create_plan", `{"toolCallId":"p","name":"N","plan":"# P\n1. do","todos":[{"id":"1","content":"do","status":"pending"}]}`)
		if p := f.rec.await(sessions.EventPlan); p.Text != "# P\n1. do" || !p.Final {
			t.Errorf("plan %+v", p)
		}
		r := f.rec.await(sessions.EventApprovalRequested).Request
		if r.Title != "N" || !strings.Contains(r.Detail, "# P") {
			t.Errorf("request %+v", r)
		}
		if err := f.resolve(r, c.decision, ""); err != nil {
			t.Fatal(err)
		}
		if word, _ := f.peer.reply(id).outcome(t); word != c.word {
			t.Errorf("%s: %s", c.decision, word)
		}
	}
}

// cursor/update_todos, task and generate_image come with and without an id; a merge carries what changed alone.
func TestCursorNotes(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	f.prompt("c1")
	f.peer.notify("cursor/update_todos", `{"toolCallId":"t","merge":false,"todos":[{"id":"1","content":"A","status":"pending"},{"id":"2","content":"B","status":"pending"}]}`)
	f.rec.await(sessions.EventPlan)
	f.peer.request("3", "cursor/update_todos", `{"toolCallId":"t","merge":true,"todos":[{"id":"1","status":"completed"}]}`)
	if p := f.rec.await(sessions.EventPlan); p.Text != "- [x] A\n- [ ] B\n" {
		t.Errorf("todos %q", p.Text)
	}
	f.peer.request("4", "cursor/task", `{"toolCallId":"k","description":"explore","prompt":"p","subagentType":{"custom":{}},"agentId":"a","durationMs":5}`)
	if e := f.rec.await(sessions.EventToolCompleted); e.Item != "k" || e.Tool.Name != "task" || e.Tool.Title != "explore" {
		t.Errorf("task %+v", e.Tool)
	}
	f.peer.update(`"sessionUpdate":"tool_call","toolCallId":"i","title":"Image","kind":"other","status":"in_progress"`)
	f.peer.notify("cursor/generate_image", `{"toolCallId":"i","description":"cat","filePath":"/work/cat.png"}`)
	if e := f.rec.await(sessions.EventToolUpdated); e.Item != "i" || e.Tool.Title != "Image" || e.Tool.Paths[0] != "/work/cat.png" {
		t.Errorf("image %+v", e.Tool)
	}
	for _, id := range []string{"3", "4"} {
		if m := f.peer.reply(id); string(m.Result) != "{}" {
			t.Errorf("answered %s", m.Result)
		}
	}
}

func TestElicitation(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	f.prompt("c1")
	form := `{"sessionId":"s1","mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`
	f.peer.request("0", "elicitation/create", form)
	r := f.rec.await(sessions.EventQuestionRequested).Request
	if len(r.Schema) == 0 || r.Detail != "Name?" || r.Kind != sessions.RequestQuestion {
		t.Errorf("form %+v", r)
	}
	answer, err := r.Resolve("", "", "", nil, json.RawMessage(`{"name":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Agent.Answer(f.ctx, answer); err != nil {
		t.Fatal(err)
	}
	if m := f.peer.reply("0"); string(m.Result) != `{"action":"accept","content":{"name":"x"}}` {
		t.Errorf("answered %s", m.Result)
	}
	f.peer.request("1", "elicitation/create", form)
	if err := f.resolve(f.rec.await(sessions.EventQuestionRequested).Request, "deny", ""); err != nil {
		t.Fatal(err)
	}
	if m := f.peer.reply("1"); string(m.Result) != `{"action":"decline"}` {
		t.Errorf("answered %s", m.Result)
	}
	f.peer.request("2", "elicitation/create", `{"sessionId":"s1","mode":"url","message":"Log in","elicitationId":"e","url":"https://example.com/x"}`)
	r = f.rec.await(sessions.EventQuestionRequested).Request
	if r.URL != "https://example.com/x" {
		t.Errorf("url %+v", r)
	}
	if err := f.resolve(r, "", "accept"); err != nil {
		t.Fatal(err)
	}
	if m := f.peer.reply("2"); string(m.Result) != `{"action":"accept"}` {
		t.Errorf("answered %s", m.Result)
	}
}
