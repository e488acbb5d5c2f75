package appserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// TestChaos lets Codex and its callers do anything in any order, and holds the Agent to what it promises whatever
// happens: one end for each command that was written and none for others, no turn/start beside a running turn,
// "interrupted" only on Codex's word, an answer or an open entry for each request.
func TestChaos(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &chaos{conversation: conversation{t: t}, random: rand.New(rand.NewPCG(seed, 1)), states: map[string]string{}, asked: map[string]string{}}
				c.run()
			})
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

type chaos struct {
	conversation
	random *rand.Rand

	log      []string
	pending  []outCall // calls of the Agent without an answer
	turns    int
	said     bool              // Codex said interrupted
	commands []string          // given to Prompt
	states   map[string]string // of a command: "", written, refused, settled
	handles  []string
	asked    map[string]string // Codex's request ids: open, answered, resolved
	requests int
}

type outCall struct{ id, method string }

func (c *chaos) run() {
	c.open("")
	for range 60 {
		c.step()
		c.observe()
		if c.t.Failed() {
			break
		}
	}
	time.Sleep(2 * time.Minute) // whatever has a deadline meets it
	c.observe()
	c.judge()
	c.end()
	if c.t.Failed() {
		c.t.Log(strings.Join(c.log, "\n"))
	}
}

func (c *chaos) agent(line string) {
	c.log = append(c.log, "agent "+line)
	c.conversation.say("!" + line)
	synctest.Wait()
}

func (c *chaos) step() {
	live := c.agentLive()
	switch n := c.random.IntN(20); {
	case n < 3:
		command := fmt.Sprintf("c%d", len(c.commands))
		p := sessions.Prompt{CommandID: command, Text: "x"}
		if len(c.commands) > 0 && c.random.IntN(3) == 0 {
			p.Steer = c.commands[c.random.IntN(len(c.commands))]
		} else if c.random.IntN(6) == 0 {
			p.Effort = []string{"low", "high"}[c.random.IntN(2)]
		}
		c.commands = append(c.commands, command)
		raw, _ := json.Marshal(p)
		c.log = append(c.log, "prompt "+string(raw))
		c.callLine("prompt " + string(raw))
	case n < 5 && len(c.commands) > 0:
		command := c.commands[len(c.commands)-1-c.random.IntN(min(3, len(c.commands)))]
		c.log = append(c.log, "cancel "+command)
		c.callLine("cancel " + command)
	case n < 6 && len(c.handles) > 0:
		h := c.handles[c.random.IntN(len(c.handles))]
		c.log = append(c.log, "answer "+h)
		c.callLine(`answer {"handle":"` + h + `","option_id":"accept"}`)
	case n < 7:
		d := time.Duration(c.random.IntN(3000)) * time.Millisecond
		c.log = append(c.log, "wait "+d.String())
		time.Sleep(d)
	case !live:
	case n < 12 && len(c.pending) > 0:
		c.respond()
	case n < 14 && c.turns > 0:
		c.agent(fmt.Sprintf(`{"method":"turn/started","params":{"threadId":"T","turn":{"id":"U%d","items":[],"status":"inProgress"}}}`, c.turns))
	case n < 16 && c.turns > 0:
		status := []string{"completed", "interrupted", "failed"}[c.random.IntN(3)]
		c.said = c.said || status == "interrupted"
		c.agent(fmt.Sprintf(`{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"U%d","items":[],"status":%q}}}`, max(1, c.turns-c.random.IntN(2)), status))
	case n < 17:
		c.agent(fmt.Sprintf(`{"method":"item/agentMessage/delta","params":{"threadId":"T","turnId":"U%d","itemId":"m%d","delta":"x"}}`, c.turns, c.random.IntN(3)))
	case n < 19:
		id := fmt.Sprint(c.requests)
		c.requests++
		c.asked[id] = "open"
		c.agent(fmt.Sprintf(`{"method":"item/commandExecution/requestApproval","id":%s,"params":{"threadId":"T","turnId":"U%d","itemId":"k","startedAtMs":1,"command":"ls"}}`, id, c.turns))
	case c.requests > 0:
		id := fmt.Sprint(c.random.IntN(c.requests))
		if c.asked[id] == "open" {
			c.asked[id] = "resolved"
		}
		c.agent(`{"method":"serverRequest/resolved","params":{"threadId":"T","requestId":` + id + `}}`)
	}
	synctest.Wait()
}

func (c *chaos) agentLive() bool {
	select {
	case <-c.conversation.agent.Done():
		return false
	default:
		return true
	}
}

