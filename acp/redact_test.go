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
