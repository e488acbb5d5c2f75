package acp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

func TestTurn(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.update(`"sessionUpdate":"available_commands_update","availableCommands":[]`)
	f.peer.update(`"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}`)
	f.peer.text("one ")
	f.peer.text("two")
	f.peer.update(`"sessionUpdate":"tool_call","toolCallId":"t1","title":"ls","kind":"execute","status":"pending","rawInput":{"command":"ls"},"locations":[{"path":"/work/a"}]`)
	f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"in_progress"`)
	f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed","rawOutput":{"exitCode":0,"stdout":"a\n"}`)
	f.peer.update(`"sessionUpdate":"plan","entries":[{"content":"first","status":"completed"},{"content":"then","status":"pending"}]`)
	f.peer.text("three")
	f.peer.update(`"sessionUpdate":"usage_update","used":10,"size":100,"cost":{"amount":0.5,"currency":"USD"}`)
	f.peer.result(m, `{"stopReason":"end_turn","usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}`)
	if s := f.settled(); s.State != sessions.CommandCompleted || s.Outcome != "end_turn" || s.Command != "c1" {
		t.Errorf("settled %+v", s)
	}

	var kinds []string
	for _, e := range f.rec.all() {
		if e.Command != "c1" || e.Late {
			t.Errorf("event of no turn: %+v", e)
		}
		kind := string(e.Kind)
		if e.Final {
			kind += "!"
		}
		kinds = append(kinds, kind)
	}
	want := "turn.started command.accepted reasoning text text text! tool.started tool.updated tool.completed plan! text usage usage text! turn.completed command.settled"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("events %s\nwant   %s", got, want)
	}
	texts := f.rec.all(sessions.EventText)
	if texts[2].Text != "one two" || texts[2].Item != texts[0].Item || texts[3].Item == texts[0].Item || texts[4].Text != "three" {
		t.Errorf("texts %+v", texts)
	}
	done := f.rec.all(sessions.EventToolCompleted)[0].Tool
	if done.Output != "a\n" || done.Exit == nil || *done.Exit != 0 || done.Name != "execute" || done.Status != "completed" ||
		len(done.Paths) != 1 || string(done.Detail) != `{"command":"ls"}` {
		t.Errorf("tool %+v", done)
	}
	if u := f.rec.all(sessions.EventUsage); u[0].Usage.Window != 100 || u[0].Usage.Cost != 0.5 || u[1].Usage.Total != 7 {
		t.Errorf("usage %+v %+v", u[0].Usage, u[1].Usage)
	}
	if p := f.rec.all(sessions.EventPlan)[0]; p.Text != "- [x] first\n- [ ] then\n" {
		t.Errorf("plan %q", p.Text)
	}
}

func TestTextByMessageID(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	chunk := func(id, text string) {
		f.peer.update(`"sessionUpdate":"agent_message_chunk","messageId":"` + id + `","content":{"type":"text","text":"` + text + `"}`)
	}
	chunk("a", "1")
	chunk("a", "2")
	chunk("b", "3")
	chunk("a", "4")
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	f.settled()
	var whole []string
	items := map[string]bool{}
	for _, e := range f.rec.all(sessions.EventText) {
		if e.Final {
			whole = append(whole, e.Text)
			items[e.Item] = true
		}
	}
	if strings.Join(whole, ",") != "12,3,4" || len(items) != 3 {
		t.Errorf("whole texts %q in %d items", whole, len(items))
	}
}

// A thought between two texts makes two of them; a text without end is cut into items.
func TestTextItems(t *testing.T) {
	var whole []string
	f := &feed{command: "c", ids: map[string]bool{}, emit: func(e sessions.Event) {
		if e.Final {
			whole = append(whole, e.Text)
		}
	}}
	say := func(kind sessions.EventKind, text string) { f.chunk(kind, "", block{Type: "text", Text: text}, nil) }
	say(sessions.EventText, "a")
	say(sessions.EventReasoning, "hm")
	say(sessions.EventText, "b")
	long := strings.Repeat("x", maxItem)
	say(sessions.EventText, long)
	say(sessions.EventText, "c")
	f.finish("unfinished")
	if len(whole) != 3 || whole[0] != "a" || whole[1] != "b"+long || whole[2] != "c" {
		t.Errorf("%d items", len(whole))
	}
}

