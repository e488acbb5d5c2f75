package sessions

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// machine is one of the three, with its whole table: what is not in it must be refused.
type machine struct {
	name   string
	states []string
	events []string
	next   func(state, event string) (string, error)
	table  string // lines of: state event next
}

func machines() []machine {
	return []machine{
		{"session", words(SessionStates()), []string{"start", "opened", "busy", "free", "close", "stop", "fail", "delete"},
			func(s, e string) (string, error) {
				n, err := NextSession(SessionState(s), SessionEvent(e))
				return string(n), err
			}, `
reserved start  starting
reserved fail   failed
starting opened idle
starting close  closing
starting fail   failed
idle     busy   running
idle     close  closing
idle     fail   failed
running  free   idle
running  close  closing
running  fail   failed
closing  stop   closed
closing  fail   failed
closed   start  starting
closed   delete deleted
closed   fail   failed
failed   start  starting
failed   delete deleted
failed   fail   failed`},
		{"command", words(CommandStates()), []string{"submit", "accept", "complete", "fail", "interrupt", "interrupt_unproven",
			"cancel_queued", "lost", "not_delivered"},
			func(s, e string) (string, error) {
				n, err := NextCommand(CommandState(s), CommandEvent(e))
				return string(n), err
			}, `
queued    submit             submitted
queued    cancel_queued      cancelled
submitted accept             accepted
submitted complete           completed
submitted fail               failed
submitted interrupt          interrupted
submitted interrupt_unproven cancel_unconfirmed
submitted lost               unknown
submitted not_delivered      failed
accepted  complete           completed
accepted  fail               failed
accepted  interrupt          interrupted
accepted  interrupt_unproven cancel_unconfirmed
accepted  lost               unknown
unknown   complete           completed
unknown   fail               failed
unknown   interrupt          interrupted
unknown   interrupt_unproven cancel_unconfirmed
unknown   not_delivered      failed`},
		{"request", words(RequestStates()), []string{"answer", "deliver", "withdraw", "lose", "not_delivered"},
			func(s, e string) (string, error) {
				n, err := NextRequest(RequestState(s), RequestEvent(e))
				return string(n), err
			}, `
pending   answer   answering
pending   withdraw withdrawn
pending   lose     expired
answering deliver  answered
answering withdraw withdrawn
answering lose     unknown
answering not_delivered expired`},
	}
}

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func (m *machine) edges() map[[2]string]string {
	edges := map[[2]string]string{}
	for _, line := range strings.Split(strings.TrimSpace(m.table), "\n") {
		f := strings.Fields(line)
		edges[[2]string{f[0], f[1]}] = f[2]
	}
	return edges
}

// Every state with every event, and with one that does not exist.
func TestMachines(t *testing.T) {
	for _, m := range machines() {
		t.Run(m.name, func(t *testing.T) {
			edges, used := m.edges(), 0
			for _, s := range append(slices.Clone(m.states), "", "nonsense") {
				for _, e := range append(slices.Clone(m.events), "", "nonsense") {
					next, err := m.next(s, e)
					want, allowed := edges[[2]string{s, e}]
					if allowed {
						used++
						if err != nil || next != want {
							t.Errorf("%s in %s: %s, %v; want %s", e, s, next, err, want)
						}
						continue
					}
					// A session in a state that does not exist may fail: that is its exit.
					if m.name == "session" && e == "fail" && s != "deleted" {
						if next != "failed" || err != nil {
							t.Errorf("fail in %q: %s, %v", s, next, err)
						}
						continue
					}
					var impossible *ImpossibleError
					if !errors.As(err, &impossible) || next != s {
						t.Errorf("%q in %q: %q, %v; want it refused and the state kept", e, s, next, err)
						continue
					}
					if want := (ImpossibleError{m.name, s, e}); *impossible != want || !strings.Contains(err.Error(), m.name) {
						t.Errorf("the refusal says %v, want %v", impossible, want)
					}
				}
			}
			if used != len(edges) {
				t.Errorf("%d of the table's %d edges were met", used, len(edges))
			}
			for edge, next := range edges {
				if !slices.Contains(m.states, edge[0]) || !slices.Contains(m.events, edge[1]) || !slices.Contains(m.states, next) {
					t.Errorf("edge %v to %s uses a word that the machine lacks", edge, next)
				}
			}
		})
	}
}

