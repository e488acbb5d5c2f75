package appserver

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batonmcp/baton/fixtures/codexschema"
	"github.com/batonmcp/baton/sessions"
)

// TestNotifications walks the pinned schema: every notification is handled or ignored for a reason, and the table has
// none that Codex does not send.
func TestNotifications(t *testing.T) {
	table := notes()
	sent := methods(t, "ServerNotification")
	if len(sent) != 87 {
		t.Errorf("the schema of %s has %d notifications, 87 were looked at", codexschema.Version, len(sent))
	}
	for _, method := range sent {
		n, ok := table[method]
		if !ok || (n.handle == nil) == (n.ignored == "") {
			t.Errorf("%s is neither handled nor ignored for a reason", method)
		}
	}
	for method := range table {
		// Two of the TypeScript definitions are in no JSON schema.
		if !slices.Contains(sent, method) && !strings.HasPrefix(method, "rawResponse") {
			t.Errorf("%s is no notification of %s", method, codexschema.Version)
		}
	}
}

// TestRequests: what a person can answer is surfaced, everything else of the schema is known to be refused.
func TestRequests(t *testing.T) {
	refused := []string{"account/chatgptAuthTokens/refresh", "applyPatchApproval", "attestation/generate", "execCommandApproval", "item/tool/call"}
	var got []string
	for _, method := range methods(t, "ServerRequest") {
		if askerFor(method) == nil {
			got = append(got, method)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, refused) {
		t.Errorf("refused are %q, want %q", got, refused)
	}
}

// TestFailures: every name that a failure of a turn can have is in the table, with words of its own.
func TestFailures(t *testing.T) {
	raw, err := os.ReadFile("../fixtures/codexschema/ServerNotification.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Definitions struct {
			CodexErrorInfo struct {
				AnyOf, OneOf []struct {
					Enum       []string
					Properties map[string]json.RawMessage
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, x := range append(schema.Definitions.CodexErrorInfo.AnyOf, schema.Definitions.CodexErrorInfo.OneOf...) {
		names := x.Enum
		for name := range x.Properties {
			names = append(names, name)
		}
		for _, name := range names {
			named++
			if _, ok := failures[name]; !ok {
				t.Errorf("there is nothing to say about %s", name)
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d names found in the schema", named)
	}
	for name, f := range failures {
		if !f.code.Known() || f.outcome == "" || f.action == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}

	for _, x := range []struct{ info, message, outcome string }{
		{`"usageLimitExceeded"`, "", "usage_limit_exceeded"},
		{`{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`, "", "too_many_failed_attempts"},
		{`"unauthorized"`, "", "not_logged_in"},
		{`"brandNew"`, "", "failed"},
		{`{"brandNew":{}}`, "", "failed"},
		{`null`, "", "failed"},
		{``, "", "failed"},
		{`"other"`, "Incomplete response returned, reason: max_output_tokens", "max_tokens"},
		{`"other"`, `{"error":{"code":"model_not_found","message":"no"}}` + "\n", "model_not_found"},
		{`null`, `{"error":{"code":"insufficient_quota"}}`, "usage_limit_exceeded"},
		{`"badRequest"`, `{"error":{"code":"model_not_found"}}`, "bad_request"}, // Codex's own name stands
		{`"other"`, `{"error":{"code":"something_new"}}`, "failed"},
		{`"other"`, `{"error":{"code":7}}`, "failed"},
		{`"other"`, `model_not_found`, "failed"},
		{`"other"`, "unexpected status 404 Not Found: The model `gpt-x` does not exist or you do not have access to it., url: https://h/v1/responses, cf-ray: 1", "model_not_found"},
		{`"other"`, "unexpected status 404 Not Found: Model not found gpt-x, url: https://h/responses, cf-ray: 1, request id: 2", "model_not_found"},
		{`{"httpConnectionFailed":{"httpStatusCode":404}}`, "unexpected status 404 Not Found: model 'gpt-x' not found, url: http://h/v1/responses", "model_not_found"},
		{`"other"`, `unexpected status 404 Not Found: model "gpt-x" not found, try pulling it first, url: http://h/v1/responses`, "model_not_found"},
		{`"other"`, "stream disconnected before completion: The model `gpt-x` does not exist.", "model_not_found"},
		{`"other"`, `{"detail":"The 'gpt-x' model is not supported when using Codex with a ChatGPT account."}`, "model_not_found"},
		{`"other"`, `{"type":"error","status":400,"error":{"type":"invalid_request_error","message":"The 'gpt-x' model is not supported when using Codex with a ChatGPT account."}}`, "model_not_found"},
		{`"other"`, "unexpected status 404 Not Found: no such model, url: http://h/v1/responses", "failed"}, // could be anything that is missing
		{`"other"`, "unexpected status 404 Not Found: Unknown error, url: https://h/responses, cf-ray: 1", "failed"},
		{`"other"`, "unexpected status 404 Not Found: 404 page not found, url: https://h/v1/responses", "failed"},
		{`{"httpConnectionFailed":{"httpStatusCode":404}}`, "unexpected status 404 Not Found: 404 page not found, url: https://h/v1/responses", "http_connection_failed"},
		{`"other"`, "unexpected status 500 Internal Server Error: Model not found gpt-x, url: https://h/responses", "failed"},
		{`"other"`, "Model not found gpt-x", "failed"},
		{`"other"`, "unexpected status 404 Not Found: a tool says: Model not found gpt-x, url: https://h/responses", "failed"},
		{`"other"`, `{"error":{"message":"the file says: The model gpt-x does not exist"}}`, "failed"},
	} {
		e := &turnError{Info: json.RawMessage(x.info), Message: x.message}
		if s := settlement(wireTurn{Status: "failed", Error: e}, false); s.State != sessions.CommandFailed || s.Outcome != x.outcome || s.Reason == "" {
			t.Errorf("%s: %+v, want %s", x.info, s, x.outcome)
		}
	}
	if s := settlement(wireTurn{Status: "failed"}, false); s.Outcome != "failed" || s.Reason == "" {
		t.Errorf("a failure without an error: %+v", s)
	}
	if s := settlement(wireTurn{Status: "exploded"}, false); s.State != sessions.CommandFailed || !strings.Contains(s.Reason, "exploded") {
		t.Errorf("an unknown status: %+v", s)
	}
}

func TestRefusals(t *testing.T) {
	for _, x := range []struct{ text, other string }{
		{"expected active turn id `a-1` but found `b-2`", "b-2"},
		{"expected active turn id a-1 but found b-2", "b-2"},
		{"expected active turn id nope but found 01a22e34-4677-7041-9f8b-24db79888955", "01a22e34-4677-7041-9f8b-24db79888955"},
		{"no active turn to interrupt", ""},
		{"", ""},
	} {
		if got := otherTurn(&refusal{text: x.text}); got != x.other {
			t.Errorf("%q names turn %q, want %q", x.text, got, x.other)
		}
	}
	long := &refusal{method: "m", text: strings.Repeat("é", 1000)}
	if s := long.Error(); len(s) > 400 || !utf8.ValidString(s) {
		t.Errorf("a refusal of %d bytes: %q", len(s), s)
	}
	for text, want := range map[string]string{
		"codex_cli_rs/0.125.0 (Debian; x86_64)": "0.125.0", "baton/0.171.0-alpha.3 dumb": "0.171.0-alpha.3", "x/1.0.0": "1.0.0", "x/0.0.0": "0.0.0",
	} {
		if v, err := parseVersion(text); err != nil || v.text != want {
			t.Errorf("%q is version %q, %v", text, v.text, err)
		}
	}
	for _, text := range []string{"x/0.124.9", "codex_cli_rs/0.77.0 (Debian; x86_64)", "x/0.9.0", "no version", ""} {
		if _, err := parseVersion(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestClip(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("x", maxText), strings.Repeat("x", maxText+1), strings.Repeat("é😀", maxText), strings.Repeat("😀", maxText/4+1)} {
		got := clip(s, nil)
		if len(got) > maxText || !utf8.ValidString(got) {
			t.Errorf("%d bytes became %d, valid %v", len(s), len(got), utf8.ValidString(got))
		}
		if len(s) <= maxText && got != s {
			t.Errorf("%d bytes were changed", len(s))
		}
		if len(s) > maxText && (got[:100] != s[:100] || got[len(got)-100:] != s[len(s)-100:] || !strings.Contains(got, "bytes left out")) {
			t.Errorf("%d bytes lost their beginning or their end", len(s))
		}
	}

	big := strings.Repeat("x", 3*maxText)
	raw, err := json.Marshal(map[string]any{"id": "1", "aggregatedOutput": big, "result": big, "arguments": map[string]string{"a": big}, "startedAtMs": 1})
	if err != nil {
		t.Fatal(err)
	}
	got := detailOf(raw)
	if want := `{"arguments":{"left_out_bytes":196616},"id":"1","result":{"left_out_bytes":196610}}`; string(got) != want {
		t.Errorf("detail %s, want %s", got, want)
	}
	many := map[string]int{}
	for i := range 20000 {
		many["member number "+string(rune('a'+i%26))+strings.Repeat("y", i%97)+string(rune(i))] = i
	}
	if raw, err = json.Marshal(many); err != nil {
		t.Fatal(err)
	}
	if got := detailOf(raw); len(got) > 2*maxText {
		t.Errorf("a detail of %d bytes", len(got))
	}
	if got := detailOf(json.RawMessage(`7`)); got != nil {
		t.Errorf("the detail of a number is %s", got)
	}
}

func TestStanding(t *testing.T) {
	a := &Agent{standing: [][]string{{"/usr/bin/node", "server.js"}, {"tool", "-x"}}}
	for _, x := range []struct {
		argv string
		want bool
	}{
		{"/opt/codex/codex-code-mode-host --listen grpc+stdio://", true},
		{"node server.js", true},
		{"/bin/sh /usr/local/bin/tool -x", true},
		{"node other.js", false},
		{"tool", false},
		{"sleep 300", false},
		{"", false},
	} {
		if got := a.Standing(strings.Fields(x.argv)); got != x.want {
			t.Errorf("%q: %v", x.argv, got)
		}
	}
}

// A command is found by its script: the quotes of items and processes differ, and Codex has scripts of its own around it.
func TestCommand(t *testing.T) {
	const around = "if . '/home/shell_snapshots/x.sh' >/dev/null 2>&1; then :; fi\n\nexec '/bin/bash' -c "
	item := "/bin/bash -lc \"echo \\\"a'b\\\" 'c\\\\d' \"'$HOME; # é\n sleep 662'" // as 0.125 to 0.171 have it
	for name, x := range map[string]struct {
		item string
		argv []string
		want bool
	}{
		"plain":                  {item, []string{"/bin/bash", "-c", "echo \"a'b\" 'c\\d' $HOME; # é\n sleep 662"}, true},
		"in a sandbox":           {"/bin/bash -lc 'sleep 5'", []string{"/home/tmp/codex-linux-sandbox", "--sandbox-policy-cwd", "/w", "--", "/bin/bash", "-c", "sleep 5"}, true},
		"behind its own script":  {item, []string{"codex-linux-sandbox", "--", "/bin/bash", "-c", around + "'echo \"a'\"'\"'b\" '\"'\"'c\\d'\"'\"' $HOME; # é\n sleep 662'"}, true},
		"one word":               {"/bin/zsh -lc ls", []string{"/bin/zsh", "-lc", "ls"}, true},
		"another script":         {"/bin/bash -lc 'sleep 5'", []string{"/bin/bash", "-c", "sleep 50"}, false},
		"the end of another":     {"/bin/bash -lc 'sleep 5'", []string{"/bin/bash", "-c", "date; sleep 5"}, false},
		"no shell":               {"/bin/bash -lc 'sleep 5'", []string{"sleep", "5"}, false},
		"an item without script": {"sleep 5", []string{"/bin/bash", "-c", ""}, false},
		"a flag further on":      {"tool x -c y", []string{"/bin/bash", "-c", "y"}, false},
		"nothing":                {item, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Agent{running: map[itemKey]string{}}
			k := itemKey{"t", "i"}
			a.commandRuns(k, x.item)
			if got := a.Command(x.argv); got != x.want {
				t.Errorf("%q is %q: %t", x.argv, x.item, got)
			}
			a.commandEnded(k)
			if a.Command(x.argv) {
				t.Error("it has ended")
			}
		})
	}
}
