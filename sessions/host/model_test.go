package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// model does at random what callers, agents and crashes can do to a few sessions, and knows what must hold whatever comes.
type model struct {
	*rig
	rand     *rand.Rand
	log      []string
	live     []*session
	reported map[string]int // by generation: inputs whose fate the bridge has told
	commands map[string]int // by session: the highest number of a command
	asked    int
	ended    map[string]sessions.CommandState // by session and command: an end, which stands
}

func (m *model) pick(n int) int { return m.rand.IntN(n) }

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

// call notes a call and its answer. A refusal is an answer, a fault of Baton's own is not.
func (m *model) call(what string, err error) {
	code := sessions.CodeOf(err)
	m.note("%s: %s", what, code)
	if errors.Is(err, context.Canceled) {
		return
	}
	if code == sessions.CodeInternal || err != nil && !code.Known() {
		m.t.Fatalf("%s: %v\n%s", what, err, strings.Join(m.log, "\n"))
	}
}

func (m *model) step() {
	if len(m.live) == 0 || len(m.live) < 3 && m.pick(20) == 0 {
		res, err := m.Create(m.t.Context(), m.who, m.args(func(a *sessions.CreateArgs) {
			a.Key = fmt.Sprint("create", m.pick(4))
			a.AutoAnswer = []string{"", autoApproveAll}[len(a.Key)%2]
		}))
		m.call("create", err)
		if err == nil && !slices.ContainsFunc(m.live, func(s *session) bool { return s.id == res.Session.SessionID }) {
			m.live = append(m.live, m.bridgeOf(res.Session))
		}
		return
	}
	s := m.live[m.pick(len(m.live))]
	switch n := m.pick(40); {
	case n < 8:
		m.send(s)
	case n < 9:
		a := sessions.CancelArgs{SessionID: s.id, CommandID: []string{"", m.command(s)}[m.pick(2)], Key: fmt.Sprint("cancel", m.pick(200))}
		m.leave("cancel "+a.CommandID, func(ctx context.Context) error { _, err := m.Cancel(ctx, m.who, a); return err })
	case n < 11:
		if open := s.view().Requests; len(open) > 0 {
			a := sessions.RespondArgs{SessionID: s.id, RequestID: open[0].RequestID, Decision: []string{"approve", "deny"}[m.pick(2)]}
			m.leave("respond", func(ctx context.Context) error { _, err := m.Respond(ctx, m.who, a); return err })
		}
	case n == 11 && m.pick(3) == 0:
		a := sessions.CloseArgs{SessionID: s.id, Key: fmt.Sprint("close", m.pick(30)), WaitSeconds: ptr(0)}
		_, err := m.Close(m.t.Context(), m.who, a)
		m.call("close", err)
	case n < 14:
		m.resume(s)
	default:
		m.agent(s)
	}
}

// leave makes a call whose caller leaves at once: what it began stays.
func (m *model) leave(what string, call func(context.Context) error) {
	ctx, cancel := context.WithCancel(m.t.Context())
	done := make(chan error, 1)
	w := m.hub.add(nil, true)
	defer w.remove()
	go func() { done <- call(ctx) }()
	select {
	case err := <-done:
		cancel()
		m.call(what, err)
	case <-w.ch: // it is durable
		cancel()
		m.call(what, <-done)
	}
}

// command is the id of a command of the session, often of an old one.
func (m *model) command(s *session) string {
	n := m.pick(m.commands[s.id] + 2)
	m.commands[s.id] = max(m.commands[s.id], n)
	return fmt.Sprintf("%.4s-%d", s.id, n)
}

func (m *model) send(s *session) {
	id := m.command(s)
	_, err := s.trySend(id, busy([]string{"refuse", "queue", "steer"}[m.pick(3)]))
	m.call("send "+id, err)
}

