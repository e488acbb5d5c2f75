package bridge

import (
	"context"
	"slices"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// turn is what the bridge knows of a command while it runs.
type turn struct {
	started  time.Time // before the first byte of its prompt
	tools    int       // tool calls seen
	deadline *time.Timer
	reason   string // why it is being cancelled, when the bridge or its caller said so

	// earlier is what the commands are that ran when the turn was interrupted, earlier turns' included, with all that
	// they had started. Only a cancel ends them, and that is where it is looked after; what has left such a command for
	// good, as a daemon does, is none of it.
	earlier map[process]bool
}

// process is one process for as long as the bridge lives: a pid comes again, its start time does not.
type process struct {
	pid   int
	start uint64
}

// leftoverGrace is how long processes that a cancelled turn started may take to end by themselves.
const leftoverGrace = 2 * time.Second

// prompt gives one command to the agent. The turn is known before its bytes leave, so that everything born later is its own.
func (b *Bridge) prompt(in PromptInput) error {
	p := b.running()
	if p == nil {
		return errNoAgent
	}
	t := &turn{started: time.Now()}
	b.mu.Lock()
	b.turns[in.CommandID] = t
	if p.begun.IsZero() {
		p.begun = t.started
	}
	b.orphan.stop()
	if in.DeadlineSeconds > 0 {
		t.deadline = time.AfterFunc(time.Duration(in.DeadlineSeconds)*time.Second, func() { b.deadline(in) })
	}
	b.mu.Unlock()
	failpoint.Hit("bridge.prompt.before")
	err := p.agent.Prompt(b.stopping.ctx, in.Prompt)
	failpoint.Hit("bridge.prompt.after")
	if err != nil {
		b.endTurn(in.CommandID)
	}
	return err
}

// deadline ends the turn of a command that took too long. What steers owns no turn: it is the steered one that ends.
func (b *Bridge) deadline(in PromptInput) {
	turn := in.CommandID
	if in.Steer != "" {
		turn = in.Steer
	}
	b.reason(in.CommandID, "deadline")
	if err := b.cancelTurn(turn, "deadline"); err != nil {
		b.o.Log.Warn().Err(err).Str("command", in.CommandID).Msg("its deadline passed, and the agent could not be asked to end the turn")
	}
}

// cancel asks for the end of a command.
func (b *Bridge) cancel(in CancelInput) error {
	reason := in.Reason
	if reason == "" {
		reason = "cancelled"
	}
	return b.cancelTurn(in.Command, reason)
}

func (b *Bridge) cancelTurn(command, reason string) error {
	p := b.running()
	if p == nil {
		return errNoAgent
	}
	b.reason(command, reason)
	return p.agent.Cancel(b.stopping.ctx, command)
}

// reason notes why a turn is being ended; the first one stands.
func (b *Bridge) reason(command, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.turns[command]; t != nil && t.reason == "" {
		t.reason = why
	}
}

// endTurn forgets a turn and returns it, nil when it was not known.
func (b *Bridge) endTurn(command string) *turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.turns[command]
	if t == nil {
		return nil
	}
	if t.deadline != nil {
		t.deadline.Stop()
	}
	delete(b.turns, command)
	b.armOrphanLocked()
	return t
}

// Emit implements sessions.Sink for the adapter: it watches the turns and passes everything on.
func (b *Bridge) Emit(e sessions.Event) {
	e = e.Bounded(b.veil.redact)
	e.Item, e.Agent, e.Follows = b.veil.name(e.Item), b.veil.name(e.Agent), b.veil.name(e.Follows)
	switch e.Kind {
	case sessions.EventTurnStarted:
		b.noteBegun()
	case sessions.EventTurnCompleted:
		if e.Agent == "" && e.Settled != nil && e.Settled.State == sessions.CommandInterrupted {
			b.noteCommands()
		}
	case sessions.EventToolStarted:
		b.mu.Lock()
		if t := b.turns[e.Command]; t != nil {
			t.tools++
		}
		b.mu.Unlock()
	case sessions.EventCommandSettled:
		if e.Settled == nil {
			break
		}
		s := *e.Settled
		if s.Command == "" {
			s.Command = e.Command
		}
		failpoint.Hit("bridge.settled")
		if t := b.endTurn(s.Command); t != nil {
			if s.State == sessions.CommandInterrupted {
				s = b.proveInterrupted(s, t)
			}
			if t.reason == "deadline" && (s.State == sessions.CommandInterrupted || s.State == sessions.CommandCancelUnconfirmed) {
				s.Outcome, s.Reason = "deadline", "the turn's deadline passed and it was cancelled; "+s.Reason
			}
		}
		e.Settled = &s
	}
	if e.Selection != nil {
		s := *e.Selection
		s.Evidence = b.withFiles(s.Evidence)
		e.Selection = &s
	}
	failpoint.Hit("bridge.event.before")
	b.rec.Emit(e)
	failpoint.Hit("bridge.event.after")
}

