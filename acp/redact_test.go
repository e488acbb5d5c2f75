package acp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batonmcp/baton/internal/redact"
	"github.com/batonmcp/baton/sessions"
)

const hush = "Q7Z5J3K9" // no three of its bytes stand together in anything else

// hidden fails where a part of the secret is told.
func hidden(t *testing.T, name, told string, set *redact.Set) {
	t.Helper()
	if told, _ = set.Redact(told); !strings.Contains(told, redact.Mask) {
		t.Errorf("%s: nothing was redacted: %.500s", name, told)
	}
	for i := range len(hush) - 2 {
		if at := strings.Index(told, hush[i:i+3]); at >= 0 {
			t.Errorf("%s: %q is told: %s", name, hush[i:i+3], told[max(0, at-60):min(len(told), at+60)])
			return
		}
	}
}

// SE-02: of a secret that a cut of ours divides no part is told, wherever it is divided.
func TestSecretsThatACutDivides(t *testing.T) {
	set := redact.New([]string{hush})
	o := Options{Redact: set.After}
	f := opened(t, o, sessions.OpenParams{})
	for part := range len(hush) + 1 { // so that each cut divides one, at each place in turn
		long := strings.Repeat("x", part) + strings.Repeat(hush+"_", maxOutput/4)
		some := strings.Repeat("x", part) + strings.Repeat(hush+"_", 100)
		prompt := f.prompt(fmt.Sprint("c", part))
		var told []sessions.Event
		f.peer.update(`"sessionUpdate":"tool_call","toolCallId":"t","title":"t","status":"in_progress"`)
		f.peer.update(`"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"content","content":{"type":"text","text":"` + long + `"}}]`)
		told = append(told, f.rec.await(sessions.EventToolCompleted))
		f.peer.notify("x/"+some, "{}")
		told = append(told, f.rec.await(sessions.EventWarning))
		f.peer.request("1", methodPermission, strings.Replace(permission("p", someOptions), "Not in allowlist", long, 1))
		told = append(told, f.rec.await(sessions.EventApprovalRequested))
		f.peer.request("2", methodElicit, `{"sessionId":"s1","mode":"form","message":"`+some+`","requestedSchema":{"type":"object"}}`)
		told = append(told, f.rec.await(sessions.EventQuestionRequested))
		f.peer.request("3", cursorAsk, `{"questions":[{"id":"a","prompt":"`+some+`","options":[{"id":"x","label":"X"}]}]}`)
		told = append(told, f.rec.await(sessions.EventQuestionRequested))
		f.peer.text(softFailures[0] + some)
		f.peer.result(prompt, `{"stopReason":"end_turn"}`)
		told = append(told, f.rec.await(sessions.EventWarning), f.rec.await(sessions.EventCommandSettled))
		for _, id := range []string{"1", "2", "3"} {
			f.peer.reply(id)
		}
		for _, e := range told {
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			hidden(t, fmt.Sprint(e.Kind, " at ", part), string(raw), set)
		}

		conn, p := link(t)
		p.listing()
		p.on("session/list", `"result":"`+some+`"`)
		_, err := Foreign(testContext(t), conn, sessions.ForeignAsk{}, o)
		if err == nil {
			t.Fatal("a list that is none was read")
		}
		hidden(t, fmt.Sprint("list at ", part), err.Error(), set)
	}
}

