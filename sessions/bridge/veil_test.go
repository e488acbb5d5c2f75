package bridge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/redact"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

const hush = "Zq7-hush-hush-0123456789"

func veiled(t *testing.T, protocol string, evs ...sessions.Event) []sessions.Event {
	t.Helper()
	v := newVeil()
	v.learn(Spec{Protocol: protocol, Env: []string{"PATH=/usr/bin:/bin", "GITHUB_TOKEN=" + hush}})
	var out []sessions.Event
	for _, e := range evs {
		v.event(e, func(e sessions.Event) { out = append(out, e) })
	}
	v.close(func(e sessions.Event) { out = append(out, e) })
	return out
}

func joined(evs []sessions.Event, item string) string {
	var b strings.Builder
	for _, e := range evs {
		if e.Item == item && !e.Final {
			b.WriteString(e.Text)
			if e.Tool != nil && e.Kind == sessions.EventToolUpdated {
				b.WriteString(e.Tool.Output)
			}
		}
	}
	return b.String()
}

func TestSecretsAreSeenAcrossDeltas(t *testing.T) {
	text := func(item, s string) sessions.Event {
		return sessions.Event{Kind: sessions.EventText, Command: "c", Item: item, Text: s}
	}
	tool := sessions.Event{Kind: sessions.EventToolStarted, Command: "c", Item: "t", Tool: &sessions.Tool{Name: "command"}}
	for cut := range hush {
		// Another text and a tool come between the two halves.
		out := veiled(t, "acp", text("i", "it is "+hush[:cut]), text("j", "between"), tool, text("i", hush[cut:]+", really"),
			sessions.Event{Kind: sessions.EventCommandSettled, Command: "c", Settled: &sessions.Settlement{State: sessions.CommandCompleted}})
		if got := joined(out, "i"); got != "it is "+redact.Mask+", really" {
			t.Fatalf("cut at %d: %q", cut, got)
		}
		if out[len(out)-1].Kind != sessions.EventCommandSettled || joined(out, "j") != "between" {
			t.Fatalf("cut at %d: %+v", cut, out)
		}
		marked := false
		for _, e := range out {
			marked = marked || e.Redacted && e.Item == "i"
		}
		if !marked {
			t.Fatalf("cut at %d: nothing is marked", cut)
		}
	}
}

