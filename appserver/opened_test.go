package appserver

import (
	"encoding/json"
	"fmt"
	"testing/synctest"

	"github.com/batonmcp/baton/sessions"
)

// opening is what a conversation that begins with -- opened -- may change.
type opening struct {
	Version  string
	Model    string
	Effort   string
	Mode     string
	Sandbox  string
	Approval string
	NativeID string
	HadTurn  bool
}

// models is the catalog of all conversations.
const models = `{"data":[` +
	`{"id":"m1","model":"m1","displayName":"M One","description":"","hidden":false,"isDefault":true,"supportedReasoningEfforts":[{"reasoningEffort":"low","description":""},{"reasoningEffort":"high","description":""}],"defaultReasoningEffort":"low","inputModalities":["text","image"]},` +
	`{"id":"m2","model":"m2-slug","displayName":"M Two","description":"","hidden":false,"isDefault":false,"supportedReasoningEfforts":[{"reasoningEffort":"low","description":""}],"defaultReasoningEffort":"low","inputModalities":["text"]},` +
	`{"id":"m3","model":"m3","displayName":"M Three","description":"","hidden":true,"isDefault":false,"supportedReasoningEfforts":[],"defaultReasoningEffort":"low"}` +
	`],"nextCursor":null}`

const thread = `{"id":"T","sessionId":"T","cliVersion":"0.171.0","createdAt":1,"updatedAt":1,"cwd":"/w","ephemeral":false,"modelProvider":"mock","preview":"","projectId":null,"source":"vscode","status":{"type":"idle"},"turns":[],"path":"/home/sessions/T.jsonl"}`

// open plays the handshake of an ordinary session, whose ids are 1 to 6.
func (c *conversation) open(body string) {
	c.begin()
	o := opening{Version: "0.171.0", Model: "m1", Effort: "low", Sandbox: sessions.SandboxWorkspaceWrite, Approval: sessions.ApprovalOnRequest}
	if body != "" {
		if err := json.Unmarshal([]byte(body), &o); err != nil {
			c.t.Fatal(err)
		}
	}
	p := sessions.OpenParams{Session: "S", Generation: "G", Runner: "codex", Cwd: "/w", NativeID: o.NativeID, HadTurn: o.HadTurn,
		Selection: sessions.Selection{Model: o.Model, Effort: o.Effort, Mode: o.Mode, Sandbox: o.Sandbox, ApprovalPolicy: o.Approval}}
	raw, err := json.Marshal(p)
	if err != nil {
		c.t.Fatal(err)
	}
	c.callLine("open " + string(raw))
	effort := "null"
	if o.Effort != "" {
		effort = fmt.Sprintf("%q", o.Effort)
	}
	model := o.Model
	if model == "" {
		model = "m1"
	}
	for _, line := range []string{
		fmt.Sprintf(`{"id":"1","result":{"userAgent":"baton/%s (Linux)","codexHome":"/home","platformFamily":"unix","platformOs":"linux"}}`, o.Version),
		`{"id":"2","result":` + models + `}`,
		`{"id":"3","result":{"account":null,"requiresOpenaiAuth":false}}`,
		`!{"id":"4","result":{"config":{},"origins":{}}}`,
		fmt.Sprintf(`{"id":"5","result":{"thread":%s,"model":%q,"modelProvider":"mock","cwd":"/w","approvalPolicy":%q,"approvalsReviewer":"user","sandbox":{"type":"readOnly","networkAccess":false},"reasoningEffort":%s}}`,
			thread, model, o.Approval, effort),
	} {
		synctest.Wait()
		c.say(line)
	}
	if o.Sandbox != sessions.SandboxReadOnly {
		synctest.Wait()
		c.say(settingsLine(model, effort, "default", o.Sandbox))
		c.say(`{"id":"6","result":{}}`)
	}
	got := c.collect()
	if want := "open: {"; len(got["result"]) < len(want) || got["result"][:len(want)] != want {
		c.t.Fatalf("the session did not open: %s", got["result"])
	}
}

// settingsLine is thread/settings/updated.
func settingsLine(model, effort, mode, sandbox string) string {
	policy := map[string]string{
		sessions.SandboxReadOnly:       `{"type":"readOnly","networkAccess":false}`,
		sessions.SandboxWorkspaceWrite: `{"type":"workspaceWrite","writableRoots":[],"networkAccess":false,"excludeTmpdirEnvVar":false,"excludeSlashTmp":false}`,
		sessions.SandboxFullAccess:     `{"type":"dangerFullAccess"}`,
	}[sandbox]
	return fmt.Sprintf(`{"method":"thread/settings/updated","params":{"threadId":"T","threadSettings":{"cwd":"/w","model":%q,"modelProvider":"mock","effort":%s,"approvalPolicy":"on-request","approvalsReviewer":"user","sandboxPolicy":%s,"collaborationMode":{"mode":%q,"settings":{"model":%q,"reasoning_effort":%s}}}}}`,
		model, effort, policy, mode, model, effort)
}
