package acp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

func TestCancel(t *testing.T) {
	for answer, reason := range map[string]string{
		`"result":{"stopReason":"cancelled"}`:                       "",
		`"error":{"code":-32800,"message":"Request cancelled"}`:     "-32800",
		`"error":{"code":-32603,"message":"Internal error: abort"}`: "abort",
	} {
		f := opened(t, Options{}, sessions.OpenParams{})
		m := f.prompt("c1")
		f.peer.update(`"sessionUpdate":"tool_call","toolCallId":"t","title":"sleep","status":"in_progress"`)
		f.rec.await(sessions.EventToolStarted)
		for range 2 { // the second asks for nothing more
			if err := f.Agent.Cancel(f.ctx, "c1"); err != nil {
				t.Fatal(err)
			}
		}
		if c := f.peer.next("session/cancel"); c.ID != nil || c.param(t, "sessionId") != "s1" {
			t.Errorf("cancel was sent as %+v", c)
		}
		f.peer.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + answer + `}`)
		if e := f.rec.await(sessions.EventToolCompleted); e.Tool.Status != "cancelled" {
			t.Errorf("tool %+v", e.Tool)
		}
		if s := f.settled(); s.State != sessions.CommandInterrupted || s.Outcome != "cancelled" || !strings.Contains(s.Reason, reason) {
			t.Errorf("%s: settled %+v", answer, s)
		}
		if n := f.peer.sent("session/cancel"); n != 1 {
			t.Errorf("%d cancels", n)
		}
		f.peer.result(f.prompt("c2"), `{"stopReason":"end_turn"}`)
		if s := f.settled(); s.State != sessions.CommandCompleted {
			t.Errorf("the next turn: %+v", s)
		}
	}
}

func TestCancelOfAnotherCommand(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	if err := f.Agent.Cancel(f.ctx, "c0"); err != nil {
		t.Fatal(err)
	}
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	if s := f.settled(); s.State != sessions.CommandCompleted || f.peer.sent("session/cancel") != 0 {
		t.Errorf("settled %+v", s)
	}
}

// A turn that ends by itself while the cancel is under way has ended by itself.
func TestCancelTooLate(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	if err := f.Agent.Cancel(f.ctx, "c1"); err != nil {
		t.Fatal(err)
	}
	f.peer.result(m, `{"stopReason":"end_turn"}`)
	if s := f.settled(); s.State != sessions.CommandCompleted {
		t.Errorf("settled %+v", s)
	}
}

