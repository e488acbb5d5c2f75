package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sessions"
)

// mcpHosts are the real hosts that a test can drive.
var mcpHosts = []*mcpHost{&claudeCode, &codexAsHost}

// TestRealHosts: what hosts do with Baton, with their own configuration as `baton install` wrote it, without a network and
// without an account. A front end of the test looks on.
func TestRealHosts(t *testing.T) {
	for _, h := range mcpHosts {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			w := h.ready(t)
			f := w.open()
			defer f.close()
			x := &hostScenario{mcpHost: h, world: w, f: f, session: sessions.NewID()}
			for _, part := range []struct {
				name string
				play func()
			}{{"nobody there", x.nobodyThere}, {"user asked", x.userAsked}, {"cancelled", x.cancelled}, {"front end killed", x.frontEndKilled},
				{"host killed", x.hostKilled}, {"drives Codex", x.drivesCodex}, {"closed", x.closed}} {
				began := time.Now()
				part.play()
				t.Logf("%6.1f s  %s", time.Since(began).Seconds(), part.name)
			}
		})
	}
}

// hostScenario is one host at work with one session.
type hostScenario struct {
	*mcpHost
	*world
	f       *front
	session string
	remote  bool // over HTTP, where the environment is that of the server
}

func (x *hostScenario) send(text string, more args) toolCall {
	a := args{"session_id": x.session, "text": text, "wait_seconds": 20}
	for k, v := range more {
		a[k] = v
	}
	return toolCall{"session_send", a}
}

func (x *hostScenario) wait() toolCall {
	return toolCall{"session_wait", args{"session_ids": []string{x.session}, "wait_seconds": 20}}
}

// given wants a prompt to have been given to the agent so often.
func (x *hostScenario) given(text string, n int) {
	x.t.Helper()
	if got := x.times(text); got != n {
		x.t.Errorf("%s: %q was given to the agent %d times, not %d", x.name, text, got, n)
	}
}

// nobodyThere: a run without a user creates a session, which works and asks. The question is closed, which decides
// nothing; the next run finds it, answers it and reads the end.
func (x *hostScenario) nobodyThere() {
	x.t.Helper()
	const prompt = "[approve touch one][say 3]"
	create := args{"runner": "codexlike", "cwd": x.work, "session_id": x.session}
	if !x.remote { // what a host hands on of its environment is its own affair
		create["env"] = args{"BATON_FIXTURE_RECORD": x.path("record")}
	}
	r := x.alone(x.world, x.script(x.t, toolCall{"session_create", create},
		x.send(prompt, args{"command_id": "one"}), x.wait()))
	if s := resultOf[sessions.CreateResult](r, 0).Session; s.State != sessions.SessionIdle {
		x.t.Fatalf("%s: created %s, failed calls %q\n%s", x.name, r.results, r.failed, r.errs.Bytes())
	}
	waited := resultOf[sessions.WaitResult](r, 2)
	if len(waited.Sessions) != 1 || !waited.Sessions[0].Session.NeedsInput || exists(x.path("work/one")) {
		x.t.Fatalf("%s: with nobody there: %+v", x.name, waited)
	}
	r = x.alone(x.world, x.script(x.t, x.wait(),
		toolCall{"session_respond", args{"session_id": x.session, "request_id": "{{request_id}}", "decision": "approve"}}, x.wait()))
	if q := resultOf[sessions.RespondResult](r, 1).Request; q.State != sessions.RequestAnswered {
		x.t.Errorf("%s: answered %+v", x.name, q)
	}
	if waited := resultOf[sessions.WaitResult](r, 2); len(waited.Sessions) != 1 || waited.Sessions[0].Text != directive.Words(3) || !exists(x.path("work/one")) {
		x.t.Errorf("%s: after the answer %+v", x.name, waited)
	}
	x.given(prompt, 1)
}