// SE-02: an agent breaks a text off in the middle of a secret and goes on with it in another item, or tells again and again
// what it has not come to the end of. No part of the secret is told that is worth anything, and nothing else is lost.
func TestSecretsThatAreHalfWritten(t *testing.T) {
	text := func(kind sessions.EventKind, item, s string) sessions.Event {
		return sessions.Event{Kind: kind, Command: "c", Item: item, Text: s}
	}
	cutAt := func(e sessions.Event, whole string) sessions.Event {
		e.Text, e.Final, e.Cut = whole, true, true
		return e
	}
	follows := func(e sessions.Event, item string) sessions.Event {
		e.Follows = item
		return e
	}
	tool := func(kind sessions.EventKind, status, s string) sessions.Event {
		raw, err := json.Marshal(map[string]any{"command": s, "n": 1})
		if err != nil {
			t.Fatal(err)
		}
		return sessions.Event{Kind: kind, Command: "c", Item: "t", Raw: raw, Tool: &sessions.Tool{Name: "command", Status: status, Title: s, Output: s + "\nand " + s, Paths: []string{"/w", "/w/" + s}, Detail: raw}}
	}
	plan := func(s string) sessions.Event {
		return sessions.Event{Kind: sessions.EventPlan, Command: "c", Item: "plan", Final: true, Text: "- [ ] " + s + "\n- [ ] more\n", Data: map[string]any{"entries": []any{map[string]any{"content": s}}}}
	}
	piece := func(kind sessions.EventKind, s string) sessions.Event {
		return sessions.Event{Kind: kind, Command: "c", Item: "t", Tool: &sessions.Tool{Status: "in_progress", Output: s}, Raw: json.RawMessage(`{"_meta":{"list":["x",{"data":"` + s + `"}]}}`)}
	}
	var crowd []sessions.Event
	for i := range maxStreams + 10 {
		crowd = append(crowd, text(sessions.EventReasoning, fmt.Sprint("x", i), "and Zq"))
	}
	settled := sessions.Event{Kind: sessions.EventCommandSettled, Command: "c", Settled: &sessions.Settlement{State: sessions.CommandCompleted}}
	ends := 0
	for cut := range len(hush) {
		a, b := hush[:cut], hush[cut:]
		for name, c := range map[string]struct {
			evs        []sessions.Event
			item, rest string // what must be told of the last item, and of the one before
		}{
			"a tool": {[]sessions.Event{text(sessions.EventText, "i", "it is "+a), cutAt(text(sessions.EventText, "i", ""), "it is "+a),
				tool(sessions.EventToolStarted, "in_progress", "x"), follows(text(sessions.EventText, "j", b[:1]), "i"), follows(text(sessions.EventText, "j", b[1:]+", really"), "i")}, "j", ", really"},
			"nothing, but the item is full": {[]sessions.Event{text(sessions.EventText, "i", a), cutAt(text(sessions.EventText, "i", ""), a),
				follows(text(sessions.EventText, "j", b+", really"), "i")}, "j", ", really"},
			"three items": {[]sessions.Event{text(sessions.EventText, "i", a), cutAt(text(sessions.EventText, "i", ""), a),
				follows(text(sessions.EventText, "j", b[:1]), "i"), cutAt(text(sessions.EventText, "j", ""), b[:1]), follows(text(sessions.EventText, "k", b[1:]+", really"), "j")}, "k", ", really"},
			"a text": {[]sessions.Event{text(sessions.EventReasoning, "i", "it is "+a), text(sessions.EventText, "t", "well"),
				follows(text(sessions.EventReasoning, "j", b+", really"), "i")}, "j", ", really"},
			"an image": {[]sessions.Event{text(sessions.EventText, "i", "it is "+a), {Kind: sessions.EventText, Command: "c", Item: "i", Data: map[string]any{"content": "image"}},
				text(sessions.EventText, "i", b+", really")}, "i", ", really"},
			"a crowd": {slices.Concat([]sessions.Event{text(sessions.EventText, "i", "it is "+a)}, crowd, []sessions.Event{text(sessions.EventText, "i", b+", really")}), "i", ", really"},
			"a tool that runs": {[]sessions.Event{tool(sessions.EventToolStarted, "in_progress", a), tool(sessions.EventToolUpdated, "in_progress", "it is "+a),
				tool(sessions.EventToolCompleted, "completed", hush)}, "", ""},
			"a plan": {[]sessions.Event{plan("it is " + a), plan(hush)}, "", ""},
			"pieces beside a tool": {[]sessions.Event{piece(sessions.EventToolStarted, a), piece(sessions.EventToolUpdated, b+" and"),
				piece(sessions.EventToolUpdated, " again "+a), piece(sessions.EventToolCompleted, b+" end")}, "", ""},
			"pieces after its end": {[]sessions.Event{piece(sessions.EventToolUpdated, a), {Kind: sessions.EventToolCompleted, Command: "c", Item: "t", Tool: &sessions.Tool{Status: "cancelled"}},
				settled, piece(sessions.EventToolUpdated, b+" end")}, "", ""},
			"pieces of which the first is lost": {[]sessions.Event{piece(sessions.EventToolUpdated, b+" and on")}, "", ""},
		} {
			out := veiled(t, "acp", append(c.evs, settled)...)
			for _, e := range out {
				raw, err := json.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				v := newVeil()
				v.learn(Spec{Env: []string{"GITHUB_TOKEN=" + hush}})
				told, _ := v.set.Load().JSON(raw, structural) // as its frame is
				if strings.Contains(string(told), redact.Mask+` end"}]`) && strings.Contains(string(told), `"output":"`+redact.Mask+` end"`) {
					ends++
				}
				for i := range len(hush) - 7 {
					if strings.Contains(string(told), hush[i:i+8]) {
						t.Fatalf("%s at %d: %q is told: %.300s", name, cut, hush[i:i+8], told)
					}
				}
			}
			if got := joined(out, c.item); !strings.HasSuffix(got, c.rest) || !strings.HasSuffix(got, redact.Mask+c.rest) && (len(b) > 1 || name != "three items") && c.item != "" {
				t.Fatalf("%s at %d: %q", name, cut, got)
			}
		}
	}
	if ends != 2*len(hush) {
		t.Errorf("%d pieces ended with the rest of one", ends)
	}
	for _, s := range []string{"an ordinary text", "and " + hush[:7], "and " + hush[:8]} {
		done := tool(sessions.EventToolCompleted, "completed", s) // which has come to its end
		if out := veiled(t, "acp", done); out[0].Tool.Title != s || string(out[0].Raw) != string(done.Raw) || out[0].Redacted {
			t.Errorf("%+v", out[0].Tool)
		}
		half := strings.Contains(s, hush[:8])
		for _, e := range veiled(t, "acp", tool(sessions.EventToolUpdated, "in_progress", s), plan(s)) {
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if e.Redacted != half || strings.Contains(string(raw), s) == half || strings.Contains(string(raw), redact.Mask) != half {
				t.Errorf("%q: %s", s, raw)
			}
		}
	}
}

