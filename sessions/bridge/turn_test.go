package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// I02: an input ends as written, refused (no byte left) or broken (bytes may have left), and an error that does not say
// which is not taken for unsent.
func TestI02_FateOfAnInput(t *testing.T) {
	refused := sessions.Errorf(sessions.CodeBusy, "a turn runs: %w", sessions.ErrNotWritten)
	withdrawn := sessions.Errorf(sessions.CodeWithdrawn, "gone: %w", sessions.ErrNotWritten)
	for name, c := range map[string]struct {
		err   error
		state InputState
		code  sessions.Code
	}{
		"written":   {nil, InputWritten, ""},
		"refused":   {refused, InputRefused, sessions.CodeBusy},
		"withdrawn": {withdrawn, InputRefused, sessions.CodeWithdrawn},
		"broken":    {fmt.Errorf("pipe: %w", sessions.ErrBroken), InputBroken, sessions.CodeInternal},
		"any":       {errors.New("any"), InputBroken, sessions.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, func(f *fake) {
				f.prompt = func(context.Context, sessions.Prompt) error { return c.err }
				f.answer = func(context.Context, sessions.Answer) error { return c.err }
				f.cancel = func(_ context.Context, command string) error {
					f.settle(command, sessions.CommandInterrupted)
					return c.err
				}
			})
			p := w.opened()
			p.prompt(2, "c")
			p.give(3, InAnswer, sessions.Answer{Handle: "h"})
			p.give(4, InCancel, CancelInput{Command: "c"})
			for i, want := range []InputResult{{N: 2, Kind: InPrompt, Ref: "c"}, {N: 3, Kind: InAnswer, Ref: "h"}, {N: 4, Kind: InCancel, Ref: "c"}} {
				r := p.result(uint64(i + 2))
				if r.Kind != want.Kind || r.Ref != want.Ref || r.State != c.state || r.Error == nil != (c.err == nil) || r.Error != nil && r.Error.Code != c.code {
					t.Errorf("%+v, want %s %s", r, want.Kind, c.state)
				}
			}
		})
	}
}

func TestUnreadableInputIsRefused(t *testing.T) {
	w := begin(t, nil)
	p := w.opened()
	p.give(2, InPrompt, "no object")
	if r := p.result(2); r.State != InputRefused || r.Error.Code != sessions.CodeInternal {
		t.Errorf("%+v", r)
	}
	if got := w.agent().history(); len(got) != 1 {
		t.Errorf("the agent got %q", got)
	}
}

// An answer comes after the text that the agent had said before it asked.
func TestAnswerFlushesText(t *testing.T) {
	w := begin(t, nil)
	p := w.opened()
	f := w.agent()
	f.sink.Emit(sessions.Event{Kind: sessions.EventText, Item: "i", Text: "well"})
	p.give(2, InAnswer, sessions.Answer{Handle: "h"})
	if e := body[sessions.Event](t, p.next()); e.Text != "well" {
		t.Errorf("first frame %+v", e)
	}
	p.result(2)
}

func TestDeadlineCancelsAndSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		steer   string
		state   sessions.CommandState // how the agent ends it when it is asked to
		cancels string
		outcome string
	}{
		"interrupted":       {"", sessions.CommandInterrupted, "cancel late", "deadline"},
		"unconfirmed":       {"", sessions.CommandCancelUnconfirmed, "cancel late", "deadline"},
		"completed after":   {"", sessions.CommandCompleted, "cancel late", "end_turn"}, // the agent was faster
		"of what it steers": {"turn", sessions.CommandInterrupted, "cancel turn", "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, func(f *fake) {
				f.cancel = func(_ context.Context, command string) error {
					f.settle("late", c.state)
					if command != "late" {
						f.settle(command, c.state)
					}
					return nil
				}
			})
			p := w.opened()
			n := uint64(2)
			if c.steer != "" {
				p.prompt(n, c.steer)
				n++
			}
			p.give(n, InPrompt, PromptInput{DeadlineSeconds: 1, Prompt: sessions.Prompt{CommandID: "late", Steer: c.steer}})
			commands := []string{"late"}
			if c.steer != "" {
				commands = append(commands, c.steer)
			}
			for _, command := range commands {
				s := p.event(sessions.EventCommandSettled).Settled
				if s.Command != command || s.State != c.state || s.Outcome != c.outcome || strings.Contains(s.Reason, "deadline") != (c.outcome == "deadline") {
					t.Errorf("settled as %+v", s)
				}
			}
			if got := w.agent().history(); !slices.Contains(got, c.cancels) {
				t.Errorf("the agent got %q", got)
			}
		})
	}
}