// userAsked: a host whose user is there puts the question, and the answer reaches the agent within the call. Claude Code
// makes the call a second time for that, with the same id of its own: it is done once.
func (x *hostScenario) userAsked() {
	x.t.Helper()
	const prompt = "[approve touch two][say 4]"
	r := x.attended(x.world)
	r.decide = "accept"
	r.turn(x.script(x.t, x.send(prompt, nil)))
	sent := resultOf[sessions.SendResult](r, 0)
	if len(r.asked) != 1 || !strings.Contains(r.asked[0], "touch two") || sent.Command.State != sessions.CommandCompleted || sent.Text != directive.Words(4) || !exists(x.path("work/two")) {
		x.t.Errorf("%s: asked %q, %+v, %q", x.name, r.asked, sent.Command, sent.Text)
	}
	x.given(prompt, 1)
	if own := strings.HasPrefix(sent.Command.CommandID, "call-toolu_"); own != x.names {
		x.t.Errorf("%s: the key of the call is %q", x.name, sent.Command.CommandID)
	}

	r.decide = ""
	r.turn(x.script(x.t, x.send("[approve touch three]", args{"command_id": "three"}), x.wait(),
		toolCall{"session_respond", args{"session_id": x.session, "request_id": "{{request_id}}", "decision": "deny"}}, x.wait()))
	if len(r.asked) != 2 || exists(x.path("work/three")) {
		x.t.Errorf("%s: closed a question, and was asked %q", x.name, r.asked)
	}
	if q := resultOf[sessions.RespondResult](r, 3).Request; q.State != sessions.RequestAnswered {
		x.t.Errorf("%s: denied %+v", x.name, q)
	}
	r.close()
}

// cancelled: a user who interrupts the host ends its wait and not the work; session_cancel does.
func (x *hostScenario) cancelled() {
	x.t.Helper()
	r := x.attended(x.world)
	r.prompt(r, x.script(x.t, x.send("[say 2][wait]", args{"command_id": "held"})))
	x.f.streaming(x.session, "held")
	r.interrupt(r)
	r.end()
	list := call[sessions.ListResult](x.f, "session_list", args{})
	if len(list.Sessions) != 1 || list.Sessions[0].State != sessions.SessionRunning {
		x.t.Errorf("%s: after the interrupt of the host %+v", x.name, list)
	}
	before := len(r.results)
	r.turn(x.script(x.t, toolCall{"session_cancel", args{"session_id": x.session, "command_id": "held"}}))
	if c := resultOf[sessions.CancelResult](r, before).Command; c == nil || c.State != sessions.CommandInterrupted {
		x.t.Errorf("%s: cancelled %+v", x.name, c)
	}
	r.close()
}

// held is a prompt whose turn goes on until a file is there.
func held(file string) string {
	return "[run until test -e " + file + "; do sleep 0.05; done][say 5]"
}