// None of what comes with every session, or from an earlier turn, is proof that the agent took the prompt.
func TestAccepted(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.update(`"sessionUpdate":"tool_call","toolCallId":"old","title":"x","status":"in_progress"`)
	f.peer.update(`"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"of c1"}`)
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	f.settled()

	m = f.prompt("c2")
	f.peer.update(`"sessionUpdate":"available_commands_update","availableCommands":[]`)
	f.peer.update(`"sessionUpdate":"session_info_update","title":"x"`)
	f.peer.update(`"sessionUpdate":"usage_update","used":1,"size":2`)
	f.peer.update(`"sessionUpdate":"current_mode_update","currentModeId":"agent"`)
	f.peer.update(`"sessionUpdate":"config_option_update","configOptions":` + f.peer.config.set())
	f.peer.update(`"sessionUpdate":"brand_new_kind"`)
	f.peer.updateOf("sub", `"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"of a sub-agent"}`)
	f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"old","status":"completed"`)
	f.peer.update(`"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":" late"}`)
	late := f.rec.await(sessions.EventToolCompleted)
	for late.Command != "c1" || !late.Late {
		late = f.rec.await(sessions.EventToolCompleted)
	}
	if text := f.rec.await(sessions.EventText); text.Command != "c1" || !text.Late || text.Text != " late" {
		t.Errorf("late text %+v", text)
	}
	for _, e := range f.rec.all(sessions.EventCommandAccepted) {
		if e.Command == "c2" {
			t.Fatalf("accepted by %v", e.Data)
		}
	}
	f.peer.text("mine")
	if e := f.rec.await(sessions.EventCommandAccepted); e.Command != "c2" {
		t.Errorf("accepted %+v", e)
	}
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	f.settled()
	if f.rec.text("c2", false) != "mine" || f.rec.text("c1", true) != " late" {
		t.Errorf("texts: %s", f.rec.story())
	}
	if n := len(f.rec.all(sessions.EventWarning)); n != 1 {
		t.Errorf("%d warnings, want one for the unknown kind: %s", n, f.rec.story())
	}
}

func TestAcceptedByTheAnswerAlone(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	f.peer.result(f.prompt("c1"), `{"stopReason":"end_turn"}`)
	if e := f.rec.await(sessions.EventCommandAccepted); e.Data["evidence"] != "response" {
		t.Errorf("accepted by %v", e.Data)
	}
	f.settled()
}

func TestOutcomes(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	for _, c := range []struct {
		answer  string // member of the response
		state   sessions.CommandState
		outcome string
		says    string
	}{
		{`"result":{"stopReason":"end_turn"}`, sessions.CommandCompleted, "end_turn", ""},
		{`"result":{"stopReason":"max_tokens"}`, sessions.CommandFailed, "max_tokens", "limit"},
		{`"result":{"stopReason":"max_turn_requests"}`, sessions.CommandFailed, "max_turn_requests", "limit"},
		{`"result":{"stopReason":"refusal"}`, sessions.CommandFailed, "refusal", "refused"},
		{`"result":{"stopReason":"something_new"}`, sessions.CommandFailed, "something_new", "not known"},
		{`"result":{"stopReason":"cancelled"}`, sessions.CommandFailed, "cancelled_by_agent", "nobody asked"},
		{`"result":{}`, sessions.CommandFailed, "no_stop_reason", ""},
		{`"result":null`, sessions.CommandFailed, "no_stop_reason", ""},
		{`"result":{"stopReason":7}`, sessions.CommandFailed, "no_stop_reason", ""},
		{`"error":{"code":-32000,"message":"Authentication required"}`, sessions.CommandFailed, "not_logged_in", "cursor-agent login"},
		{`"error":{"code":500,"message":"partOrString cannot be an empty array"}`, sessions.CommandFailed, "500", "partOrString"},
		{`"error":{"code":"EPIPE","message":"x"}`, sessions.CommandFailed, "-32603", "x"},
		{`"error":{"code":-32603}`, sessions.CommandFailed, "-32603", ""},
		{`"error":{"code":-32800,"message":"Request cancelled"}`, sessions.CommandFailed, "-32800", "cancelled"},
	} {
		m := f.prompt("c")
		f.peer.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + c.answer + `}`)
		s := f.settled()
		if s.State != c.state || s.Outcome != c.outcome || !strings.Contains(s.Reason, c.says) {
			t.Errorf("%s: settled %+v, want %s %s", c.answer, s, c.state, c.outcome)
		}
	}
}

func TestSoftFailureIsFlagged(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.text("Error: I: AI Model Not")
	f.peer.text(" Found\nModel name is not valid: x")
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	s := f.settled()
	if s.State != sessions.CommandCompleted || !strings.Contains(s.Reason, "Error: I: AI Model Not Found") || len(f.rec.all(sessions.EventWarning)) != 1 {
		t.Errorf("settled %+v; %s", s, f.rec.story())
	}
	m = f.prompt("c2")
	f.peer.text("The log says Error: I: AI Model Not Found.")
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	if s := f.settled(); s.Reason != "" || f.peer.sent("session/prompt") != 2 {
		t.Errorf("settled %+v", s)
	}
}

func TestOnePromptAtATime(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "x"})
	if sessions.CodeOf(err) != sessions.CodeBusy || !errors.Is(err, sessions.ErrNotWritten) {
		t.Errorf("second prompt: %v", err)
	}
	err = f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "x", Steer: "c1"})
	if sessions.CodeOf(err) != sessions.CodeUnsupported || !errors.Is(err, sessions.ErrNotWritten) {
		t.Errorf("steer: %v", err)
	}
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	f.settled()
	f.peer.result(f.prompt("c2"), `{"stopReason":"end_turn"}`)
	if s := f.settled(); s.Command != "c2" || f.peer.sent("session/prompt") != 2 {
		t.Errorf("settled %+v", s)
	}
}

// A context counts until the adapter gets to the prompt: then nothing was written.
func TestPromptNotTaken(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	release := f.rec.hold()
	f.peer.update(`"sessionUpdate":"usage_update","used":1,"size":2`) // the sink is full, and the loop waits for it
	<-f.rec.held
	ctx, cancel := context.WithCancel(f.ctx)
	prompted := make(chan error, 1)
	go func() { prompted <- f.Agent.Prompt(ctx, sessions.Prompt{CommandID: "c1", Text: "x"}) }()
	cancel()
	err := <-prompted
	release()
	if sessions.CodeOf(err) != sessions.CodeTimeout || !errors.Is(err, sessions.ErrNotWritten) {
		t.Errorf("%v", err)
	}
	f.prompt("c2")
	if n := f.peer.sent("session/prompt"); n != 1 {
		t.Errorf("%d prompts were sent, want that of c2 alone", n)
	}
}

// A fault of ours ends this agent, with a reason; it does not take the process along.
func TestFaultOfOurs(t *testing.T) {
	conn, p := link(t)
	a := New(conn, faultySink{}, Options{})
	p.likeCursor()
	if _, err := a.Open(testContext(t), sessions.OpenParams{Cwd: "/work"}); err != nil {
		t.Fatal(err)
	}
	err := a.Prompt(testContext(t), sessions.Prompt{CommandID: "c1", Text: "x"})
	<-a.Done()
	if err != nil || sessions.CodeOf(a.Err()) != sessions.CodeInternal {
		t.Errorf("prompt: %v, end: %v", err, a.Err())
	}
}

type faultySink struct{}

func (faultySink) Emit(sessions.Event) { panic("no room") }

func TestImages(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "b.png")
	f := opened(t, Options{}, sessions.OpenParams{Cwd: dir})
	png, text := filepath.Join(dir, "a.png"), filepath.Join(dir, "a.txt")
	const image = "\x89PNG\x0D\x0A\x1A\x0A0000"
	for path, content := range map[string]string{png: image, outside: image, text: "no image"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{text, dir, outside, filepath.Join(dir, "missing.png")} {
		err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c", Text: "x", Images: []string{path}})
		if sessions.CodeOf(err) != sessions.CodeInvalidParams || !errors.Is(err, sessions.ErrNotWritten) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c", Text: "x", Images: []string{png}}); err != nil {
		t.Fatal(err)
	}
	m := f.peer.next("session/prompt")
	if blocks := m.param(t, "prompt").([]any); len(blocks) != 2 || blocks[1].(map[string]any)["mimeType"] != "image/png" {
		t.Errorf("prompt %v", blocks)
	}
}

// Ids with line breaks, twice the same end, and one id in two turns (a public fake of Cursor).
func TestToolIDs(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	for _, command := range []string{"c1", "c2"} {
		m := f.prompt(command)
		f.peer.update(`"sessionUpdate":"tool_call","toolCallId":"call_1\nfc_x","title":"a","status":"pending"`)
		f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"call_1\nfc_x","status":"completed"`)
		f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"call_1\nfc_x","status":"completed"`)
		f.peer.result(m, `{"stopReason":"end_turn"}`)
		f.settled()
	}
	done := f.rec.all(sessions.EventToolCompleted)
	if len(done) != 2 || done[0].Command != "c1" || done[1].Command != "c2" || done[1].Late || done[0].Item != "call_1\nfc_x" {
		t.Errorf("%s", f.rec.story())
	}
}

func TestToolsLeftOpen(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"t1","title":"never announced","content":[{"type":"content","content":{"type":"text","text":"` + strings.Repeat("é", maxOutput) + `"}},{"type":"diff","path":"/work/x","newText":""}]`)
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	e := f.rec.await(sessions.EventToolCompleted)
	if e.Tool.Status != "unfinished" || len(e.Tool.Output) > maxOutput || !strings.HasPrefix(e.Tool.Output, "é") || e.Tool.Paths[0] != "/work/x" {
		t.Errorf("%s, %d bytes", e.Tool.Status, len(e.Tool.Output))
	}
	f.settled()
}