// proveInterrupted lets "interrupted" stand only when nothing that was born since the turn's start is left, and nothing of
// the commands that ran when it was interrupted.
func (b *Bridge) proveInterrupted(s sessions.Settlement, t *turn) sessions.Settlement {
	p := b.running()
	if p == nil {
		return s
	}
	if b.o.Inside.Rung != sandbox.PIDNamespace {
		if t.tools > 0 {
			s.State = sessions.CommandCancelUnconfirmed
			s.Reason = "the agent ended the turn, but without a pid namespace nobody can prove that what its tools started is gone"
		}
		return s
	}
	end := time.Now().Add(leftoverGrace)
	left, sure := b.leftOver(p, t)
	for len(left) > 0 && time.Now().Before(end) {
		select {
		case <-time.After(25 * time.Millisecond):
		case <-p.child.Done():
			return s
		}
		left, sure = b.leftOver(p, t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	killed := 0
	for len(left) > 0 && ctx.Err() == nil {
		for _, proc := range left {
			if err := b.o.Reaper.Kill(ctx, proc); err != nil {
				b.o.Log.Warn().Err(err).Int("pid", proc.PID).Msg("a process that the turn left behind could not be killed")
			} else {
				killed++
			}
		}
		left, sure = b.leftOver(p, t)
	}
	if len(left) > 0 || !sure {
		s.State = sessions.CommandCancelUnconfirmed
		s.Reason = "the agent ended the turn, but processes that it or an earlier turn started are still there"
		if len(left) == 0 {
			s.Reason = "the agent ended the turn, but processes begin and end in the session faster than they can be listed"
		}
		return s
	}
	if killed > 0 {
		s.Reason = "the turn was cancelled; processes that it left behind were killed"
	}
	return s
}

// noteCommands takes down, while all of it is still there, what runs below the agent as its commands.
func (b *Bridge) noteCommands() {
	p := b.running()
	if p == nil || b.o.Inside.Rung != sandbox.PIDNamespace {
		return
	}
	all := b.o.Reaper.Born(time.Time{})
	const below, command = 1, 2
	in := map[int]int{p.child.PID(): below}
	for grown := true; grown; {
		grown = false
		for _, proc := range all {
			if in[proc.PID] != 0 || in[proc.PPID] == 0 || p.agent.Standing(proc.Argv) {
				continue
			}
			in[proc.PID], grown = in[proc.PPID], true
			if p.agent.Command(proc.Argv) {
				in[proc.PID] = command
			}
		}
	}
	found := map[process]bool{}
	for _, proc := range all {
		if in[proc.PID] == command {
			found[process{proc.PID, proc.Start}] = true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.turns { // one, and what steers it
		t.earlier = found
	}
}

// looks is how often it is looked whether anything is left while processes begin in the middle of each look.
const looks = 100

// leftOver lists what a turn left behind. That nothing was seen is sure only when nothing began while it was looked: what
// is begun in the middle of a look, by what ends in the middle of it, is not met.
func (b *Bridge) leftOver(p *agentProcess, t *turn) (left []sandbox.Proc, sure bool) {
	for range looks {
		began := b.o.Reaper.Begun()
		left = b.look(p, t)
		if sure = b.o.Reaper.Begun() == began; sure || len(left) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return left, sure
}

func (b *Bridge) look(p *agentProcess, t *turn) []sandbox.Proc {
	helper := b.helpers(p)
	left := slices.DeleteFunc(b.o.Reaper.Born(t.started), func(proc sandbox.Proc) bool {
		return proc.PID == p.child.PID() || helper(proc)
	})
	if len(t.earlier) == 0 {
		return left
	}
	met := map[process]bool{}
	for _, proc := range left {
		met[process{proc.PID, proc.Start}] = true
	}
	for _, proc := range b.o.Reaper.Born(time.Time{}) {
		if id := (process{proc.PID, proc.Start}); t.earlier[id] && !met[id] {
			left = append(left, proc)
		}
	}
	return left
}