func (x *hostScenario) release(file string) {
	x.t.Helper()
	if err := os.WriteFile(x.path("work/"+file), nil, 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// working waits until the agent has the prompt of a run.
func (x *hostScenario) working(r *hostRun, prompt string) {
	x.t.Helper()
	await(x.t, "the prompt at the agent", func() bool { return x.times(prompt) > 0 })
	if x.times(prompt) == 0 {
		r.cmd.Process.Kill()
		said, _ := io.ReadAll(r.out)
		_ = r.cmd.Wait() // killed
		x.t.Fatalf("%s said %s\n%s", x.name, said, r.errs.Bytes())
	}
}

// frontEndKilled: the model makes a call again whose front end died under it, through a front end that the host has started
// anew. Neither host makes it again by itself.
func (x *hostScenario) frontEndKilled() {
	x.t.Helper()
	prompt := held("four")
	r := x.attended(x.world)
	again := x.send(prompt, args{"command_id": "four"})
	r.prompt(r, x.script(x.t, again))
	x.working(r, prompt)
	before := len(r.failed)
	r.killFront()
	r.end()
	if len(r.failed) != before+1 {
		x.t.Errorf("%s: the call under which the front end died ended with %q, %s", x.name, r.failed, r.results)
	}
	x.release("four")
	r.turn(x.script(x.t, again))
	r.close()
	if len(r.results) == 0 { // Codex gives a server up for the length of its thread
		r = x.alone(x.world, x.script(x.t, again))
	}
	if sent := resultOf[sessions.SendResult](r, 0); sent.Command.State != sessions.CommandCompleted || sent.Text != directive.Words(5) {
		x.t.Errorf("%s: made again: %+v, %q", x.name, sent.Command, sent.Text)
	}
	x.given(prompt, 1)
}

// hostKilled: the work goes on under a host that dies in a call, and the next one makes the same call and gets its result.
func (x *hostScenario) hostKilled() {
	x.t.Helper()
	prompt := held("five")
	again := x.send(prompt, args{"command_id": "five"})
	r := x.attended(x.world)
	r.prompt(r, x.script(x.t, again))
	x.working(r, prompt)
	r.kill()
	list := call[sessions.ListResult](x.f, "session_list", args{})
	if len(list.Sessions) != 1 || list.Sessions[0].Running == nil || list.Sessions[0].Running.CommandID != "five" {
		x.t.Errorf("%s: after the death of the host %+v", x.name, list)
	}
	x.release("five")
	r = x.alone(x.world, x.script(x.t, again, x.wait()))
	if sent := resultOf[sessions.SendResult](r, 0); sent.Command.State != sessions.CommandCompleted || sent.Text != directive.Words(5) {
		x.t.Errorf("%s: made again: %+v, %q", x.name, sent.Command, sent.Text)
	}
	x.given(prompt, 1)
}

// drivesCodex: the same host has the real Codex work: a turn, and an approval by its user. The home of that Codex may name
// Baton as well, as it does where the host is Codex: inside of a session Baton offers no tools.
func (x *hostScenario) drivesCodex() {
	x.t.Helper()
	id := sessions.NewID()
	send := func(text string) toolCall {
		return toolCall{"session_send", args{"session_id": id, "text": text, "wait_seconds": 40}}
	}
	r := x.attended(x.world)
	r.decide = "accept"
	r.turn(x.script(x.t,
		toolCall{"session_create", args{"runner": "codex", "cwd": x.work, "session_id": id, "model": responses.Model, "approval_policy": "untrusted", "wait_seconds": 40}},
		send("[text from Codex]"), send("[shell touch six]"), toolCall{"session_close", args{"session_id": id}}))
	if e := resultOf[sessions.CreateResult](r, 0).Session.Selections.Evidence; e.Model != responses.Model {
		x.t.Errorf("%s: Codex confirmed %+v", x.name, e)
	}
	if sent := resultOf[sessions.SendResult](r, 1); sent.Text != "from Codex" || sent.Command.State != sessions.CommandCompleted {
		x.t.Errorf("%s: Codex said %+v, %q", x.name, sent.Command, sent.Text)
	}
	if sent := resultOf[sessions.SendResult](r, 2); sent.Command.State != sessions.CommandCompleted || !r.saw("touch six") || !exists(x.path("work/six")) {
		x.t.Errorf("%s: asked %q, %+v", x.name, r.asked, sent.Command)
	}
	if c := resultOf[sessions.CloseResult](r, 3); c.Session.State != sessions.SessionClosed {
		x.t.Errorf("%s: closed %+v", x.name, c)
	}
	r.close()
}

// saw tells whether a question to the user held a text. There may be others: Codex asks its user itself before it calls
// a tool that is marked as destructive, such as session_close.
func (r *hostRun) saw(text string) bool {
	return slices.ContainsFunc(r.asked, func(q string) bool { return strings.Contains(q, text) })
}

// closed: a session is closed with nobody there. `codex exec` refuses a tool that is marked as destructive until its
// configuration says that it may be called.
func (x *hostScenario) closed() {
	x.t.Helper()
	script := x.script(x.t, toolCall{"session_close", args{"session_id": x.session}})
	r := x.alone(x.world, script)
	if x.allow != nil {
		if len(r.failed) != 1 || !strings.Contains(r.failed[0], "requires approval") {
			x.t.Errorf("%s: closed with nobody there: %q, %s", x.name, r.failed, r.results)
		}
		x.allow(x.world, "session_close")
		r = x.alone(x.world, script)
	}
	if c := resultOf[sessions.CloseResult](r, 0); c.Session.State != sessions.SessionClosed {
		x.t.Errorf("%s: closed %+v", x.name, c)
	}
}