func TestLinkEndsInATurn(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	f.prompt("c1")
	f.peer.text("working")
	f.rec.await(sessions.EventText)
	f.peer.out.Close()
	<-f.Done()
	if n := len(f.rec.all(sessions.EventCommandSettled)); n != 0 {
		t.Errorf("settled %d times by the adapter, the bridge does that", n)
	}
	texts := f.rec.all(sessions.EventText)
	if last := texts[len(texts)-1]; !last.Final || !last.Abandoned || last.Text != "working" {
		t.Errorf("last text %+v", last)
	}
	if err := f.Err(); err == nil {
		t.Error("no reason for the end")
	}
	err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "x"})
	if sessions.CodeOf(err) != sessions.CodeAgentExited || !errors.Is(err, sessions.ErrNotWritten) {
		t.Errorf("a prompt after the end: %v", err)
	}
}

// EV-01: what comes after the answer to the prompt belongs to no later turn, and reopens none.
func TestEV01_LateUpdates(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.update(`"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"first"}`)
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	f.settled()
	f.peer.text("late words")
	f.peer.update(`"sessionUpdate":"usage_update","used":1,"size":2`)
	f.rec.await(sessions.EventUsage)

	m = f.prompt("c2")
	f.peer.update(`"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":" later"}`)
	f.peer.update(`"sessionUpdate":"agent_message_chunk","messageId":"m2","content":{"type":"text","text":"second"}`)
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	f.settled()
	if f.rec.text("c1", false) != "first" || f.rec.text("c1", true) != "late words later" || f.rec.text("c2", false) != "second" || f.rec.text("c2", true) != "" {
		t.Errorf("%s", f.rec.story())
	}
	if n := len(f.rec.all(sessions.EventCommandSettled)); n != 2 {
		t.Errorf("%d settlements of 2 commands", n)
	}
	items := map[string]string{}
	for _, e := range f.rec.all(sessions.EventText) {
		key := e.Command
		if e.Late {
			key += " late"
		}
		if old, ok := items[e.Item]; ok && old != key {
			t.Errorf("item %s is of %s and of %s", e.Item, old, key)
		}
		items[e.Item] = key
	}
}

// Sub-agents speak under session ids of their own: kept apart, never mixed into the text.
func TestForeignSession(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.updateOf("sub-1", `"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"FROM SUBAGENT"}`)
	f.peer.request("9", "session/request_permission", `{"sessionId":"sub-1","toolCall":{"toolCallId":"x"},"options":[{"optionId":"a","kind":"allow_once"}]}`)
	if r := f.peer.reply("9"); r.Error == nil || r.Error.Code != -32602 {
		t.Errorf("answered with %+v", r)
	}
	f.peer.text("mine")
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	f.settled()
	if f.rec.text("c1", false) != "mine" {
		t.Errorf("%s", f.rec.story())
	}
	for _, e := range f.rec.all(sessions.EventText) {
		if (e.Agent == "sub-1") != strings.Contains(e.Text, "SUBAGENT") {
			t.Errorf("text %q of agent %q", e.Text, e.Agent)
		}
	}
}