// respond answers one of the Agent's calls, in any order and any way.
func (c *chaos) respond() {
	i := c.random.IntN(len(c.pending))
	call := c.pending[i]
	c.pending = slices.Delete(c.pending, i, i+1)
	result := `{}`
	if c.random.IntN(5) == 0 {
		text := []string{"no active turn to interrupt", "expected active turn id `x` but found `U1`", "not now"}[c.random.IntN(3)]
		c.agent(fmt.Sprintf(`{"id":%q,"error":{"code":-32600,"message":%q}}`, call.id, text))
		return
	}
	switch call.method {
	case "turn/start":
		c.turns++
		result = fmt.Sprintf(`{"turn":{"id":"U%d","items":[],"status":"inProgress"}}`, c.turns)
	case "thread/settings/update":
		if c.random.IntN(3) > 0 {
			effort := []string{`"low"`, `"high"`}[c.random.IntN(2)]
			c.agent(settingsLine("m1", effort, "default", sessions.SandboxWorkspaceWrite))
		}
	case "thread/items/list":
		result = `{"data":[],"nextCursor":null}`
	case "thread/turns/list":
		status := []string{"completed", "interrupted", "inProgress"}[c.random.IntN(3)]
		c.said = c.said || status == "interrupted"
		result = fmt.Sprintf(`{"data":[{"id":"U%d","items":[],"status":%q}],"nextCursor":null}`, c.turns, status)
	}
	c.agent(fmt.Sprintf(`{"id":%q,"result":%s}`, call.id, result))
}

// observe takes what came of a step, and holds it against the promises.
func (c *chaos) observe() {
	got := c.collect()
	for line := range strings.Lines(got["result"]) {
		c.log = append(c.log, "result "+strings.TrimSpace(line))
		if command, ok := strings.CutPrefix(line, "prompt "); ok {
			command, said, _ := strings.Cut(command, ": ")
			switch {
			case said == "ok\n" && c.states[command] == "":
				c.states[command] = "written"
			case said != "ok\n" && c.states[command] == "" && !strings.Contains(said, "broken"):
				c.states[command] = "refused"
			case said != "ok\n" && c.states[command] != "":
				c.t.Errorf("%s is refused and %s", command, c.states[command])
			}
		}
	}
	for line := range strings.Lines(got["client"]) {
		c.log = append(c.log, "client "+strings.TrimSpace(line))
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ ClientUserMessageID string }
		}
		_ = json.Unmarshal([]byte(line), &m)
		id := strings.Trim(string(m.ID), `"`)
		switch {
		case m.Method == "":
			if c.asked[id] == "answered" {
				c.t.Errorf("request %s is answered twice", id)
			}
			c.asked[id] = "answered"
		case m.ID != nil:
			c.pending = append(c.pending, outCall{id, m.Method})
		}
		if m.Method == "turn/start" {
			for command, state := range c.states {
				if state == "written" && command != m.Params.ClientUserMessageID && !c.steers(command) {
					c.t.Errorf("turn/start of %s while %s has not ended", m.Params.ClientUserMessageID, command)
				}
			}
		}
	}
	for line := range strings.Lines(got["want"]) {
		c.log = append(c.log, "event "+strings.TrimSpace(line))
		var e sessions.Event
		_ = json.Unmarshal([]byte(line), &e)
		switch e.Kind {
		case sessions.EventCommandSettled:
			if c.states[e.Command] != "written" {
				c.t.Errorf("%s ends, which is %q", e.Command, c.states[e.Command])
			}
			c.states[e.Command] = "settled"
			if e.Settled.State == sessions.CommandInterrupted && !c.said {
				c.t.Errorf("%s is interrupted, Codex never said so", e.Command)
			}
		case sessions.EventApprovalRequested:
			c.handles = append(c.handles, e.Request.Handle)
		}
	}
}

// steers tells of a command whose turn/steer has no answer: it may outlast its turn.
func (c *chaos) steers(string) bool {
	return slices.ContainsFunc(c.pending, func(o outCall) bool { return o.method == "turn/steer" })
}

// judge looks at what is left after all deadlines.
func (c *chaos) judge() {
	a := c.conversation.agent
	if !c.agentLive() {
		return // the bridge settles what is left
	}
	ran := make(chan struct{})
	if a.do(c.t.Context(), func() {
		defer close(ran)
		for command, state := range c.states {
			if state == "written" && !a.turn.has(command) {
				c.t.Errorf("%s never ends", command)
			}
		}
		open := map[string]bool{}
		for _, r := range a.requests {
			open[r.id.String()] = true
		}
		for id, state := range c.asked {
			if state == "open" && !open[id] {
				c.t.Errorf("request %s has neither an entry nor an answer", id)
			}
		}
	}) == nil {
		<-ran
	}
}