// SE-02: a text that something else interrupts, or that becomes too long, is told to be cut, and what goes on with it names
// it, so that a secret in both is seen. The end of a turn cuts nothing.
func TestCutTextsAreMarked(t *testing.T) {
	f := opened(t, Options{}, sessions.OpenParams{})
	prompt := f.prompt("c1")
	f.peer.text("one")
	f.peer.update(`"sessionUpdate":"tool_call","toolCallId":"t","title":"t","status":"in_progress"`)
	f.peer.text("two")
	f.peer.update(`"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}`)
	f.peer.text("three")
	f.peer.update(`"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm hm"}`)
	f.peer.update(`"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"four"}`)
	f.peer.update(`"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"` + strings.Repeat("x", maxItem) + `"}`)
	f.peer.text("five")
	f.peer.result(prompt, `{"stopReason":"end_turn"}`)
	f.settled()
	before := map[sessions.EventKind]string{}
	items := map[string]bool{}
	for _, e := range f.rec.all(sessions.EventText, sessions.EventReasoning) {
		switch {
		case e.Final:
			if e.Cut == (e.Text == "five") {
				t.Errorf("%q: cut %v", e.Text[:min(len(e.Text), 50)], e.Cut)
			}
			continue
		case !items[e.Item]:
			if e.Follows != before[e.Kind] {
				t.Errorf("%s %q follows %q, want %q", e.Kind, e.Text, e.Follows, before[e.Kind])
			}
			items[e.Item], before[e.Kind] = true, e.Item
		}
	}
	if len(items) != 7 {
		t.Errorf("%d texts: %v", len(items), items)
	}
}

// What an agent words freely, and is left as it is where it is told: why a turn ended, and the kind of an option.
func TestSecretsInWords(t *testing.T) {
	set := redact.New([]string{hush})
	f := opened(t, Options{Redact: set.After}, sessions.OpenParams{})
	prompt := f.prompt("c1")
	f.peer.request("1", methodPermission, permission("p", `[{"optionId":"a","name":"Yes","kind":"`+hush+`"},{"optionId":"b","name":"No","kind":"reject_once"}]`))
	if r := f.rec.await(sessions.EventApprovalRequested).Request; r.Options[0].Kind != redact.Mask {
		t.Errorf("%+v", r.Options)
	}
	f.peer.result(prompt, `{"stopReason":"`+hush+`"}`)
	f.peer.reply("1")
	if s := f.settled(); s.Outcome != redact.Mask || strings.Contains(s.Reason, hush) {
		t.Errorf("%+v", s)
	}
}

// An item's name has the beginning of what the agent calls its message.
func TestSecretsInItems(t *testing.T) {
	set := redact.New([]string{hush})
	f := opened(t, Options{Redact: set.After}, sessions.OpenParams{})
	f.prompt("c1")
	for part := range len(hush) {
		f.peer.update(`"sessionUpdate":"agent_message_chunk","messageId":"` + strings.Repeat("x", 64-part) + hush + `","content":{"type":"text","text":"hi"}`)
		e := f.rec.await(sessions.EventText)
		for e.Final {
			e = f.rec.await(sessions.EventText)
		}
		for i := range len(hush) - 2 {
			if strings.Contains(e.Item, hush[i:i+3]) {
				t.Errorf("%d: %q", part, e.Item)
			}
		}
	}
}

// SE-02: the end of a program's output, of which the agent gets all that it wants, as it is.
func TestSecretsInTheEndOfAnOutput(t *testing.T) {
	set := redact.New([]string{hush})
	for _, most := range []int{100, maxOutput, 2 * maxOutput} {
		for part := range len(hush) + 1 {
			for _, long := range []int{most, 3 * most, 3 * (most + beforeOutput)} { // of which some was dropped, or more than once
				all := strings.Repeat(hush+"_", long/len(hush)) + strings.Repeat("x", part) + "end"
				out := &output{max: most}
				for rest := all; rest != ""; {
					n := min(len(rest), 1000)
					out.Write([]byte(rest[:n]))
					rest = rest[n:]
				}
				name := fmt.Sprint(len(all), " bytes, ", most, " are kept")
				told := out.end(maxOutput, set.After)
				hidden(t, name, told, set)
				if !strings.HasSuffix(told, all[len(all)-part-4:]) || len(told) < most/2 {
					t.Errorf("%s: it ends with %q", name, told[max(0, len(told)-50):])
				}
				if text, cut := out.text(); !cut || text != all[len(all)-most:] {
					t.Errorf("%s: the agent gets %d bytes", name, len(text))
				}
			}
		}
	}
}