func TestImpossibleTransitionsPanicInTests(t *testing.T) {
	MustBePossible(nil)
	MustBePossible(errors.New("another error"))
	defer func() {
		if v, ok := recover().(*ImpossibleError); !ok || v.Machine != "command" {
			t.Errorf("recovered %v", v)
		}
	}()
	_, err := NextCommand(CommandCompleted, CommandSubmit)
	MustBePossible(errors.Join(errors.New("wrapped"), err))
	t.Error("no panic")
}

// Whatever happens in whatever order: what I-3 and I-7 promise of a history holds.
func TestMachineHistories(t *testing.T) {
	byName := map[string]machine{}
	for _, m := range machines() {
		byName[m.name] = m
	}
	walk := func(t *rapid.T, m machine, start string) (states, events []string) {
		states = []string{start}
		for _, e := range rapid.SliceOfN(rapid.SampledFrom(m.events), 0, 30).Draw(t, "events") {
			if next, err := m.next(states[len(states)-1], e); err == nil {
				states, events = append(states, next), append(events, e)
			}
		}
		return states, events
	}
	t.Run("command", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			states, events := walk(t, byName["command"], string(CommandQueued))
			submits := 0
			for i, e := range events {
				from, to := CommandState(states[i]), CommandState(states[i+1])
				if e == string(CommandSubmit) {
					submits++
				}
				if from.Terminal() {
					t.Fatalf("%s moved on to %s", from, to)
				}
				if to == CommandQueued {
					t.Fatalf("%s went back to the queue", from)
				}
				if from == CommandUnknown && !to.Terminal() {
					t.Fatalf("an unknown outcome became %s", to)
				}
				if to == CommandCancelled && submits > 0 {
					t.Fatal("a command that was submitted is cancelled as if no agent had seen it")
				}
				if to.Terminal() != to.Settled() && to != CommandUnknown {
					t.Fatalf("%s: terminal %v, settled %v", to, to.Terminal(), to.Settled())
				}
			}
			if submits > 1 {
				t.Fatalf("submitted %d times", submits)
			}
		})
	})
	t.Run("request", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			states, events := walk(t, byName["request"], string(RequestPending))
			answers := 0
			for i, e := range events {
				if e == string(RequestAnswer) {
					answers++
				}
				if states[i+1] == string(RequestAnswered) && answers == 0 {
					t.Fatal("answered without an answer")
				}
				if states[i+1] == string(RequestExpired) && answers > 0 && e != string(RequestNotDelivered) {
					t.Fatal("an answer that was on its way is said never to have been given")
				}
			}
			if answers > 1 {
				t.Fatalf("answered %d times", answers)
			}
		})
	})
	t.Run("session", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			states, events := walk(t, byName["session"], string(SessionReserved))
			for i, e := range events {
				from, to := SessionState(states[i]), SessionState(states[i+1])
				if from == SessionDeleted {
					t.Fatalf("a deleted session became %s", to)
				}
				if to == SessionRunning && from != SessionIdle {
					t.Fatalf("%s from %s: one turn at a time", to, from)
				}
				if to == SessionDeleted && from.Live() {
					t.Fatalf("deleted while %s", from)
				}
				if to.Live() && !from.Live() && e != string(SessionStart) {
					t.Fatalf("%s came to life by %s", from, e)
				}
			}
		})
	})
}

// I-14: every state but the last one has an exit that a user can take (close, delete, resume), at once or after waiting.
func TestI14_EveryStateHasAnExit(t *testing.T) {
	users := []SessionEvent{SessionStart, SessionClose, SessionDelete, SessionFail}
	for _, s := range SessionStates() {
		reached, todo := map[SessionState]bool{}, []SessionState{s}
		for len(todo) > 0 {
			at := todo[0]
			todo = todo[1:]
			if reached[at] {
				continue
			}
			reached[at] = true
			for _, e := range append(slices.Clone(users), SessionStop) {
				if next, err := NextSession(at, e); err == nil {
					todo = append(todo, next)
				}
			}
		}
		if !reached[SessionDeleted] {
			t.Errorf("no way out of %s", s)
		}
	}
}
