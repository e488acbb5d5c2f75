package appserver

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
)

// SE-02: of a secret that a cut of ours divides no part is told, wherever it is divided.
func TestSecretsThatACutDivides(t *testing.T) {
	const secret = "Q7Z5J3K9"
	hide := func(_, text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
	sent := regexp.MustCompile(`"id":"(\d+)","method":"turn/start"`)
	synctest.Test(t, func(t *testing.T) {
		c := &conversation{t: t, redact: hide}
		for part := range len(secret) + 1 { // so that each cut divides one, at each place in turn
			long := strings.Repeat("x", part) + strings.Repeat(secret+"_", maxText/4)
			c.open("")
			c.callLine(`prompt {"command_id":"c1","text":"hello"}`)
			synctest.Wait()
			c.collect()
			for name, line := range map[string]string{
				"output":  `{"method":"item/completed","params":{"item":{"type":"commandExecution","id":"i1","command":"ls","aggregatedOutput":"%s","status":"completed"},"threadId":"T","turnId":"U1"}}`,
				"failure": `{"method":"item/completed","params":{"item":{"type":"mcpToolCall","id":"i2","server":"s","tool":"t","error":{"message":"%s"},"status":"failed"},"threadId":"T","turnId":"U1"}}`,
				"running": `{"method":"item/commandExecution/outputDelta","params":{"threadId":"T","turnId":"U1","itemId":"i3","delta":"%s"}}`,
				"stdin":   `{"method":"item/commandExecution/terminalInteraction","params":{"threadId":"T","turnId":"U1","itemId":"i3","stdin":"%s"}}`,
				"change":  `{"method":"item/started","params":{"item":{"type":"fileChange","id":"i4","changes":[{"path":"/w/f","kind":{"type":"add"},"diff":"%s"}],"status":"inProgress"},"threadId":"T","turnId":"U1"}}`,
				"wish":    `{"method":"item/permissions/requestApproval","id":6,"params":{"threadId":"T","turnId":"U1","itemId":"x","cwd":"/w","permissions":{"fileSystem":"%s"}}}`,
				"call":    `{"method":"mcpServer/elicitation/request","id":7,"params":{"threadId":"T","turnId":"U1","serverName":"s","mode":"form","_meta":{"codex_approval_kind":"mcp_tool_call","tool_params":"%s"},"message":"Allow?","requestedSchema":{"type":"object","properties":{}}}}`,
			} {
				said := []string{strings.ReplaceAll(line, "%s", long)}
				if name == "change" {
					said = append(said, `{"method":"item/fileChange/requestApproval","id":4,"params":{"threadId":"T","turnId":"U1","itemId":"i4"}}`)
				}
				for _, line := range said {
					c.say("!" + line)
					synctest.Wait()
				}
				check(t, fmt.Sprint(name, " at ", part), c.collect()["want"], secret, hide)
			}

			c.open("")
			c.callLine(`prompt {"command_id":"c1","text":"hello"}`)
			id := sent.FindStringSubmatch(c.collect()["client"])
			if id == nil {
				t.Fatal("no turn was begun")
			}
			message, err := json.Marshal(long)
			if err != nil {
				t.Fatal(err)
			}
			c.say(fmt.Sprintf(`{"id":%q,"error":{"code":-32600,"message":%s}}`, id[1], message))
			got := c.collect()
			check(t, fmt.Sprint("refusal at ", part), got["want"]+got["result"], secret, hide)
		}
		c.end()
	})
}

func check(t *testing.T, name, told, secret string, hide func(_, text string) string) {
	t.Helper()
	if told = hide("", told); !strings.Contains(told, "[redacted]") {
		t.Errorf("%s: nothing was redacted: %.500s", name, told)
	}
	for i := range len(secret) - 1 {
		if at := strings.Index(told, secret[i:i+2]); at >= 0 {
			t.Errorf("%s: %q is told: %s", name, secret[i:i+2], told[max(0, at-60):min(len(told), at+60)])
			return
		}
	}
}