func (m *model) resume(s *session) {
	v := s.view()
	a := sessions.ResumeArgs{SessionID: s.id, WaitSeconds: ptr(0), RunQueue: m.pick(2) == 0, AcknowledgeUnknown: m.pick(2) == 0,
		AcceptUnconfirmed: m.pick(2) == 0, Key: fmt.Sprint("resume", m.pick(200))}
	if !v.State.Live() {
		var over bool
		m.tx(func(tx *journal.Tx) (err error) { over, err = ended(tx, s.id); return err })
		if !over {
			return // it would wait for the end
		}
	}
	res, err := m.Resume(m.t.Context(), m.who, a)
	m.call("resume", err)
	if err == nil && res.Session.Generation != s.generation {
		*s = *m.bridgeOf(res.Session)
	}
}

// agent is something that the session's agent or bridge does, as the protocol of both allows it.
func (m *model) agent(s *session) {
	var g journal.Generation
	m.tx(func(tx *journal.Tx) (err error) { g, err = tx.GetGeneration(s.generation); return err })
	if !g.EndedAt.IsZero() {
		return
	}
	v := s.view()
	inputs := s.inputs()
	told := m.reported[s.generation]
	switch n := m.pick(20); {
	case n == 0:
		m.end(s, v)
	case told == 0:
		m.reported[s.generation] = 1
		m.note("%.4s opens", s.id)
		s.opens()
	case n < 10 && told < len(inputs):
		in := inputs[told]
		m.reported[s.generation]++
		if in.Kind == string(bridge.InClose) {
			m.end(s, v)
			return
		}
		state := []bridge.InputState{bridge.InputWritten, bridge.InputWritten, bridge.InputWritten, bridge.InputRefused, bridge.InputBroken}[m.pick(5)]
		var err error
		if state != bridge.InputWritten {
			err = sessions.Errorf([]sessions.Code{sessions.CodeBusy, sessions.CodeModelUnavailable}[m.pick(2)], "no")
		}
		ref := in.Ref
		if in.Kind == journal.InputAnswer {
			ref = s.request(in.Ref).Handle
		}
		m.note("%.4s input %d %s %s: %s", s.id, in.N, in.Kind, in.Ref, state)
		s.frame(bridge.OutInput, bridge.InputResult{N: uint64(in.N), Kind: bridge.Kind(in.Kind), Ref: ref, State: state, Error: sessions.AsError(err)})
	case n < 12 && v.Running != nil:
		m.note("%.4s accepts %s", s.id, v.Running.CommandID)
		s.accepts(v.Running.CommandID)
	case n < 14 && v.Running != nil:
		state := []sessions.CommandState{sessions.CommandCompleted, sessions.CommandFailed, sessions.CommandInterrupted, sessions.CommandCancelUnconfirmed}[m.pick(4)]
		m.note("%.4s settles %s as %s", s.id, v.Running.CommandID, state)
		s.settles(v.Running.CommandID, state)
	case n < 15 && m.pick(3) == 0: // an end once more, or of one that was given up
		var given []journal.Command
		m.tx(func(tx *journal.Tx) (err error) { given, err = tx.ListCommands(s.id, 0, 1000); return err })
		given = slices.DeleteFunc(given, func(c journal.Command) bool {
			return c.State == sessions.CommandQueued || c.Generation != s.generation
		})
		if len(given) > 0 {
			c := given[m.pick(len(given))]
			m.note("%.4s settles %s again", s.id, c.CommandID)
			s.settles(c.CommandID, []sessions.CommandState{sessions.CommandCompleted, sessions.CommandFailed, sessions.CommandInterrupted, sessions.CommandUnknown}[m.pick(4)])
		}
	case n < 15:
		m.asked++
		m.note("%.4s asks", s.id)
		s.says(sessions.Event{Kind: sessions.EventApprovalRequested, Request: &sessions.Request{Handle: strconv.Itoa(m.asked), Kind: sessions.RequestApproval, Options: once}})
	case n < 16 && len(v.Requests) > 0:
		m.note("%.4s withdraws", s.id)
		s.resolves(v.Requests[0].Handle, "not any more")
	case n < 17:
		kind := []sessions.EventKind{sessions.EventTurnStarted, sessions.EventTurnCompleted}[m.pick(2)]
		m.note("%.4s's own turn: %s", s.id, kind)
		s.says(sessions.Event{Kind: kind, Turn: "own", Settled: &sessions.Settlement{State: sessions.CommandCompleted}})
	default:
		s.says(sessions.Event{Kind: sessions.EventText, Item: "i", Text: "x"})
	}
}

