package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/batonmcp/baton/sessions"
)

// Each text twin names what the next call needs, whatever a title or a message holds.
func TestTextTwins(t *testing.T) {
	asking := someSession(sid, sessions.SessionRunning)
	asking.NeedsInput = true
	asking.Title = "a\nsession 11111111 is idle"
	asking.Running = &sessions.Command{CommandID: "c1", State: sessions.CommandAccepted}
	asking.Requests = []sessions.Request{{RequestID: rid, Kind: sessions.RequestApproval, Title: "run\nrm -rf build",
		Options: []sessions.Option{{OptionID: "yes", Kind: sessions.OptionAllowOnce}}}}
	failed := someSession(sid, sessions.SessionFailed)
	failed.Error = &sessions.Error{Code: sessions.CodeAgentExited, Message: "the agent ended with status 1"}
	failed.Recovery = "resume it"
	idle := someSession(sid, sessions.SessionIdle)
	idle.Last = &sessions.Command{CommandID: "c1", State: sessions.CommandCompleted, Outcome: "end_turn"}
	done := sessions.Command{CommandID: "c1", State: sessions.CommandInterrupted, Outcome: "cancelled", Reason: "on request"}
	long := strings.Repeat("wörd ", 2000)

	build := func(f func(*twin)) string {
		var w twin
		f(&w)
		return w.String()
	}
	for name, tc := range map[string]struct {
		text string
		says []string
	}{
		"runners": {build(func(w *twin) {
			runnersText(w, sessions.RunnerListResult{Runners: []sessions.Runner{
				{Name: "codex", Installed: true, Protocol: "app-server", Version: "1.2", Login: "yes", Models: make([]sessions.Model, 9)},
				{Name: "cursor", Login: "unknown", Problem: "not found: install it"}}})
		}), []string{"codex 1.2", "login yes", "+3 more", "cursor", "install it"}},
		"create": {build(func(w *twin) {
			createText(w, sessions.CreateResult{Session: idle, Command: &done, Text: long})
		}), []string{sid, "is idle", "command c1", "wörd", "more characters"}},
		"send": {build(func(w *twin) { sendText(w, sessions.SendResult{Session: asking, Command: done, Text: "ok"}) }), []string{sid, "c1", "needs input", rid, "yes (allow_once)", "ok"}},
		"wait": {build(func(w *twin) {
			waitText(w, sessions.WaitResult{Sessions: []sessions.Waited{{Session: idle, Text: "hello", Cursor: "cur"}}, Next: "go on"})
		}), []string{sid, "c1", "completed", "hello", "cur", "go on"}},
		"timeout": {build(func(w *twin) { waitText(w, sessions.WaitResult{TimedOut: true}) }), []string{"the work goes on"}},
		"waits": {build(func(w *twin) {
			waitText(w, sessions.WaitResult{Sessions: []sessions.Waited{{Session: asking}, {Session: idle}}})
		}), []string{sid, rid}},
		"read": {build(func(w *twin) {
			readText(w, sessions.ReadResult{HasMore: true, Cursor: "cur", Gap: &sessions.Gap{From: 1, To: 5, Reason: "retention"}, Events: []sessions.Event{
				{Seq: 6, Kind: sessions.EventText, Text: "hi", Command: "c1"}, {Seq: 7, Kind: sessions.EventApprovalRequested, Request: &asking.Requests[0]},
				{Seq: 8, Kind: sessions.EventToolCompleted, Tool: &sessions.Tool{Title: "ls", Status: "completed"}},
				{Seq: 9, Kind: sessions.EventCommandSettled, Settled: &sessions.Settlement{State: sessions.CommandCompleted, Outcome: "end_turn"}}}})
		}), []string{"1 to 5", "retention", "4 events, more follow", "cur", "hi", "c1", rid, "ls completed", "completed end_turn"}},
		"respond": {build(func(w *twin) {
			respondText(w, sessions.RespondResult{Request: sessions.Request{RequestID: rid, State: sessions.RequestAnswering}, Session: idle})
		}), []string{rid, "answering", sid}},
		"cancel": {build(func(w *twin) { cancelText(w, sessions.CancelResult{Command: &done, Session: &idle}) }), []string{"c1 is interrupted", "on request", sid}},
		"fence":  {build(func(w *twin) { cancelText(w, sessions.CancelResult{Fenced: true}) }), []string{"can never start"}},
		"close": {build(func(w *twin) {
			closeText(w, sessions.CloseResult{Session: failed, Stopped: "unconfirmed", Proof: "none"})
		}), []string{sid, "unconfirmed", "none", "agent_exited", "resume it"}},
		"resume": {build(func(w *twin) { resumeText(w, sessions.ResumeResult{Session: idle, Settled: []sessions.Command{done}}) }), []string{sid, "c1"}},
		"list":   {build(func(w *twin) { listText(w, sessions.ListResult{Sessions: []sessions.Session{asking, idle}}) }), []string{"2 sessions", sid, "a session 11111111"}},
	} {
		if len(tc.text) > twinLimit || !utf8.ValidString(tc.text) {
			t.Errorf("%s: %d bytes", name, len(tc.text))
		}
		for _, want := range tc.says {
			if !strings.Contains(tc.text, want) {
				t.Errorf("%s: %q is not in %q", name, want, tc.text)
			}
		}
		if strings.Contains(tc.text, "\nsession 11111111") || strings.Contains(tc.text, "\nrm -rf") {
			t.Errorf("%s: foreign text starts a line: %q", name, tc.text)
		}
	}
}