// A deadline of a command that has ended, or was never written, cancels nothing.
func TestDeadlineIsForgotten(t *testing.T) {
	w := begin(t, func(f *fake) {
		f.prompt = func(_ context.Context, p sessions.Prompt) error {
			switch p.CommandID {
			case "ended":
				f.settle("ended", sessions.CommandCompleted)
			case "refused":
				return sessions.ErrNotWritten
			}
			return nil
		}
	})
	p := w.opened()
	for n, id := range []string{"ended", "refused", "last"} {
		p.give(uint64(n+2), InPrompt, PromptInput{DeadlineSeconds: 1, Prompt: sessions.Prompt{CommandID: id}})
	}
	for s := (&sessions.Settlement{}); s.Command != "last"; { // whose deadline is the last one due
		s = p.event(sessions.EventCommandSettled).Settled
	}
	if want := []string{"open s", "prompt ended", "prompt refused", "prompt last", "cancel last"}; !slices.Equal(w.agent().history(), want) {
		t.Errorf("the agent got %q", w.agent().history())
	}
}

// helper starts a process as a tool of the agent would.
func helper(t *testing.T, argv ...string) *sandbox.Child {
	t.Helper()
	c, err := reaper.Spawn(sandbox.Spawn{Argv: argv, Dir: "/", Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Signal(9)
		<-c.Done()
	})
	return c
}

// runs looks at the process itself: that it is reaped, and its end told, comes a moment after it.
func runs(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

// I09: interrupted is what the agent said and what the bridge has proven.
func TestI09_InterruptedIsProven(t *testing.T) {
	for name, c := range map[string]struct {
		rung   sandbox.Rung
		tools  int
		spawns []string // argv of what the turn leaves behind, "" for none
		says   sessions.CommandState
		want   sessions.CommandState
		reason string
		killed bool
	}{
		"nothing left":             {rung: sandbox.PIDNamespace, tools: 1, says: sessions.CommandInterrupted, want: sessions.CommandInterrupted},
		"left over":                {rung: sandbox.PIDNamespace, tools: 1, spawns: []string{"/bin/sleep", "600"}, says: sessions.CommandInterrupted, want: sessions.CommandInterrupted, reason: "were killed", killed: true},
		"ends by itself":           {rung: sandbox.PIDNamespace, tools: 1, spawns: []string{"/bin/sleep", "0.3"}, says: sessions.CommandInterrupted, want: sessions.CommandInterrupted, killed: true},
		"a standing helper":        {rung: sandbox.PIDNamespace, spawns: []string{"/bin/sleep", "601"}, says: sessions.CommandInterrupted, want: sessions.CommandInterrupted},
		"weak rung and tools":      {rung: sandbox.ProcessGroup, tools: 1, says: sessions.CommandInterrupted, want: sessions.CommandCancelUnconfirmed, reason: "without a pid namespace"},
		"weak rung, no tools":      {rung: sandbox.ProcessGroup, says: sessions.CommandInterrupted, want: sessions.CommandInterrupted},
		"completed is left alone":  {rung: sandbox.PIDNamespace, tools: 1, spawns: []string{"/bin/sleep", "600"}, says: sessions.CommandCompleted, want: sessions.CommandCompleted},
		"unconfirmed by the agent": {rung: sandbox.PIDNamespace, says: sessions.CommandCancelUnconfirmed, want: sessions.CommandCancelUnconfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			started := make(chan *sandbox.Child, 1)
			w := begin(t, func(f *fake) {
				f.standing = func(argv []string) bool { return slices.Contains(argv, "601") }
				f.prompt = func(_ context.Context, p sessions.Prompt) error {
					if len(c.spawns) > 0 {
						started <- helper(t, c.spawns...)
					}
					for range c.tools {
						f.sink.Emit(sessions.Event{Kind: sessions.EventToolStarted, Command: p.CommandID, Item: "x"})
					}
					return nil
				}
				f.cancel = func(_ context.Context, command string) error { f.settle(command, c.says); return nil }
			}, rung(c.rung))
			p := w.opened()
			p.prompt(2, "c")
			p.give(3, InCancel, CancelInput{Command: "c"})
			s := p.event(sessions.EventCommandSettled).Settled
			if s.State != c.want || !strings.Contains(s.Reason, c.reason) {
				t.Errorf("settled as %+v, want %s because %q", s, c.want, c.reason)
			}
			if len(c.spawns) == 0 {
				return
			}
			if got := runs(t, (<-started).PID()); got == c.killed {
				t.Errorf("the process runs: %t", got)
			}
		})
	}
}