// CA-01: an agent that takes the cancel and never ends the turn.
func TestCA01_CancelIgnored(t *testing.T) {
	f := opened(t, Options{CancelGrace: time.Millisecond}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.text("busy")
	f.rec.await(sessions.EventText)
	if err := f.Agent.Cancel(f.ctx, "c1"); err != nil {
		t.Fatal(err)
	}
	s := f.settled()
	if s.State != sessions.CommandCancelUnconfirmed || s.Outcome != "cancel_ignored" || s.Reason == "" {
		t.Errorf("settled %+v", s)
	}
	<-f.Done()
	f.peer.result(m, `{"stopReason":"cancelled"}`) // too late
	if n := len(f.rec.all(sessions.EventCommandSettled)); n != 1 || sessions.CodeOf(f.Err()) != sessions.CodeTimeout {
		t.Errorf("settled %d times, link ended by %v", n, f.Err())
	}
}

// CA-01 (b): an agent that answers the cancel with an error, with or without an id, as if it were a request.
func TestCA01_CancelAnsweredWithAnError(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	if err := f.Agent.Cancel(f.ctx, "c1"); err != nil {
		t.Fatal(err)
	}
	f.peer.next("session/cancel")
	f.peer.write(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}`)
	f.peer.write(`{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"}}`)
	f.peer.result(m, `{"stopReason":"cancelled"}`)
	if s := f.settled(); s.State != sessions.CommandInterrupted {
		t.Errorf("settled %+v", s)
	}
}

// CA-02: what is open is answered with cancelled once, nothing of the turn is granted later, and a late answer is told.
func TestCA02_CancelAnswersWhatIsOpen(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.request("0", "session/request_permission", permission("t1", someOptions))
	f.peer.request("1", "cursor/ask_question", `{"toolCallId":"q","questions":[{"id":"a","prompt":"?","options":[{"id":"x","label":"X"}]}]}`)
	f.peer.request("2", "cursor/create_plan", `{"toolCallId":"p","plan":"P"}`)
	f.peer.request("3", "elicitation/create", `{"sessionId":"s1","mode":"form","message":"?","requestedSchema":{}}`)
	r := f.rec.await(sessions.EventApprovalRequested).Request
	f.rec.await(sessions.EventApprovalRequested)
	f.rec.await(sessions.EventQuestionRequested)
	if err := f.Agent.Cancel(f.ctx, "c1"); err != nil {
		t.Fatal(err)
	}
	f.peer.next("session/cancel")
	for _, id := range []string{"0", "1", "2"} {
		if word, _ := f.peer.reply(id).outcome(t); word != "cancelled" {
			t.Errorf("%s answered %s", id, word)
		}
	}
	if e := f.peer.reply("3"); string(e.Result) != `{"action":"cancel"}` {
		t.Errorf("elicitation answered %s", e.Result)
	}
	for range 4 {
		if e := f.rec.await(sessions.EventRequestResolved); e.Request.State != sessions.RequestWithdrawn {
			t.Errorf("resolved %+v", e.Request)
		}
	}
	f.peer.request("4", "session/request_permission", permission("t2", someOptions))
	if word, _ := f.peer.reply("4").outcome(t); word != "cancelled" {
		t.Errorf("a later permission was answered %s", word)
	}
	err := f.Agent.Answer(f.ctx, sessions.Answer{Handle: r.Handle, OptionID: "allow-once"})
	if sessions.CodeOf(err) != sessions.CodeWithdrawn || !errors.Is(err, sessions.ErrNotWritten) {
		t.Errorf("the late answer: %v", err)
	}
	f.peer.result(m, `{"stopReason":"cancelled"}`)
	if s := f.settled(); s.State != sessions.CommandInterrupted {
		t.Errorf("settled %+v", s)
	}
	if n := f.peer.sent(""); n != 5 {
		t.Errorf("%d answers to 5 requests", n)
	}
}

// An agent that gives up the turn because an approval was denied has not been interrupted by anybody.
func TestCancelledByTheAgentAfterADenial(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.request("0", "session/request_permission", permission("t1", someOptions))
	if err := f.resolve(f.rec.await(sessions.EventApprovalRequested).Request, "deny", ""); err != nil {
		t.Fatal(err)
	}
	f.peer.reply("0")
	f.peer.result(m, `{"stopReason":"cancelled"}`)
	if e := f.rec.await(sessions.EventToolCompleted); e.Tool.Status != "declined" {
		t.Errorf("tool %+v", e.Tool)
	}
	if s := f.settled(); s.State != sessions.CommandFailed || s.Outcome != "cancelled_by_agent" || !strings.Contains(s.Reason, "denied") {
		t.Errorf("settled %+v", s)
	}
}

// A cancel between Prompt and its first byte: nothing is sent.
func TestCancelBeforeThePromptIsWritten(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	asked := make(chan struct{})
	f.peer.answer("session/set_config_option", func(m message) string {
		close(asked)
		return ""
	})
	prompted := make(chan error, 1)
	go func() {
		prompted <- f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c1", Text: "x", Mode: "plan"})
	}()
	<-asked
	if err := f.Agent.Cancel(f.ctx, "c1"); err != nil {
		t.Fatal(err)
	}
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: "c2", Text: "x"}); sessions.CodeOf(err) != sessions.CodeBusy {
		t.Errorf("another prompt meanwhile: %v", err)
	}
	f.peer.config.mu.Lock()
	f.peer.config.mode = "plan"
	f.peer.config.mu.Unlock()
	f.peer.write(`{"jsonrpc":"2.0","id":"g-4","result":{"configOptions":` + f.peer.config.set() + `}}`)
	err := <-prompted
	if sessions.CodeOf(err) != sessions.CodeFenced || !errors.Is(err, sessions.ErrNotWritten) || f.peer.sent("session/prompt") > 0 {
		t.Errorf("prompt: %v", err)
	}
}

func TestCloseInATurn(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	m := f.prompt("c1")
	f.peer.request("0", "session/request_permission", permission("t1", someOptions))
	f.rec.await(sessions.EventApprovalRequested)
	if err := f.Agent.Close(f.ctx); err != nil {
		t.Fatal(err)
	}
	f.peer.next("session/cancel")
	f.peer.reply("0")
	<-f.peer.done
	f.peer.result(m, `{"stopReason":"cancelled"}`)
	if s := f.settled(); s.State != sessions.CommandInterrupted || !strings.Contains(s.Reason, "closed") {
		t.Errorf("settled %+v", s)
	}
	if err := f.Agent.Close(f.ctx); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}