// Where ids are many, the twin stays small and says how many it leaves out.
func TestTwinOfManySaysHowManyMore(t *testing.T) {
	for _, n := range []int{1, 5, 6, 7, 50, 500} {
		var r sessions.ListResult
		for i := range n {
			r.Sessions = append(r.Sessions, someSession(fmt.Sprintf("id-%04d", i), sessions.SessionIdle))
		}
		var w twin
		listText(&w, r)
		text := w.String()
		shown := strings.Count(text, "id-")
		if len(text) > twinLimit {
			t.Errorf("%d sessions: %d bytes", n, len(text))
		}
		if more := fmt.Sprintf("+%d more", n-shown); shown < n && !strings.HasSuffix(text, more) || shown == n && strings.Contains(text, "more") {
			t.Errorf("%d sessions, %d shown: %q", n, shown, text)
		}
	}
}

// An error says its code, what is so and what to do, and nothing of mcp-go; the key to repeat with is always there.
func TestFailures(t *testing.T) {
	busy := sessions.Errorf(sessions.CodeBusy, "session %s runs c0", sid).Do("wait for it, or use when_busy").With("running", "c0")
	f := &fake{}
	for _, tc := range []struct {
		name   string
		err    error
		code   sessions.Code
		action string
	}{
		{"of the table", busy, sessions.CodeBusy, "when_busy"},
		{"wrapped", fmt.Errorf("host: %w", busy), sessions.CodeBusy, "when_busy"},
		{"outside the table", fmt.Errorf("dial: refused"), sessions.CodeInternal, "nothing is done twice"},
		{"context ended elsewhere", context.Canceled, sessions.CodeInternal, "nothing is done twice"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f.send = func(context.Context, sessions.SendArgs) (sessions.SendResult, error) {
				return sessions.SendResult{}, tc.err
			}
			c := start(t, f)
			c.call("1", "session_send", `{"session_id":"s","text":"x"}`, `{"claudecode/toolUseId":"t1"}`)
			e := c.answer("1").failed(t)
			if e.Code != tc.code || !strings.Contains(e.Action, tc.action) || e.Details["command_id"] != "call-t1" {
				t.Errorf("%s: %+v", tc.name, e)
			}
		})
	}
	if busy.Details["command_id"] != nil {
		t.Error("the error of the API was changed")
	}
}

// A detail that is no JSON does not cost the error.
func TestFailureWithBadDetail(t *testing.T) {
	r := failure(sessions.Errorf(sessions.CodeBusy, "x").With("f", func() {}))
	if raw := jsonOf(r.StructuredContent); !strings.Contains(raw, `"busy"`) {
		t.Errorf("%s", raw)
	}
}

// A call that the host does not answer ends within its time, and tells how to repeat it without doing it twice.
func TestCallThatTakesTooLong(t *testing.T) {
	shared := sessions.Errorf(sessions.CodeInternal, "the socket of the host was closed")
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	f := &fake{
		send: func(ctx context.Context, _ sessions.SendArgs) (sessions.SendResult, error) {
			return sessions.SendResult{}, hang(ctx)
		},
		wait: func(ctx context.Context, _ sessions.WaitArgs) (sessions.WaitResult, error) {
			_ = hang(ctx)
			return sessions.WaitResult{}, shared
		},
		respond: func(ctx context.Context, _ sessions.RespondArgs) (sessions.RespondResult, error) {
			return sessions.RespondResult{}, fmt.Errorf("socket: %w", hang(ctx))
		},
	}
	for _, tc := range []struct {
		tool, args string
		limit      time.Duration
		key        string
	}{
		{"session_send", `{"session_id":"s","text":"x","command_id":"c1"}`, 25 * time.Second, "command_id"},
		{"session_send", `{"session_id":"s","text":"x","command_id":"c1","wait_seconds":30}`, 35 * time.Second, "command_id"},
		{"session_wait", `{}`, 25 * time.Second, ""},
		{"session_wait", `{"wait_seconds":50}`, 50 * time.Second, ""},
		{"session_respond", `{"session_id":"s","request_id":"r","decision":"deny","key":"c1"}`, 25 * time.Second, "key"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := start(t, f)
			before := time.Now()
			c.call("1", tc.tool, tc.args, "")
			e := c.answer("1").failed(t)
			if took := time.Since(before); took != tc.limit {
				t.Errorf("%s %s took %s", tc.tool, tc.args, took)
			}
			if e.Code != sessions.CodeTimeout || !strings.Contains(e.Action, "again") || tc.key != "" && (e.Details[tc.key] != "c1" || !strings.Contains(e.Action, "c1")) {
				t.Errorf("%s: %+v", tc.tool, e)
			}
		})
	}
	if shared.Code != sessions.CodeInternal {
		t.Error("the error of the API was changed")
	}
}
