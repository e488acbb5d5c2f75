package host

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// patience is when a test gives up waiting for something that should come at once.
const patience = 60 * time.Second

// rig is a host with a real journal and without processes: its tenders do nothing, and what a bridge would say is given to
// the host as its frames.
type rig struct {
	*Host
	t   *testing.T
	who sessions.Caller
	cwd string
}

const configuration = `
[runners.fake]
protocol = "app-server"
command = ["/bin/cat"]

[runners.fakeacp]
protocol = "acp"
command = ["/bin/cat"]
`

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	p := place.Places{State: filepath.Join(dir, "state"), Runtime: filepath.Join(dir, "run"), Config: filepath.Join(dir, "config.toml")}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	cwd := filepath.Join(dir, "work")
	if err := os.Mkdir(cwd, 0o700); err != nil {
		t.Fatal(err)
	}
	h := &Host{o: Options{Places: p, Config: &config.Config{}, Version: "test", Log: zerolog.Nop(), MaxSessions: 1000}, limits: usually, hub: newHub(),
		can: sandbox.Capability{Rung: sandbox.PIDNamespace, MountNamespace: true}, deleted: make(chan struct{}, 1), tenders: map[string]*tender{},
		launches: map[string]launch{}, probes: map[string]probed{}, asking: map[string]chan struct{}{}, doubts: map[doubt]bool{}, busySince: time.Now()}
	h.life, h.end = context.WithCancel(context.Background())
	j, err := journal.Open(t.Context(), p.Journal(), journal.Options{
		Impossible: func(_ string, e *sessions.ImpossibleError) { t.Errorf("%v", e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.j = j
	if h.disk, err = newStorage(j, p, h.o.Log, h.mended); err != nil {
		t.Fatal(err)
	}
	h.spawn(func() { h.disk.run(h.life) })
	h.run = func(t *tender) {
		<-h.life.Done()
		h.forget(t)
	}
	r := &rig{Host: h, t: t, who: sessions.Caller{Principal: "local", Env: []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}}, cwd: cwd}
	r.configure(configuration)
	t.Cleanup(func() {
		problems, err := j.Check(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, p := range problems {
			t.Error(p)
		}
		h.Stop()
	})
	return r
}

func (r *rig) configure(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.o.Places.Config, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) tx(fn func(*journal.Tx) error) {
	r.t.Helper()
	if err := r.j.Update(context.Background(), fn); err != nil {
		r.t.Fatal(err)
	}
}

// args is what a create of this rig asks for, as changed.
func (r *rig) args(change ...func(*sessions.CreateArgs)) sessions.CreateArgs {
	now := 0
	a := sessions.CreateArgs{Runner: "fake", Cwd: r.cwd, WaitSeconds: &now}
	for _, c := range change {
		c(&a)
	}
	return a
}

// session is a session as its bridge sees it: what it says becomes frames.
type session struct {
	r          *rig
	id         string
	generation string
	t          *tender
}

// starting creates a session whose bridge has said nothing yet.
func (r *rig) starting(change ...func(*sessions.CreateArgs)) *session {
	r.t.Helper()
	res, err := r.Create(r.t.Context(), r.who, r.args(change...))
	if err != nil {
		r.t.Fatal(err)
	}
	if res.Session.State != sessions.SessionStarting {
		r.t.Fatalf("a new session is %s", res.Session.State)
	}
	return r.bridgeOf(res.Session)
}

// bridgeOf stands for the bridge of the session's generation.
func (r *rig) bridgeOf(v sessions.Session) *session {
	return &session{r: r, id: v.SessionID, generation: v.Generation,
		t: &tender{h: r.Host, session: v.SessionID, generation: v.Generation, kicked: make(chan struct{}, 1)}}
}

// idle is a session whose agent is open.
func (r *rig) idle(change ...func(*sessions.CreateArgs)) *session {
	r.t.Helper()
	s := r.starting(change...)
	s.opens()
	return s
}

func (s *session) frame(kind bridge.Kind, body any) {
	s.r.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		s.r.t.Fatal(err)
	}
	if err := s.t.take([]bridge.Frame{{Type: "out", N: s.t.lastOut + 1, Kind: kind, Body: raw}}); err != nil {
		s.r.t.Fatal(err)
	}
}

func (s *session) opens(settled ...sessions.Settlement) {
	s.r.t.Helper()
	s.frame(bridge.OutOpened, sessions.Opened{NativeID: "native", Capability: sessions.Capabilities{Resume: true, Steer: true},
		Evidence: sessions.Evidence{Sandbox: sessions.SandboxWorkspaceWrite, ApprovalPolicy: sessions.ApprovalOnRequest, SandboxBy: "agent"}, Settled: settled})
}

func (s *session) says(e sessions.Event) {
	s.r.t.Helper()
	if e.At.IsZero() {
		e.At = time.Now().UTC()
	}
	s.frame(bridge.OutEvent, e)
}

// accepts is the agent's evidence that it took a command.
func (s *session) accepts(command string) {
	s.r.t.Helper()
	s.says(sessions.Event{Kind: sessions.EventCommandAccepted, Command: command, Turn: "turn of " + command})
}

func (s *session) settles(command string, state sessions.CommandState) {
	s.r.t.Helper()
	s.says(sessions.Event{Kind: sessions.EventCommandSettled, Command: command,
		Settled: &sessions.Settlement{Command: command, State: state, Outcome: "end_turn"}})
}

// text is the final message of a command.
func (s *session) text(command, text string) {
	s.r.t.Helper()
	s.says(sessions.Event{Kind: sessions.EventText, Command: command, Item: "i", Text: text, Final: true})
}

// asks raises an approval with the options and returns its id.
func (s *session) asks(handle string, options ...sessions.Option) string {
	s.r.t.Helper()
	return s.raises(sessions.Event{Kind: sessions.EventApprovalRequested, Request: &sessions.Request{Handle: handle, Kind: sessions.RequestApproval,
		Title: "run ls", Options: options}})
}

func (s *session) raises(e sessions.Event) string {
	s.r.t.Helper()
	s.says(e)
	for _, q := range s.view().Requests {
		if q.Handle == e.Request.Handle {
			return q.RequestID
		}
	}
	return ""
}

var once = []sessions.Option{{OptionID: "yes", Kind: sessions.OptionAllowOnce}, {OptionID: "no", Kind: sessions.OptionRejectOnce}}

// reports says what became of the newest input about ref.
func (s *session) reports(kind bridge.Kind, ref string, state bridge.InputState, err error) {
	s.r.t.Helper()
	in := bridge.InputResult{Kind: kind, Ref: ref, State: state, Error: sessions.AsError(err)}
	for _, i := range s.inputs() {
		if i.Kind != string(kind) {
			continue
		}
		if kind == bridge.InAnswer {
			var a sessions.Answer
			if json.Unmarshal(i.Payload, &a) != nil || a.Handle != ref {
				continue
			}
		} else if i.Ref != ref {
			continue
		}
		in.N = uint64(i.N)
	}
	if in.N == 0 {
		s.r.t.Fatalf("no %s about %s was given", kind, ref)
	}
	s.frame(bridge.OutInput, in)
}

// ends is the end of the bridge: its farewell, unless it is gone without a word, and the host's verdict.
func (s *session) ends(state sandbox.State, words ...func(*ending)) {
	s.r.t.Helper()
	e := &ending{h: s.r.Host, session: s.id, generation: s.generation, farewell: true,
		verdict: sandbox.Verdict{State: state, Proof: sandbox.ProofPIDNamespace}}
	if state != sandbox.Confirmed {
		e.verdict.Proof = sandbox.ProofNone
	}
	for _, w := range words {
		w(e)
	}
	if err := s.r.update(context.Background(), e.apply); err != nil {
		s.r.t.Fatal(err)
	}
}

func (s *session) view() sessions.Session {
	s.r.t.Helper()
	v, err := s.r.view(context.Background(), "", s.id)
	if err != nil {
		s.r.t.Fatal(err)
	}
	return v
}

func (s *session) command(id string) (c journal.Command) {
	s.r.t.Helper()
	s.r.tx(func(tx *journal.Tx) (err error) { c, err = tx.GetCommand(s.id, id); return err })
	return c
}

func (s *session) request(id string) (q journal.Request) {
	s.r.t.Helper()
	s.r.tx(func(tx *journal.Tx) (err error) { q, err = tx.GetRequest(s.id, id); return err })
	return q
}

func (s *session) inputs() (list []journal.Input) {
	s.r.t.Helper()
	s.r.tx(func(tx *journal.Tx) (err error) { list, err = tx.InputsAfter(s.generation, 0); return err })
	return list
}

// given is what the bridge was given, each as kind and reference.
func (s *session) given() string {
	s.r.t.Helper()
	var out []string
	for _, i := range s.inputs() {
		if i.Kind == string(bridge.InOpen) || i.Kind == string(bridge.InClose) {
			out = append(out, i.Kind)
		} else {
			out = append(out, i.Kind+" "+i.Ref)
		}
	}
	return strings.Join(out, ", ")
}

func (s *session) events(kinds ...sessions.EventKind) (out []sessions.Event) {
	s.r.t.Helper()
	s.r.tx(func(tx *journal.Tx) error {
		for after := int64(0); ; {
			p, err := tx.ReadEvents(s.id, after, 500, kinds, 0)
			if err != nil {
				return err
			}
			out = append(out, p.Events...)
			if after = p.Last; !p.More {
				return nil
			}
		}
	})
	return out
}

// send sends a command and wants it to be taken.
func (s *session) send(command string, change ...func(*sessions.SendArgs)) sessions.SendResult {
	s.r.t.Helper()
	res, err := s.trySend(command, change...)
	if err != nil {
		s.r.t.Fatal(err)
	}
	return res
}

func (s *session) trySend(command string, change ...func(*sessions.SendArgs)) (sessions.SendResult, error) {
	a := sessions.SendArgs{SessionID: s.id, CommandID: command, Text: "do " + command}
	for _, c := range change {
		c(&a)
	}
	return s.r.Send(s.r.t.Context(), s.r.who, a)
}

func busy(how string) func(*sessions.SendArgs) {
	return func(a *sessions.SendArgs) { a.WhenBusy = how }
}

// runs is a session with command c running and accepted.
func (r *rig) runs(change ...func(*sessions.CreateArgs)) *session {
	r.t.Helper()
	s := r.idle(change...)
	s.send("c")
	s.reports(bridge.InPrompt, "c", bridge.InputWritten, nil)
	s.accepts("c")
	return s
}

// wants compares the state of the session and of its commands, named in pairs.
func (s *session) wants(state sessions.SessionState, commands ...string) {
	s.r.t.Helper()
	if v := s.view(); v.State != state {
		s.r.t.Errorf("the session is %s, want %s", v.State, state)
	}
	for i := 0; i < len(commands); i += 2 {
		if c := s.command(commands[i]); string(c.State) != commands[i+1] {
			s.r.t.Errorf("command %s is %s (%s: %s), want %s", commands[i], c.State, c.Outcome, c.Reason, commands[i+1])
		}
	}
}

// refused wants an error of the code whose text holds the words.
func refused(t *testing.T, err error, code sessions.Code, words ...string) {
	t.Helper()
	var e *sessions.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("got %v, want %s", err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(e.Error(), w) {
			t.Errorf("%q does not say %q", e.Error(), w)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// kindsOf is what kinds of event there are, in order.
func kindsOf(evs []sessions.Event) []sessions.EventKind {
	out := make([]sessions.EventKind, len(evs))
	for i, e := range evs {
		out[i] = e.Kind
	}
	return out
}

// within calls fn in a goroutine and wants it to return soon after then was called; until then it must be waiting.
func within(t *testing.T, fn func() error, then func()) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	then()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("it does not return")
		return nil
	}
}

// waiting returns once somebody waits for the session, or for any when id is "".
func (r *rig) waiting(id string) {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // a waiter announces itself nowhere else
		r.hub.mu.Lock()
		n := len(r.hub.sessions[id])
		if id == "" {
			n = len(r.hub.any)
		}
		r.hub.mu.Unlock()
		if n > 0 {
			return
		}
		if time.Now().After(end) {
			r.t.Fatal("nobody waits")
		}
	}
}

// answering returns once the answer of a request is durable.
func (r *rig) answering(s *session, request string) {
	r.t.Helper()
	w := r.hub.add([]string{s.id}, true)
	defer w.remove()
	for timeout := time.After(patience); s.request(request).State == sessions.RequestPending; {
		select {
		case <-w.ch:
		case <-timeout:
			r.t.Fatal("nobody answers")
		}
	}
}

// contextEnding is for a call that must not wait long; it ends with the test.
func contextEnding(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), patience)
}

// noCommand wants that nothing was kept of a command.
func noCommand(session, id string, t *testing.T) func(*journal.Tx) error {
	return func(tx *journal.Tx) error {
		_, found, err := tx.FindCommand(session, id)
		if found {
			t.Errorf("command %s was kept", id)
		}
		if _, kept, err := tx.FindOperation("local", id); err != nil || kept {
			t.Errorf("the key %s was kept, %v", id, err)
		}
		return err
	}
}