// What an agent names its things with is told without the secrets in it, and still tells them apart.
func TestSecretsInNames(t *testing.T) {
	w := begin(t, nil)
	p := w.opened(func(s *Spec) { s.Env = append(s.Env, "GITHUB_TOKEN="+hush) })
	f := w.agent()
	told := func(item string) string {
		f.sink.Emit(sessions.Event{Kind: sessions.EventToolStarted, Item: item, Agent: item, Tool: &sessions.Tool{Name: "command"}})
		got := p.until(OutEvent)
		e := body[sessions.Event](t, got)
		if strings.Contains(string(got.Body), hush) || e.Agent != e.Item {
			t.Errorf("%s", got.Body)
		}
		p.ack()
		return e.Item
	}
	a, b := told("call "+hush), told("call "+hush+hush)
	if a == b || a != told("call "+hush) || !strings.HasPrefix(a, "call "+redact.Mask) || told("call 1") != "call 1" {
		t.Errorf("%q and %q", a, b)
	}
	p.give(2, InClose, CloseInput{})
	p.ended()
	w.gone()
}

// A secret of several lines is one, whole or half, also in what is several texts.
func TestSecretsOfSeveralLines(t *testing.T) {
	const key = "Zq7-first-line\nsecond-8-line\nlast"
	for cut := range len(key) + 1 {
		v := newVeil()
		v.learn(Spec{Protocol: "acp", Env: []string{"GITHUB_TOKEN=" + key}})
		tool := sessions.Event{Kind: sessions.EventToolUpdated, Item: "t", Tool: &sessions.Tool{Status: "in_progress", Output: "it is " + key[:cut]}}
		plan := sessions.Event{Kind: sessions.EventPlan, Item: "p", Final: true, Text: "it is " + key[:cut]}
		for _, e := range v.events([]sessions.Event{tool, plan}) {
			want := "it is " + key[:cut]
			if cut >= 8 {
				want = "it is " + redact.Mask
			}
			if e.Tool == nil && e.Text != want || e.Tool != nil && e.Tool.Output != want {
				t.Fatalf("%d: %+v %+v", cut, e, e.Tool)
			}
		}
	}
}

// The history of a conversation that only its agent has comes in pieces, too.
func TestSecretsInAHistory(t *testing.T) {
	var said sessions.ForeignSaid
	for _, piece := range []string{"it is ", hush[:9], hush[9:], ", really"} {
		said.Events = append(said.Events, sessions.Event{Kind: sessions.EventReasoning, Item: "past/1", Text: piece, Replay: true})
	}
	w := begin(t, nil, func(o *Options) {
		a := o.Adapters["fake"]
		a.Foreign = func(context.Context, *wire.Conn, Spec, sessions.ForeignAsk, *zerolog.Logger) (sessions.ForeignSaid, error) {
			return said, nil
		}
		o.Adapters["fake"] = a
	})
	p := w.attach(1, 0)
	p.give(1, InForeign, ForeignInput{Spec: spec(func(s *Spec) { s.Env = append(s.Env, "GITHUB_TOKEN="+hush) }), Ask: sessions.ForeignAsk{NativeID: "n", Events: true}})
	told := body[sessions.ForeignSaid](t, p.until(OutForeign)).Events
	if got := joined(told, "past/1"); got != "it is "+redact.Mask+", really" || !told[0].Replay {
		t.Errorf("%q: %+v", got, told)
	}
	p.ended()
	w.gone()
}