// I09: a command that an earlier turn left running ends with a cancel, with all that it had started, wherever that is by
// now. Nothing else that is older than the turn does.
func TestI09_EarlierCommandsEndWithACancel(t *testing.T) {
	for name, c := range map[string]struct {
		rung   sandbox.Rung
		killed bool
	}{
		"the bridge is process 1": {sandbox.PIDNamespace, true},
		"it could prove nothing":  {sandbox.ProcessGroup, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, func(f *fake) {
				f.command = func(argv []string) bool { return argv[len(argv)-1] == "left" }
				f.standing = func(argv []string) bool { return argv[len(argv)-1] == "helper" }
				f.cancel = func(_ context.Context, command string) error {
					s := &sessions.Settlement{State: sessions.CommandInterrupted}
					f.sink.Emit(sessions.Event{Kind: sessions.EventTurnCompleted, Command: command, Agent: "a sub-agent", Settled: s})
					f.sink.Emit(sessions.Event{Kind: sessions.EventTurnCompleted, Command: command, Settled: s})
					f.settle(command, sessions.CommandInterrupted)
					return nil
				}
			}, rung(c.rung))
			p := w.opened(shell(`sh -c 'setsid sleep 606 & sleep 607; :' left &
				sh -c 'sh -c "sleep 608; :" left; :' helper &
				sleep 609 &
				read x; while read x; do :; done`))
			before := map[string]int{}
			for _, seconds := range []string{"606", "607", "608", "609"} {
				before[seconds] = awaitProcess(t, seconds)
			}
			awaitTick(t, before)
			p.prompt(2, "c")
			p.result(2)
			p.give(3, InCancel, CancelInput{Command: "c"})
			s := p.event(sessions.EventCommandSettled).Settled
			if s.State != sessions.CommandInterrupted || strings.Contains(s.Reason, "were killed") != c.killed {
				t.Errorf("settled as %+v", s)
			}
			for seconds, pid := range before {
				if want := !c.killed || seconds > "607"; runs(t, pid) != want {
					t.Errorf("sleep %s runs: %t", seconds, !want)
				}
			}
		})
	}
}

// awaitTick waits until what starts from now on counts as younger than the processes: start times are coarse.
func awaitTick(t *testing.T, pids map[string]int) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		young := reaper.Born(time.Now())
		if !slices.ContainsFunc(young, func(proc sandbox.Proc) bool {
			for _, pid := range pids {
				if pid == proc.PID {
					return true
				}
			}
			return false
		}) {
			return
		}
	}
	t.Fatal("the processes stay young")
}

// awaitProcess gives the process whose command line ends with a word, once there is one.
func awaitProcess(t *testing.T, last string) int {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, proc := range reaper.Born(time.Time{}) {
			if n := len(proc.Argv); n > 0 && proc.Argv[n-1] == last {
				return proc.PID
			}
		}
	}
	t.Fatalf("there is no process %s", last)
	return 0
}

// A late settlement of a command that the bridge does not know passes as it is.
func TestSettlementOfAnUnknownCommand(t *testing.T) {
	w := begin(t, nil)
	p := w.opened()
	f := w.agent()
	f.settle("c0", sessions.CommandInterrupted)
	f.sink.Emit(sessions.Event{Kind: sessions.EventCommandSettled, Command: "c1"}) // with nothing to say
	if s := p.event(sessions.EventCommandSettled); s.Settled.Command != "c0" || s.Settled.State != sessions.CommandInterrupted {
		t.Errorf("%+v", s.Settled)
	}
	if s := p.event(sessions.EventCommandSettled); s.Settled != nil || s.Command != "c1" {
		t.Errorf("%+v", s)
	}
}

func TestTail(t *testing.T) {
	tail := &tail{max: 10, set: newVeil().set.Load}
	for _, s := range []string{"first\n", "second é", " third\n\n"} {
		if n, err := tail.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := tail.String(); got != "é third" {
		t.Errorf("%q", got)
	}
	tail.Write([]byte("\xa9 0123456"))
	if got := tail.String(); got != "\uFFFD 0123456" {
		t.Errorf("%q", got)
	}
	if got := lastLine("a\n" + strings.Repeat("é", 200)); got != strings.Repeat("é", 150) {
		t.Errorf("%q", got)
	}
}