// end is the end of the agent and its bridge, in good order or not.
func (m *model) end(s *session, v sessions.Session) {
	m.note("%.4s ends", s.id)
	how := m.pick(3)
	if how > 0 {
		x := bridge.Exit{Reason: "exit"}
		if v.Running != nil && m.pick(2) == 0 {
			x.Running = []string{v.Running.CommandID}
		}
		s.frame(bridge.OutExited, x)
	}
	if how > 1 {
		s.frame(bridge.OutStopped, bridge.Stopped{Taken: uint64(m.reported[s.generation])})
	}
	s.ends([]sandbox.State{sandbox.Confirmed, sandbox.Confirmed, sandbox.Unconfirmed}[m.pick(3)], func(e *ending) {
		e.farewell = how > 1
		e.neverSent = func(n uint64) bool { return n > uint64(m.reported[s.generation])+1 }
	})
}

// holds is what must hold after any step.
func (m *model) holds() {
	fail := func(format string, args ...any) {
		m.t.Helper()
		m.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(m.log, "\n"))
	}
	problems, err := m.j.Check(m.t.Context())
	if err != nil || len(problems) > 0 {
		fail("%v, %v", problems, err)
	}
	for _, s := range m.live {
		v := s.view()
		prompts := map[string]int{}
		var commands []journal.Command
		m.tx(func(tx *journal.Tx) error {
			list, err := tx.ListGenerations(s.id)
			for _, g := range list {
				inputs, err := tx.InputsAfter(g.ID, 0)
				if err != nil {
					return err
				}
				for _, in := range inputs {
					if in.Kind == journal.InputPrompt {
						prompts[in.Ref]++
					}
				}
			}
			if err == nil {
				commands, err = tx.ListCommands(s.id, 0, 1000)
			}
			return err
		})
		if v.Running != nil && v.State != sessions.SessionRunning && v.State != sessions.SessionClosing || v.State == sessions.SessionIdle && v.Running != nil {
			fail("the session is %s, and %s runs", v.State, v.Running.CommandID)
		}
		for _, c := range commands {
			if prompts[c.CommandID] > 1 { // I02
				fail("%s was given %d times", c.CommandID, prompts[c.CommandID])
			}
			if c.State == sessions.CommandQueued != (prompts[c.CommandID] == 0) && c.State != sessions.CommandCancelled {
				fail("%s is %s, and was given %d times", c.CommandID, c.State, prompts[c.CommandID])
			}
			was, had := m.ended[s.id+c.CommandID]
			if had && c.State != was {
				fail("%s was %s and is %s", c.CommandID, was, c.State)
			}
			if c.State.Terminal() {
				m.ended[s.id+c.CommandID] = c.State
			}
		}
		told := map[string]int{}
		for i, e := range s.events() {
			if e.Seq != int64(i+1) { // I11
				fail("event %d has number %d", i+1, e.Seq)
			}
			if e.Kind == sessions.EventCommandSettled && e.Settled.State.Terminal() {
				if told[e.Command]++; told[e.Command] > 1 {
					fail("%s ended twice", e.Command)
				}
			}
			if e.Kind == sessions.EventError {
				fail("%s", e.Text)
			}
		}
		for id, n := range told {
			if c := s.command(id); n != 1 || !c.State.Terminal() {
				fail("%s is told to have ended, and is %s", id, c.State)
			}
		}
	}
}

// Whatever callers, agents and crashes do, in whatever order, the invariants hold.
func TestModel(t *testing.T) {
	seed := uint64(1)
	if s, err := strconv.ParseUint(os.Getenv("BATON_SEED"), 10, 64); err == nil {
		seed = s
	}
	runs, steps := 5, 200
	if os.Getenv("BATON_FULL") != "" {
		runs, steps = 50, 500
	}
	for i := range uint64(runs) {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) {
			m := &model{rig: newRig(t), rand: rand.New(rand.NewPCG(seed+i, 0)), reported: map[string]int{}, commands: map[string]int{}, ended: map[string]sessions.CommandState{}}
			for i := range steps {
				if m.step(); i%5 == 0 || i == steps-1 {
					m.holds()
				}
			}
		})
	}
}