// What is held back comes before what ends it, and nothing is lost.
func TestHeldTextComesBeforeItsEnd(t *testing.T) {
	half := sessions.Event{Kind: sessions.EventText, Command: "c", Turn: "u", Item: "i", Text: "half " + hush[:9]}
	for name, end := range map[string]sessions.Event{
		"final":   {Kind: sessions.EventText, Command: "c", Turn: "u", Item: "i", Text: "half " + hush[:9], Final: true},
		"turn":    {Kind: sessions.EventTurnCompleted, Command: "c", Turn: "u"},
		"command": {Kind: sessions.EventCommandSettled, Settled: &sessions.Settlement{Command: "c"}},
		"nothing": {Kind: sessions.EventWarning},
	} {
		out := veiled(t, "acp", half, end)
		if got := joined(out, "i"); got != half.Text {
			t.Errorf("%s: %q", name, got)
		}
		if last := out[len(out)-1]; name != "nothing" && last.Kind != end.Kind {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

func TestSecretsInToolOutput(t *testing.T) {
	piece := func(s string) sessions.Event {
		return sessions.Event{Kind: sessions.EventToolUpdated, Command: "c", Item: "t", Tool: &sessions.Tool{Status: "in_progress", Output: s}}
	}
	end := sessions.Event{Kind: sessions.EventToolCompleted, Command: "c", Item: "t", Tool: &sessions.Tool{Output: "TOKEN=" + hush}}
	out := veiled(t, "app-server", piece("TOKEN="+hush[:5]), piece(hush[5:]), end)
	if got := joined(out, "t"); got != "TOKEN="+redact.Mask {
		t.Errorf("in pieces: %q", got)
	}
	detail := func(s string) sessions.Event { // as a change that is being written, or what is typed
		e := piece("x")
		e.Tool.Detail = json.RawMessage(`{"stdin":"` + s + `"}`)
		return e
	}
	for i, e := range veiled(t, "app-server", detail("it is "+hush[:10]), detail(hush[10:]+" all"))[:2] {
		if want := []string{"it is " + redact.Mask, redact.Mask + " all"}[i]; string(e.Tool.Detail) != `{"stdin":"`+want+`"}` || !e.Redacted {
			t.Errorf("beside it: %s", e.Tool.Detail)
		}
	}
	out = veiled(t, "acp", piece("a"), piece("a b"), end) // whole each time
	if len(out) != 3 || out[1].Tool.Output != "a b" {
		t.Errorf("whole: %+v", out)
	}
}

func TestFramesAreRedacted(t *testing.T) {
	v := newVeil()
	v.learn(Spec{Env: []string{"GITHUB_TOKEN=" + hush, "MY_DB=postgres://u:p%40ss-w0rd-1@h/d", "HOME=/home/you"}, Open: sessions.OpenParams{
		MCPServers: []sessions.MCPServer{{Env: map[string]string{"X": "mcp-value-42"}, Headers: map[string]string{"Authorization": "Bearer header-value-42"}}}}})
	frame := func(kind Kind, body any) string {
		line, err := frameOf(typeOut, 7, kind, body)
		if err != nil {
			t.Fatal(err)
		}
		line = v.frame(line, kind)
		f, err := readFrame(bufio.NewReader(bytes.NewReader(line)))
		if err != nil || f.N != 7 || f.Kind != kind || !json.Valid(f.Body) {
			t.Fatalf("%s: %v", line, err)
		}
		return string(f.Body)
	}
	e := sessions.Event{Kind: sessions.EventToolCompleted, Command: hush, Item: hush, Text: "x", Tool: &sessions.Tool{Title: "echo " + hush,
		Output: base64.StdEncoding.EncodeToString([]byte("a" + hush + "b")), Detail: json.RawMessage(`{"command":"echo ` + hush + `"}`)}, Raw: json.RawMessage(`["p%40ss-w0rd-1","p@ss-w0rd-1","mcp-value-42","header-value-42"]`)}
	body := frame(OutEvent, e)
	var got sessions.Event
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Redacted || got.Command != hush || got.Item != hush || strings.Count(body, hush) != 2 || strings.Count(body, redact.Mask) != 7 {
		t.Errorf("%s", body)
	}
	if body := frame(OutFailed, Failure{Error: sessions.Errorf(sessions.CodeAgentExited, "it said %s", hush).With("stderr", hush)}); strings.Contains(body, hush) || !strings.Contains(body, string(sessions.CodeAgentExited)) {
		t.Errorf("%s", body)
	}
	if body := frame(OutExited, Exit{Stderr: hush, Running: []string{"c"}}); strings.Contains(body, hush) {
		t.Errorf("%s", body)
	}
	plain := frame(OutEvent, sessions.Event{Kind: sessions.EventText, Text: "nothing"})
	if strings.Contains(plain, "redacted") {
		t.Errorf("%s", plain)
	}
	var log bytes.Buffer
	if n, err := v.log(&log).Write([]byte("it is " + hush + "\n")); n != len(hush)+7 || err != nil || log.String() != "it is "+redact.Mask+"\n" {
		t.Errorf("log: %q %d %v", log.String(), n, err)
	}
}

// SE-02: of a secret that a bound divides no part is told, wherever it is divided, by the bridge or by its adapter.
func TestSecretsAtBounds(t *testing.T) {
	w := begin(t, nil)
	p := w.opened(func(s *Spec) { s.Env = append(s.Env, "GITHUB_TOKEN="+hush) })
	f := w.agent()
	for part := range len(hush) + 1 { // so that each bound divides one, at each place in turn
		long := strings.Repeat("x", part) + strings.Repeat(hush+"_", 1000)
		for name, e := range map[string]sessions.Event{
			"text":    {Kind: sessions.EventWarning, Text: long},
			"title":   {Kind: sessions.EventToolStarted, Tool: &sessions.Tool{Title: long}},
			"request": {Kind: sessions.EventApprovalRequested, Request: &sessions.Request{Title: long, Options: []sessions.Option{{OptionID: "a", Label: long}}}},
			"name":    {Kind: sessions.EventToolUpdated, Item: long, Tool: &sessions.Tool{Name: long, Status: "in_progress"}},
			"adapter": {Kind: sessions.EventWarning, Text: f.spec.Redact(long[:part], long[part:])[:1000]},
		} {
			f.sink.Emit(e)
			got := p.until(OutEvent)
			if told := string(got.Body); !strings.Contains(told, redact.Mask) || !body[sessions.Event](t, got).Redacted {
				t.Errorf("%s at %d: nothing was redacted: %.500s", name, part, told)
			}
			if at := strings.Index(string(got.Body), hush[:4]); at >= 0 { // the beginning is what a bound leaves
				t.Errorf("%s at %d: %q is told", name, part, got.Body[at:min(len(got.Body), at+len(hush))])
			}
			p.ack()
		}
	}
	p.give(2, InClose, CloseInput{})
	p.ended()
	w.gone()
}

// What was answered to a secret question is one from then on; the answer itself goes to the agent as it is.
func TestSecretAnswers(t *testing.T) {
	v := newVeil()
	var out []sessions.Event
	emit := func(e sessions.Event) { v.event(e, func(e sessions.Event) { out = append(out, e) }) }
	emit(sessions.Event{Kind: sessions.EventQuestionRequested, Request: &sessions.Request{Handle: "h", Questions: []sessions.Question{{ID: "q", Secret: true}, {ID: "r"}}}})
	emit(sessions.Event{Kind: sessions.EventText, Item: "i", Text: "before: answer-to-"})
	a := sessions.Answer{Handle: "h", Answers: map[string][]string{"q": {"answer-to-q-1"}, "r": {"answer-to-r-1"}}}
	v.answered(a)
	if a.Answers["q"][0] != "answer-to-q-1" {
		t.Error("the answer was changed")
	}
	emit(sessions.Event{Kind: sessions.EventText, Item: "i", Text: "q-1 and answer-to-r-1"})
	v.close(func(e sessions.Event) { out = append(out, e) })
	if got := joined(out, "i"); !strings.HasSuffix(got, "and answer-to-r-1") || strings.Count(got, "answer-to-q-1") != 1 {
		t.Errorf("%q", got) // its beginning was given out before it was one
	}
	emit(sessions.Event{Kind: sessions.EventText, Item: "k", Text: "answer-to-q-1", Final: true})
	line, err := frameOf(typeOut, 1, OutEvent, out[len(out)-1])
	if err != nil || strings.Contains(string(v.frame(line, OutEvent)), "answer-to-q-1") {
		t.Errorf("%s %v", line, err)
	}
}

func TestCredentialNames(t *testing.T) {
	for name, want := range map[string]bool{"OPENAI_API_KEY": true, "GITHUB_TOKEN": true, "GH_PAT": true, "DB_PASSWORD": true, "PGPASSWORD": true, "AWS_SECRET_ACCESS_KEY": true,
		"NPM_AUTH": true, "ANTHROPIC_AUTH_TOKEN": true, "HOME": false, "PATH": false, "PWD": false, "KEYBOARD": false, "LANG": false, "TERM": false, "CODEX_HOME": false} {
		if credential(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if got := secretsIn("/run/agent.sock"); got != nil {
		t.Errorf("a path: %q", got)
	}
}
