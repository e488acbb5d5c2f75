package acp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// An agent names things by 100 kB. What would have to go back to it is refused, with an answer; the rest stays within the
// bounds, and the turn goes on.
func TestLongNames(t *testing.T) {
	x := strings.Repeat("x", 100_000)
	f := newFixture(t, Options{})
	f.peer.likeCursor()
	f.peer.answer("session/new", func(message) string { return `"result":{"sessionId":"` + x + `"}` })
	if _, err := f.open(sessions.OpenParams{}); sessions.CodeOf(err) != sessions.CodeAgentProtocol || len(err.Error()) > 500 {
		t.Errorf("a session of that name: %.600v", err)
	}

	f = opened(t, Options{}, sessions.OpenParams{})
	prompt := f.prompt("c1")
	for name, params := range map[string]string{
		"option":  permission("t1", `[{"optionId":"`+x+`","name":"Yes","kind":"allow_once"}]`),
		"options": permission("t1", "["+strings.Repeat(`{"optionId":"a","name":"Yes","kind":"allow_once"},`, 1000)+`{"optionId":"b"}]`),
	} {
		f.peer.request("7", "session/request_permission", params)
		if word, _ := f.peer.reply("7").outcome(t); word != "cancelled" {
			t.Errorf("%s: answered %s", name, word)
		}
		if e := f.rec.await(sessions.EventWarning); !strings.Contains(e.Text, "limit") || len(e.Text) > 500 {
			t.Errorf("%s: %.600s", name, e.Text)
		}
	}
	for _, u := range []string{
		`"sessionUpdate":"` + x + `"`,
		`"sessionUpdate":"tool_call","toolCallId":"` + x + `","title":"` + x + `","kind":"` + x + `","status":"` + x + `","locations":[{"path":"` + x + `"}]`,
		`"sessionUpdate":"agent_message_chunk","messageId":"` + x + `","content":{"type":"text","text":"hi"}`,
		`"sessionUpdate":"current_mode_update","currentModeId":"` + x + `"`,
	} {
		f.peer.update(u)
	}
	f.peer.notify("x/"+x, "{}")
	f.peer.request("8", "session/request_permission", strings.Replace(permission(x, someOptions), "rm x", x, -1))
	ask := f.rec.await(sessions.EventApprovalRequested)
	if err := f.resolve(ask.Request, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if word, option := f.peer.reply("8").outcome(t); word != "selected" || option != "allow-once" {
		t.Errorf("answered %s %s", word, option)
	}
	f.peer.result(prompt, fmt.Sprintf(`{"stopReason":%q}`, x))
	f.settled()
	for _, e := range f.rec.all() {
		if raw, err := json.Marshal(e.Bounded(nil)); err != nil || len(raw) > 256<<10 {
			t.Errorf("%s has %d bytes, %v", e.Kind, len(raw), err)
		}
	}
}
