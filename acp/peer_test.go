package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonmcp/baton/fixtures/acpedge"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(edgeProcess); name != "" {
		os.Exit(acpedge.Play(name, os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of the tests. It is long, because it only ever passes in a test that fails.
const patience = time.Minute

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// message is a message as the agent's side sees it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (m message) param(t *testing.T, name string) any {
	t.Helper()
	var p map[string]any
	if err := json.Unmarshal(m.Params, &p); err != nil {
		t.Fatalf("params of %s: %v", m.Method, err)
	}
	return p[name]
}

// peer is the agent's side of a link, played by the test. What the test has given an answer for is answered by itself,
// everything else waits for next.
type peer struct {
	t    *testing.T
	out  io.WriteCloser
	got  chan message
	done chan struct{}

	mu      sync.Mutex
	answers map[string]func(message) string // the "result" or "error" member
	seen    []string                        // methods in order, answers as "answer"
	config  *config
}

// link makes a link to a peer.
func link(t *testing.T) (*wire.Conn, *peer) {
	t.Helper()
	fromAgent, agentOut := io.Pipe()
	agentIn, toAgent := io.Pipe()
	p := &peer{t: t, out: agentOut, got: make(chan message, 100), done: make(chan struct{}), answers: map[string]func(message) string{}}
	go p.read(agentIn)
	conn := wire.New(fromAgent, toAgent, wire.Options{Generation: "g"})
	t.Cleanup(func() {
		conn.Close()
		agentOut.Close()
		agentIn.Close()
		<-p.done
	})
	return conn, p
}

func (p *peer) read(in io.Reader) {
	defer close(p.done)
	defer close(p.got)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			p.t.Errorf("the adapter wrote %q: %v", line, err)
			continue
		}
		p.mu.Lock()
		p.seen = append(p.seen, m.Method)
		answer := p.answers[m.Method]
		p.mu.Unlock()
		if answer != nil && m.ID != nil {
			if member := answer(m); member != "" {
				p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, member))
			}
			continue
		}
		p.got <- m
	}
}

func (p *peer) write(line string) {
	if _, err := io.WriteString(p.out, line+"\n"); err != nil {
		p.t.Logf("agent's write: %v", err)
	}
}

// on has a method answered with a fixed member, as `"result":{}`; "" leaves it unanswered.
func (p *peer) on(method, member string) {
	p.answer(method, func(message) string { return member })
}

func (p *peer) answer(method string, f func(message) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[method] = f
}

func (p *peer) next(method string) message {
	p.t.Helper()
	select {
	case m, ok := <-p.got:
		if !ok || m.Method != method {
			p.t.Fatalf("the adapter sent %q, want %q", m.Method, method)
		}
		return m
	case <-time.After(patience):
		p.t.Fatalf("the adapter did not send %q", method)
		panic("unreachable")
	}
}

// reply is the adapter's answer to a request of the agent.
func (p *peer) reply(id string) message {
	p.t.Helper()
	m := p.next("")
	if string(m.ID) != id {
		p.t.Fatalf("answer to %s, want one to %s", m.ID, id)
	}
	return m
}

func (p *peer) result(to message, result string) {
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, to.ID, result))
}

