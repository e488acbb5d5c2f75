package appserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batonmcp/baton/sessions"
)

// Codex names things by 100 kB. What would have to go back to it is refused, with an answer; the rest stays within the
// bounds.
func TestLongNames(t *testing.T) {
	x := strings.Repeat("x", 100_000)
	synctest.Test(t, func(t *testing.T) {
		c := &conversation{t: t}
		c.begin()
		c.callLine(`open {"Session":"S","Generation":"G","Runner":"codex","Cwd":"/w"}`)
		for _, line := range []string{
			`{"id":"1","result":{"userAgent":"baton/0.171.0 (Linux)","codexHome":"/home","platformFamily":"unix","platformOs":"linux"}}`,
			`{"id":"2","result":` + models + `}`,
			`{"id":"3","result":{"account":null,"requiresOpenaiAuth":false}}`,
			`!{"id":"4","result":{"config":{},"origins":{}}}`,
			fmt.Sprintf(`{"id":"5","result":{"thread":%s,"model":"m1","modelProvider":"mock","cwd":"/w","approvalPolicy":"on-request","approvalsReviewer":"user","sandbox":{"type":"readOnly","networkAccess":false},"reasoningEffort":null}}`,
				strings.Replace(thread, `"id":"T"`, `"id":"`+x+`"`, 1)),
		} {
			synctest.Wait()
			c.say(line)
		}
		got := c.collect()
		if r := got["result"]; !strings.Contains(r, "100000 bytes") || !strings.Contains(r, string(sessions.CodeAgentProtocol)) || len(r) > 500 {
			t.Errorf("a thread of that name: %.600s", r)
		}

		c.open("")
		c.callLine(`prompt {"command_id":"c1","text":"hello"}`)
		synctest.Wait()
		c.collect()
		for name, questions := range map[string]string{
			"question": `[{"id":"` + x + `","header":"h","question":"q","isOther":false,"isSecret":false,"options":null}]`,
			"answer":   `[{"id":"q","header":"h","question":"q","isOther":false,"isSecret":false,"options":[{"label":"` + x + `","description":""}]}]`,
		} {
			c.say(`{"id":70,"method":"item/tool/requestUserInput","params":{"threadId":"T","turnId":"U","itemId":"i","isBlocking":true,"questions":` + questions + `}}`)
			synctest.Wait()
			got := c.collect()
			if !strings.Contains(got["client"], `"id":70,"error"`) || strings.Contains(got["want"], "question.requested") || !strings.Contains(got["want"], "declined") {
				t.Errorf("%s: %.300s %.300s", name, got["client"], got["want"])
			}
		}
		c.end()
	})
}
