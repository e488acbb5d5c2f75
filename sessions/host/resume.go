package host

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// endPatience is how long a resume waits for the old processes to be gone.
const endPatience = 10 * time.Second

// Resume starts a new generation of a closed or failed session, under the same id, with every selection confirmed again.
func (h *Host) Resume(ctx context.Context, who sessions.Caller, a sessions.ResumeArgs) (sessions.ResumeResult, error) {
	if err := named(who); err != nil {
		return sessions.ResumeResult{}, err
	}
	if err := sessions.CheckUUID("session_id", a.SessionID); err != nil {
		return sessions.ResumeResult{}, err
	}
	wait, err := seconds(a.WaitSeconds, sessions.DefaultWaitSeconds)
	if err != nil {
		return sessions.ResumeResult{}, err
	}
	if err := checkSettings(&a.Settings); err != nil {
		return sessions.ResumeResult{}, err
	}
	if err := checkKey(a.Key); err != nil {
		return sessions.ResumeResult{}, err
	}
	mean := meaning("resume", a)
	if _, _, err := h.await(ctx, who.Principal, a.SessionID, max(wait, endPatience), func(tx *journal.Tx, v *sessions.Session) (bool, error) {
		if v.State.Live() {
			return true, nil
		}
		return ended(tx, a.SessionID) // the old processes may be on their way out
	}); err != nil {
		return sessions.ResumeResult{}, err
	}
	r := resumption{h: h, who: who, a: a, mean: mean, generation: sessions.NewID()}
	if err := r.prepare(ctx); err != nil {
		return sessions.ResumeResult{}, err
	}
	if err := h.update(ctx, r.apply); err != nil {
		r.forget()
		return sessions.ResumeResult{}, err
	}
	if !r.started {
		r.forget()
	}
	if r.started {
		failpoint.Hit("host.resume.durable")
		h.tend(a.SessionID, r.generation, nil, journal.Generation{})
	}
	res := sessions.ResumeResult{Settled: []sessions.Command{}}
	res.Session, _, err = h.await(ctx, who.Principal, a.SessionID, wait, func(tx *journal.Tx, v *sessions.Session) (bool, error) {
		res.Settled = res.Settled[:0]
		for _, id := range r.unknown {
			cmd, err := tx.GetCommand(a.SessionID, id)
			if err != nil {
				return false, err
			}
			if cmd.State.Terminal() || cmd.Acked {
				res.Settled = append(res.Settled, cmd.Command)
			}
		}
		if v.State == sessions.SessionFailed {
			return ended(tx, a.SessionID)
		}
		return v.State != sessions.SessionStarting, nil
	})
	if err == nil && res.Session.State == sessions.SessionFailed && res.Session.Error != nil {
		return res, res.Session.Error.With("session_id", a.SessionID)
	}
	return res, err
}

// resumption is one resume on its way.
type resumption struct {
	h          *Host
	who        sessions.Caller
	a          sessions.ResumeArgs
	mean       string
	generation string

	planned planned
	asked   sessions.Settings
	unknown []string
	turns   map[string]string // of those, by command
	started bool
}

type planned struct {
	set    bool
	runner config.Runner
	launch launch
}

func (r *resumption) forget() {
	r.h.mu.Lock()
	delete(r.h.launches, r.generation)
	r.h.mu.Unlock()
}

// resumed is what a resume came to, as its repetition finds it.
type resumed struct {
	Generation string   `json:"generation,omitempty"` // that it started
	Unknown    []string `json:"unknown,omitempty"`    // commands that it looked at

	Turns map[string]string `json:"turns,omitempty"` // of those, by command
}

// prepare makes the launch from what was asked before and what is asked now. A live session needs none, and a
// repetition only where an earlier host ended before the bridge had it.
func (r *resumption) prepare(ctx context.Context) error {
	var s journal.Session
	var g journal.Generation
	var op journal.Operation
	replayed := false
	if err := r.h.look(ctx, func(tx *journal.Tx) (err error) {
		if s, err = tx.GetSession(r.who.Principal, r.a.SessionID); err != nil {
			return err
		}
		if op, replayed, err = replay(tx, r.who, r.a.Key, "resume", r.mean); err != nil {
			return err
		}
		g, _, err = tx.LastGeneration(s.ID)
		return err
	}); err != nil {
		return err
	}
	if replayed {
		return r.again(s, g, op)
	}
	if s.State.Live() {
		return nil
	}
	return r.plan(s, g)
}