func (p *peer) notify(method, params string) {
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

func (p *peer) request(id, method, params string) {
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
}

// update sends a session/update of the session; u is its members without braces.
func (p *peer) update(u string) { p.updateOf("s1", u) }

func (p *peer) updateOf(session, u string) {
	p.notify("session/update", fmt.Sprintf(`{"sessionId":%q,"update":{%s}}`, session, u))
}

func (p *peer) text(text string) {
	p.update(fmt.Sprintf(`"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}`, text))
}

// sent tells how often a method was sent so far.
func (p *peer) sent(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, m := range p.seen {
		if m == method {
			n++
		}
	}
	return n
}

// config is a set of options that behaves like Cursor's: the options of the model change with the model.
type config struct {
	mu      sync.Mutex
	model   string
	mode    string
	values  map[string]any
	options map[string]json.RawMessage
}

func newConfig(t *testing.T) *config {
	c, _ := loadCatalogue(t)
	return &config{model: "composer-2.5", mode: "agent", values: map[string]any{}, options: c.Options}
}

// set is the full set as JSON.
func (c *config) set() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	sel := func(id, current string, values []string) map[string]any {
		var choices []map[string]any
		for _, v := range values {
			choices = append(choices, map[string]any{"value": v, "name": v})
		}
		return map[string]any{"id": id, "name": id, "category": id, "type": "select", "currentValue": current, "options": choices}
	}
	set := []any{sel("mode", c.mode, []string{"agent", "plan", "ask"}), sel("model", c.model, slices.Sorted(maps.Keys(c.options)))}
	var own []map[string]any
	if err := json.Unmarshal(c.options[c.model], &own); err != nil {
		panic(err)
	}
	for _, o := range own {
		if v, ok := c.values[o["id"].(string)]; ok {
			o["currentValue"] = v
		}
		set = append(set, o)
	}
	raw, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// take is session/set_config_option.
func (c *config) take(m message) string {
	var p struct {
		ConfigID string `json:"configId"`
		Value    any    `json:"value"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		panic(err)
	}
	c.mu.Lock()
	switch p.ConfigID {
	case "model":
		c.model, c.values = p.Value.(string), map[string]any{}
	case "mode":
		c.mode = p.Value.(string)
	default:
		c.values[p.ConfigID] = p.Value
	}
	c.mu.Unlock()
	return `"result":{"configOptions":` + c.set() + `}`
}

const cursorInitialized = `"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true},"sessionCapabilities":{"list":{}}},"authMethods":[{"id":"cursor_login","name":"Cursor Login"}]}`

// likeCursor has the peer answer everything up to the prompt as a logged-in Cursor does.
func (p *peer) likeCursor() {
	c := newConfig(p.t)
	p.config = c
	p.on("initialize", cursorInitialized)
	p.on("authenticate", `"result":{}`)
	p.on("session/list", `"result":{"sessions":[]}`)
	p.answer("session/new", func(message) string { return `"result":{"sessionId":"s1","configOptions":` + c.set() + `}` })
	p.answer("session/set_config_option", c.take)
}

// recorder is a sink that tests wait at.
type recorder struct {
	t      *testing.T
	mu     sync.Mutex
	events []sessions.Event
	read   int
	change chan struct{}
	gate   chan struct{} // Emit waits for its end; nil: it does not
	held   chan struct{} // one for each Emit that waits
}

func newRecorder(t *testing.T) *recorder {
	return &recorder{t: t, change: make(chan struct{}), held: make(chan struct{}, 100)}
}

// hold makes the sink a full one until release is called.
func (r *recorder) hold() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
	return sync.OnceFunc(func() { close(r.gate) })
}

func (r *recorder) Emit(e sessions.Event) {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	if gate != nil {
		r.held <- struct{}{}
		<-gate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	close(r.change)
	r.change = make(chan struct{})
}

// await returns the next event of a kind, and passes over what came before it.
func (r *recorder) await(kind sessions.EventKind) sessions.Event {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		for r.read < len(r.events) {
			e := r.events[r.read]
			r.read++
			if e.Kind == kind {
				r.mu.Unlock()
				return e
			}
		}
		change := r.change
		r.mu.Unlock()
		select {
		case <-change:
		case <-deadline:
			r.t.Fatalf("no event %s; there were %s", kind, r.story())
		}
	}
}

// all is every event so far, of some kinds or of all.
func (r *recorder) all(kinds ...sessions.EventKind) []sessions.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []sessions.Event
	for _, e := range r.events {
		if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
			out = append(out, e)
		}
	}
	return out
}

func (r *recorder) story() string {
	var s string
	for _, e := range r.all() {
		s += fmt.Sprintf("\n  %s command=%s item=%q late=%v final=%v text=%.80q", e.Kind, e.Command, e.Item, e.Late, e.Final, e.Text)
		if e.Settled != nil {
			s += fmt.Sprintf(" %+v", *e.Settled)
		}
		if e.Tool != nil {
			s += fmt.Sprintf(" tool=%s/%s", e.Tool.Title, e.Tool.Status)
		}
	}
	return s
}

// text is the running text of a command, put together from its pieces.
func (r *recorder) text(command string, late bool) string {
	var s string
	for _, e := range r.all(sessions.EventText) {
		if e.Command == command && e.Late == late && !e.Final && e.Agent == "" {
			s += e.Text
		}
	}
	return s
}

// fixture is an agent whose peer the test plays.
type fixture struct {
	*testing.T
	*Agent
	peer *peer
	rec  *recorder
	ctx  context.Context
}

func newFixture(t *testing.T, o Options) *fixture {
	t.Helper()
	conn, p := link(t)
	f := &fixture{T: t, peer: p, rec: newRecorder(t), ctx: testContext(t)}
	f.Agent = New(conn, f.rec, o)
	t.Cleanup(func() {
		conn.Close()
		<-f.Done()
	})
	return f
}

// opened is an agent like Cursor, open with what was asked.
func opened(t *testing.T, o Options, p sessions.OpenParams) *fixture {
	t.Helper()
	f := newFixture(t, o)
	f.peer.likeCursor()
	if _, err := f.open(p); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) open(p sessions.OpenParams) (sessions.Opened, error) {
	if p.Cwd == "" {
		p.Cwd = "/work"
	}
	return f.Agent.Open(f.ctx, p)
}

// prompt sends a command and returns the agent's side of it.
func (f *fixture) prompt(command string) message {
	f.Helper()
	if err := f.Agent.Prompt(f.ctx, sessions.Prompt{CommandID: command, Text: "hello"}); err != nil {
		f.Fatal(err)
	}
	return f.peer.next("session/prompt")
}

func (f *fixture) settled() sessions.Settlement {
	f.Helper()
	return *f.rec.await(sessions.EventCommandSettled).Settled
}
