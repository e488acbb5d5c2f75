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

// TestQuestionsOverHTTP: before 2026-07-28 the question comes on the stream of the call that waits, and the answer by a
// request of its own.
func TestQuestionsOverHTTP(t *testing.T) {
	for version, reply := range map[string]string{"2025-06-18": `{"action":"accept","content":{"decision":"yes"}}`, "2025-11-25": `{"action":"cancel"}`} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(approval)
			w := greeted(t, New(a, Options{Elicit: true}), version, `{"elicitation":{}}`)
			call := w.call("1", "session_wait", waitForIt, "")
			e := call.told("a question")
			if e.Method != "elicitation/create" || !strings.Contains(e.data, "run rm -rf build") {
				t.Fatalf("%s", e.data)
			}
			other := w.greet(version, `{"elicitation":{}}`)
			other.accepted(`{"jsonrpc":"2.0","id":` + string(e.ID) + `,"result":{"action":"decline"}}`) // is not its question
			w.accepted(`{"jsonrpc":"2.0","id":` + string(e.ID) + `,"result":` + reply + `}`)
			want := dialogAnswered
			if version == "2025-11-25" {
				want = dialogDismissed
			}
			if state := becomes(t, call.told("the answer").received); state != want {
				t.Errorf("%s: %s", version, state)
			}
			if given := a.given(); (len(given) == 1) != (want == dialogAnswered) || len(given) > 0 && given[0].OptionID != "yes" {
				t.Errorf("answers %+v", given)
			}
			call.over()
		})
	}
}

// TestAQuestionOutlivesItsStream: when its call has ended it stays open, its withdrawal comes on GET, and one that finds the
// connection of its call broken comes on GET as well.
func TestAQuestionOutlivesItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(approval)
		w := greeted(t, New(a, Options{Elicit: true}), "2025-11-25", `{"elicitation":{}}`)
		common := w.listen("")
		call := w.call("1", "session_wait", `{"session_ids":["`+sid+`"],"wait_seconds":5}`, "")
		asked := call.told("a question")
		if state := becomes(t, call.told("the answer").received); state != dialogOpen {
			t.Errorf("%s", state)
		}
		ok(t, w.call("2", "session_respond", fmt.Sprintf(`{"session_id":%q,"request_id":%q,"decision":"approve"}`, sid, rid), "").message(), "respond")
		if e := common.told("the withdrawal"); e.Method != "notifications/cancelled" || !strings.Contains(e.data, `"requestId":`+string(asked.ID)) {
			t.Errorf("%s", e.data)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(approval)
		asks := make(chan struct{})
		send := a.send
		a.send = func(ctx context.Context, x sessions.SendArgs) (sessions.SendResult, error) {
			<-asks
			return send(ctx, x)
		}
		w := greeted(t, New(a, Options{Elicit: true}), "2025-11-25", `{"elicitation":{}}`)
		common := w.listen("")
		call := w.call("1", "session_send", fmt.Sprintf(`{"session_id":%q,"text":"x","command_id":"one","wait_seconds":20}`, sid), `{"progressToken":1}`)
		call.told("progress")
		call.leave()
		synctest.Wait()
		close(asks)
		e := common.told("the question")
		if e.Method != "elicitation/create" {
			t.Errorf("%s", e.data)
		}
		w.accepted(`{"jsonrpc":"2.0","id":` + string(e.ID) + `,"result":{"action":"accept","content":{"decision":"no"}}}`)
		if state := becomes(t, w.listen("2.1").told("the answer").received); state != dialogAnswered {
			t.Errorf("%s", state)
		}
	})
}

// TestNobodyIsAskedOverHTTP who cannot be, and a question ends with its session.
func TestNobodyIsAskedOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(approval)
		w := greeted(t, New(a, Options{Elicit: true}), "2025-11-25", `{}`)
		if m := w.call("1", "session_wait", waitForIt, "").message(); becomes(t, m) != "" {
			t.Errorf("%s", m.line)
		}
		can := w.greet("2025-11-25", `{"elicitation":{"form":{}}}`)
		call := can.call("1", "session_wait", waitForIt, "")
		call.told("a question")
		can.do("DELETE", "")
		if state := becomes(t, call.told("the answer").received); state != dialogFailed && state != dialogOpen {
			t.Errorf("%s", state)
		}
		call.over()
		if given := a.given(); len(given) != 0 {
			t.Errorf("answers %+v", given)
		}
	})
}

// TestRoundsOverHTTP: since 2026-07-28 each round is a request of its own, over whatever connection, and who has closed a
// question is not asked it again.
func TestRoundsOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(approval)
		w := startWeb(t, New(a, Options{Elicit: true}))
		w.version = "2026-07-28"
		meta := strings.Replace(modern, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`, 1)
		call := func(more string) *reply {
			t.Helper()
			defer w.client.CloseIdleConnections()
			return w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_wait","arguments":`+waitForIt+`,`+meta+more+`}}`, "Mcp-Method", "tools/call", "Mcp-Name", "session_wait")
		}
		var r rounds
		if m := call("").message(); json.Unmarshal(m.Result, &r) != nil || r.InputRequests[rid].Method != "elicitation/create" {
			t.Fatalf("%s", m.line)
		}
		damaged := call(`,"requestState":"A` + r.RequestState[1:] + `","inputResponses":{"` + rid + `":{"action":"cancel"}}`)
		if refused(t, damaged.message(), -32602); damaged.StatusCode != 400 {
			t.Errorf("%s", damaged.Status)
		}
		if state := becomes(t, call(`,"requestState":"`+r.RequestState+`","inputResponses":{"`+rid+`":{"action":"cancel"}}`).message()); state != dialogDismissed {
			t.Errorf("%s", state)
		}
		before := time.Now()
		if m := call("").message(); strings.Contains(m.line, "input_required") || time.Since(before) > time.Minute {
			t.Errorf("asked again: %s", m.line)
		}
	})
}