func (r *resumption) plan(s journal.Session, g journal.Generation) error {
	if err := r.h.roomForOne(); err != nil {
		return err
	}
	settings, err := merged(s, r.a.Settings)
	if err != nil {
		return err
	}
	if !isAccount(g.AccountDigest, accountEnv(r.who.Env, settings)) {
		return otherAccount(s.ID)
	}
	if len(r.who.Folders) > 0 && settings.Sandbox == sessions.SandboxFullAccess {
		return sessions.Errorf(sessions.CodeUnsupported, "session %s was asked for sandbox %s last, which is not for a caller who is bound to folders", s.ID, settings.Sandbox).
			Do("ask for another sandbox")
	}
	who := r.who
	if who.Folders, err = stillBound(s, who.Folders); err != nil {
		return err
	}
	w, err := r.h.workspaceAgain(who, s.Cwd, settings.WritableRoots, s.Settings.WritableRoots)
	if err != nil {
		return err
	}
	settings.WritableRoots = w.roots
	l, runner, err := r.h.plan(who, s.ID, r.generation, s.Runner, w, settings)
	if err != nil {
		return err
	}
	r.asked = settings
	r.planned = planned{set: true, runner: runner, launch: l}
	return nil
}

// again takes up what the first call came to.
func (r *resumption) again(s journal.Session, g journal.Generation, op journal.Operation) error {
	var was resumed
	if len(op.Result) > 0 {
		if err := json.Unmarshal(op.Result, &was); err != nil {
			return err
		}
	}
	r.unknown, r.turns = was.Unknown, was.Turns
	if was.Generation == "" || was.Generation != s.Generation {
		return nil
	}
	return r.h.relaunch(s.ID, was.Generation, func() (launch, error) {
		mine := r.generation
		r.generation = was.Generation
		defer func() { r.generation = mine }()
		if err := r.plan(s, g); err != nil {
			return launch{}, err
		}
		r.open(s)
		return r.planned.launch, nil
	})
}

// open fills in what the agent is to take up.
func (r *resumption) open(s journal.Session) {
	open := &r.planned.launch.spec.Open
	open.NativeID, open.HadTurn, open.Unknown, open.Turns = s.NativeID, s.HadTurn, r.unknown, r.turns
	if s.Spent != nil {
		open.Spent = *s.Spent
	}
	open.Replay = s.Origin == sessions.OriginAdopted && s.Containment.Rung == "" // its first start failed, and told nothing
}

// merged is what a resumed session is asked for: what was asked last, but for what is asked now. Secrets must be given
// again, since nothing kept them.
func merged(s journal.Session, now sessions.Settings) (sessions.Settings, error) {
	m := now
	was := s.Asked
	for _, f := range []struct {
		to   *string
		from string
	}{{&m.Model, was.Model}, {&m.Effort, was.Effort}, {&m.Mode, was.Mode}, {&m.Sandbox, was.Sandbox}, {&m.ApprovalPolicy, was.ApprovalPolicy},
		{&m.AutoAnswer, s.Settings.AutoAnswer}} {
		if *f.to == "" {
			*f.to = f.from
		}
	}
	if m.AutoAnswer == autoNone {
		m.AutoAnswer = ""
	}
	if m.WritableRoots == nil {
		m.WritableRoots = s.Settings.WritableRoots
	}
	if m.EnvUnset == nil {
		m.EnvUnset = s.Settings.EnvUnset
	}
	if m.RunnerOptions == nil {
		m.RunnerOptions = s.Settings.RunnerOptions
	}
	for _, name := range s.Settings.EnvNames {
		if _, ok := m.Env[name]; !ok {
			return m, sessions.Errorf(sessions.CodeInvalidParams, "the session was made with env %s, whose value was not kept", name).
				Do("give env again: %s", strings.Join(s.Settings.EnvNames, ", "))
		}
	}
	for _, name := range s.Settings.MCPServers {
		if !slices.ContainsFunc(m.MCPServers, func(x sessions.MCPServer) bool { return x.Name == name }) {
			return m, sessions.Errorf(sessions.CodeInvalidParams, "the session was made with MCP server %s, whose settings were not kept", name).
				Do("give mcp_servers again: %s", strings.Join(s.Settings.MCPServers, ", "))
		}
	}
	return m, nil
}

func (r *resumption) apply(tx *journal.Tx, c *changes) error {
	r.started = false
	s, err := tx.GetSession(r.who.Principal, r.a.SessionID)
	if err != nil {
		return err
	}
	if op, found, err := replay(tx, r.who, r.a.Key, "resume", r.mean); err != nil {
		return err
	} else if found {
		var was resumed
		if len(op.Result) > 0 {
			err = json.Unmarshal(op.Result, &was)
		}
		r.started = was.Generation == r.generation // a first run of this very update was recorded
		return err
	}
	r.unknown, r.turns = nil, nil
	if err := guard(s, r.a.Guard); err != nil {
		return err
	}
	unknown, err := tx.UnknownCommands(s.ID, true)
	if err != nil {
		return err
	}
	acked := 0
	for _, u := range unknown {
		if u.Acked && s.State.Live() {
			continue
		}
		r.unknown = append(r.unknown, u.CommandID)
		if u.Turn != "" {
			if r.turns == nil {
				r.turns = map[string]string{}
			}
			r.turns[u.CommandID] = u.Turn
		}
		if r.a.AcknowledgeUnknown && !u.Acked {
			acked++
			if _, err := tx.UpdateCommand(s.ID, u.CommandID, func(k *journal.Command) { k.Acked = true }); err != nil {
				return err
			}
		}
	}
	if r.a.RunQueue {
		if err := letGo(tx, s.ID); err != nil {
			return err
		}
	}
	ap := applier{h: r.h, session: s.ID, generation: r.generation}
	if s.State.Live() || s.State == sessions.SessionReserved {
		if err := r.applyLive(tx, c, s, acked); err != nil {
			return err
		}
	} else if err := r.applyStart(tx, c, s, &ap); err != nil {
		return err
	}
	if err := ap.flush(tx, c); err != nil || r.a.Key == "" {
		return err
	}
	was := resumed{Unknown: r.unknown, Turns: r.turns}
	if r.started {
		was.Generation = r.generation
	}
	result, err := json.Marshal(was)
	if err != nil {
		return err
	}
	return tx.PutOperation(journal.Operation{Principal: r.who.Principal, Key: r.a.Key, Verb: "resume", Scope: s.ID, Meaning: r.mean, State: "done", Result: result})
}

// applyLive is a resume of a session that lives: it can acknowledge, and let a paused queue go on, and nothing else.
func (r *resumption) applyLive(tx *journal.Tx, c *changes, s journal.Session, acked int) error {
	if !r.a.AcknowledgeUnknown && !r.a.RunQueue {
		return sessions.Errorf(sessions.CodeNotRunning, "session %s is %s; there is nothing to resume", s.ID, s.State).Do("send to it, or close it first")
	}
	c.touch(s.ID, acked > 0)
	if r.a.RunQueue && s.State == sessions.SessionIdle {
		ap := applier{h: r.h, session: s.ID, generation: s.Generation}
		if err := ap.dispatch(tx, c); err != nil {
			return err
		}
		return ap.flush(tx, c)
	}
	return nil
}

func (r *resumption) applyStart(tx *journal.Tx, c *changes, s journal.Session, ap *applier) error {
	if !r.planned.set {
		return sessions.Errorf(sessions.CodeIncomplete, "session %s ended while it was being resumed", s.ID).Do("call session_resume again")
	}
	g, found, err := tx.LastGeneration(s.ID)
	if err != nil {
		return err
	}
	if found && g.EndedAt.IsZero() {
		return sessions.Errorf(sessions.CodeBusy, "the old processes of session %s are still being stopped", s.ID).Do("call session_resume again in a moment")
	}
	if found && g.Verdict != string(sandbox.Confirmed) {
		if !r.a.AcceptUnconfirmed {
			return sessions.Errorf(sessions.CodeStopUnconfirmed, "the end of the old processes of session %s is not proven (%s)", s.ID, g.Proof).
				Do("see that they are gone, then resume with accept_unconfirmed")
		}
		ap.add(sessions.Event{Kind: sessions.EventWarning, At: tx.Now(), Code: sessions.CodeStopUnconfirmed,
			Text: "resumed over a generation whose end is not proven, as " + r.who.Principal + " accepted"})
	}
	if s.HadTurn && !s.Capability.Resume {
		return sessions.Errorf(sessions.CodeUnsupported, "runner %s cannot take up a conversation again", s.Runner).Do("create a new session")
	}
	r.open(s)
	if _, err := tx.UpdateSession(s.ID, func(s *journal.Session) {
		s.Asked, s.Settings = r.asked.Selection(), keptSettings(r.asked, boundTo(s.Settings.Folders, r.who.Folders))
	}); err != nil {
		return err
	}
	if err := r.h.begin(tx, c, s.ID, r.generation, s.Cwd, r.planned.runner, r.planned.launch, r.who, r.a.RunQueue); err != nil {
		return err
	}
	r.h.mu.Lock()
	r.h.launches[r.generation] = r.planned.launch
	r.h.mu.Unlock()
	r.started = true
	return nil
}
